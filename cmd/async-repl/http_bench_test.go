package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/mcp/client"
)

// floorOverHTTP is the value of playFloor that has the floor serve both eras over HTTP.
const floorOverHTTP = "http"

// serveFloorOverHTTP serves s at one URL. A handler of the SDK serves one era only.
func serveFloorOverHTTP(s *mcp.Server) error {
	get := func(*http.Request) *mcp.Server { return s }
	older := mcp.NewStreamableHTTPHandler(get, nil)
	newer := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "serving MCP at http://%s/mcp\n", l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= client.Newer {
			newer.ServeHTTP(w, r)
		} else {
			older.ServeHTTP(w, r)
		}
	}))
}

// wait is a tool of the floor. It answers after some seconds.
func wait(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct{ Seconds float64 }
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(args.Seconds * float64(time.Second))):
	case <-ctx.Done():
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "waited"}}}, nil
}

// pairOverHTTP starts a server and its floor, both over HTTP.
func pairOverHTTP(b *testing.B, version string) (ours, floor *started) {
	ours, floor = prepare(b, "REPL_PYTHON="+realPython()), prepare(b, playFloor+"="+floorOverHTTP)
	ours.cmd.Args = append(ours.cmd.Args, "-listen", "127.0.0.1:0")
	for _, s := range []*started{ours, floor} {
		s.begin()
		s.Client = s.join(version, "")
	}
	return ours, floor
}

// inEachEra runs a benchmark in both eras.
func inEachEra(b *testing.B, run func(b *testing.B, ours, floor *started)) {
	for _, version := range []string{client.Older, client.Newer} {
		b.Run(version, func(b *testing.B) {
			ours, floor := pairOverHTTP(b, version)
			run(b, ours, floor)
		})
	}
}

// Aim: 1.3x the SDK's echo, in each era.
func BenchmarkListOverHTTP(b *testing.B) {
	inEachEra(b, func(b *testing.B, ours, floor *started) {
		comparePaired(b, func() { ours.do("list_jobs") }, func() { floor.do("echo") })
	})
}

// Aim: 2.0x the SDK's echo, as the lower quartile of paired blocks.
func BenchmarkExecuteOverHTTP(b *testing.B) {
	inEachEra(b, func(b *testing.B, ours, floor *started) {
		ours.do("execute_python", "code", "x=1") // the session starts with its first job
		comparePaired(b, func() { ours.do("execute_python", "code", "x=1") }, func() { floor.do("echo") })
	})
}

// Aim: 0.8x the calls a second of the SDK's echo, on 16 connections.
func BenchmarkManyConnections(b *testing.B) {
	const connections, callsOfEach = 16, 100
	inEachEra(b, func(b *testing.B, ours, floor *started) {
		rate := func(s *started, tool string) float64 {
			begin := time.Now()
			var group sync.WaitGroup
			for range connections {
				group.Go(func() {
					for range callsOfEach {
						if _, err := s.Call(b.Context(), tool, nil); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			return connections * callsOfEach / time.Since(begin).Seconds()
		}
		var ratios, rates []float64
		for b.Loop() {
			for range pairedBlocks {
				m, f := rate(ours, "list_jobs"), rate(floor, "echo")
				ratios, rates = append(ratios, m/f), append(rates, m)
			}
		}
		slices.Sort(ratios)
		slices.Sort(rates)
		b.ReportMetric(ratios[len(ratios)*3/4], "x-floor-upper-quartile")
		b.ReportMetric(ratios[len(ratios)/2], "x-floor-median")
		b.ReportMetric(rates[len(rates)/2], "calls/s")
	})
}

// Aims: 1,000 waits of 3 s at once are all answered by 3.5 s, and the server's memory is at most
// 1.3x that of the SDK's server under the same.
func BenchmarkThousandWaits(b *testing.B) {
	const waits, seconds = 1000, 3
	inEachEra(b, func(b *testing.B, ours, floor *started) {
		id := ours.do("execute_command_async", "command", "exec sleep 1000", "wait_seconds", 0).Header("Job ID")
		last := func(s *started, tool string, args ...any) time.Duration {
			begin := time.Now()
			var group sync.WaitGroup
			for range waits {
				group.Go(func() {
					if _, err := s.Call(b.Context(), tool, pairs(args)); err != nil {
						b.Error(err)
					}
				})
			}
			group.Wait()
			return time.Since(begin)
		}
		var took, theirs time.Duration
		for b.Loop() {
			took = max(took, last(ours, "check_job_status", "job_id", id, "wait_seconds", seconds))
			theirs = max(theirs, last(floor, "wait", "seconds", seconds))
		}
		m, f := peak(b, ours.cmd.Process.Pid), peak(b, floor.cmd.Process.Pid)
		b.ReportMetric(took.Seconds(), "s-to-last-answer")
		b.ReportMetric(theirs.Seconds(), "s-to-last-answer-floor")
		b.ReportMetric(float64(m)/float64(f), "x-floor-memory")
		b.ReportMetric(float64(m)/1024, "MiB")
	})
}

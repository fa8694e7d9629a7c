package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// BenchmarkCall measures the round trip of a call over a socket. Its floor is a tool of an SDK
// server that does nothing, over the same transport.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b)
	ours := func(ctx context.Context, conn net.Conn) error { return serve(ctx, conn, w.config, engine.Scope{}, 0) }
	floor := func(ctx context.Context, conn net.Conn) error {
		s := mcp.NewServer(&mcp.Implementation{Name: "floor", Version: "0"}, nil)
		s.AddTool(&mcp.Tool{Name: "execute_python", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return delivery.Text(report.Textf("x"), false), nil
			})
		session, err := s.Connect(ctx, &stdio.Transport{Stream: conn}, nil)
		if err != nil {
			return err
		}
		return session.Wait()
	}
	for _, bench := range []struct {
		name  string
		serve func(context.Context, net.Conn) error
		tool  string
		args  given
	}{
		{"floor", floor, "execute_python", given{"code": ""}},
		{"execute_python", ours, "execute_python", given{"code": `result "1"`}},
		{"list_variables", ours, "list_variables", nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := w.serve(bench.serve)
			c.handshake()
			b.ReportAllocs()
			for b.Loop() {
				c.call(bench.tool, bench.args)
			}
		})
	}
}

// BenchmarkPoll measures a status call, whose cost must not grow with the output of the job.
func BenchmarkPoll(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20, 256 << 20} {
		w := newWorld(b)
		c := w.dial(engine.Scope{})
		j := w.job(c.call("execute_command_async", given{"command": code(fmt.Sprintf("fill %d", size), "hang"), "wait_seconds": 0}))
		for j.Log().Stat().End < int64(size) {
			if err := j.Log().Wait(b.Context(), j.Log().Stat().End); err != nil {
				b.Fatal(err)
			}
		}
		for name, a := range map[string]given{
			"newest":    {"job_id": j.ID()},
			"new bytes": {"job_id": j.ID(), "cursor": size - 100},
		} {
			b.Run(fmt.Sprintf("%s of %d KiB", name, size>>10), func(b *testing.B) {
				for b.Loop() {
					if got := c.call("check_job_status", a); !strings.HasSuffix(got, "0123456789abcde\n") {
						b.Fatal(got)
					}
				}
			})
		}
		j.Stop(jobs.Stop{By: jobs.Agent})
	}
}

// BenchmarkPicture reads a picture of 25 kB and of 1 MB from a job's reply. The floor is a line of
// as many bytes over a socket, read in the same way. Aim: 5 and 10 ms.
func BenchmarkPicture(b *testing.B) {
	for _, size := range []int{25_000, 1_000_000} {
		w := newWorld(b)
		c := w.dial(engine.Scope{})
		c.request("tools/call", map[string]any{"name": "execute_python", "arguments": given{"code": fmt.Sprintf("pictures 1 %d", size)}})
		id := w.jobs.List(jobs.Filter{})[0].ID
		b.Run(fmt.Sprintf("%d kB", size/1000), func(b *testing.B) {
			for b.Loop() {
				c.startCall("check_job_status", given{"job_id": id, "cursor": 0})
				if line, err := c.lines.ReadBytes('\n'); err != nil || len(line) < size {
					b.Fatal(len(line), err)
				}
			}
		})
	}
}

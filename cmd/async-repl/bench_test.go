package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/kernel/procfs"
)

// playFloor makes the test binary play the smallest server that the SDK allows.
const playFloor = "ASYNC_REPL_TEST_PLAY_FLOOR"

// serveFloor is that server. Its tool echo answers at once.
func serveFloor() int {
	s := mcp.NewServer(&mcp.Implementation{Name: "floor", Version: "0"}, nil)
	schema := map[string]any{"type": "object"}
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ok"}}}, nil
	})
	s.AddTool(&mcp.Tool{Name: "wait", InputSchema: schema}, wait)
	serve := func() error { return s.Run(context.Background(), &mcp.StdioTransport{}) }
	if os.Getenv(playFloor) == floorOverHTTP {
		serve = func() error { return serveFloorOverHTTP(s) }
	}
	if err := serve(); err != nil {
		return 1
	}
	return 0
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// compare runs the measured operation and its floor in turn, so that both see a drift of the
// machine alike, and reports the medians and their difference.
func compare(b *testing.B, measured, floor func() time.Duration) {
	var ours, theirs []time.Duration
	for b.Loop() {
		ours = append(ours, measured())
		theirs = append(theirs, floor())
	}
	m, f := median(ours), median(theirs)
	b.ReportMetric(float64(m)/float64(f), "x-floor")
	b.ReportMetric(float64(m-f)/1e6, "ms-over-floor")
	b.ReportMetric(float64(m)/1e6, "ms")
}

// startTime returns the time from the start of a server to its first answer.
func startTime(b *testing.B, env ...string) time.Duration {
	begin := time.Now()
	s := startServer(b, env...)
	d := time.Since(begin)
	s.stop()
	s.exit()
	return d
}

// Aim: within 1.1x of an empty SDK server.
func BenchmarkStartToFirstAnswer(b *testing.B) {
	compare(b,
		func() time.Duration { return startTime(b) },
		func() time.Duration { return startTime(b, playFloor+"=1") })
}

// realPython returns the interpreter that python3 is, past any version manager.
var realPython = sync.OnceValue(func() string {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out))
})

// Aim: bare python3 -c plus 40 ms, in an environment that exists.
func BenchmarkStartToFirstPython(b *testing.B) {
	python := realPython()
	compare(b,
		func() time.Duration {
			begin := time.Now()
			s := startServer(b, "REPL_PYTHON="+python)
			r := s.do("execute_python", "code", "6 * 7")
			d := time.Since(begin)
			if err := r.Expect("completed", "42"); err != nil {
				b.Fatal(err)
			}
			s.stop()
			s.exit()
			return d
		},
		func() time.Duration { return barePython(b, python) })
}

// barePython returns how long an interpreter takes to print a number.
func barePython(b *testing.B, python string) time.Duration {
	begin := time.Now()
	cmd := exec.Command(python, "-c", "print(6 * 7)")
	cmd.Env = withoutSettings(os.Environ())
	if out, err := cmd.Output(); err != nil || string(out) != "42\n" {
		b.Fatal(err, out)
	}
	return time.Since(begin)
}

// Aim: bare python3 -c plus 40 ms.
func BenchmarkFirstResultOfASession(b *testing.B) {
	s := startServer(b)
	compare(b,
		func() time.Duration {
			begin := time.Now()
			r := s.do("execute_python", "code", "6 * 7", "session", "new")
			d := time.Since(begin)
			if err := r.Expect("completed", "42"); err != nil {
				b.Fatal(err)
			}
			s.do("delete_session", "session", "new")
			return d
		},
		func() time.Duration { return barePython(b, realPython()) })
}

// Aim: 3 MB more private memory than an interpreter that waits. Both run the same files, so that
// what they share of them is shared for both.
func BenchmarkIdleSession(b *testing.B) {
	s := startServer(b)
	bare := exec.Command(realPython(), "-c", "print(6 * 7, flush=True); input()")
	bare.Env = withoutSettings(os.Environ())
	in, err := bare.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := bare.StdoutPipe()
	if err == nil {
		err = bare.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() { in.Close(); bare.Wait() }()
	if _, err := out.Read(make([]byte, 3)); err != nil {
		b.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(s.do("execute_python", "code", "import os; os.getpid()").Section("RESULT")))
	if err != nil {
		b.Fatal(err)
	}
	var ours, floor int64
	for b.Loop() {
		ours, floor = privateMemory(b, pid), privateMemory(b, bare.Process.Pid)
	}
	b.ReportMetric(float64(ours)/1e6, "MB")
	b.ReportMetric(float64(ours-floor)/1e6, "MB-over-floor")
}

func privateMemory(b *testing.B, pid int) int64 {
	n, err := procfs.PrivateMemory(pid)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// Blocks of a paired measurement: long enough that a block's median is steady, short enough that
// both halves of a pair see the same machine.
const (
	pairedBlocks  = 15
	callsPerBlock = 30
)

// comparePaired alternates blocks of calls of the measured operation and of its floor. It reports
// the lower quartile of the blocks' ratios: the speed of a shared machine wanders by half, and the
// pairs that saw a quiet one say what the program costs.
func comparePaired(b *testing.B, measured, floor func()) {
	block := func(call func()) time.Duration {
		took := make([]time.Duration, callsPerBlock)
		for i := range took {
			begin := time.Now()
			call()
			took[i] = time.Since(begin)
		}
		return median(took)
	}
	var ratios []float64
	var ours []time.Duration
	for b.Loop() {
		for range pairedBlocks {
			m, f := block(measured), block(floor)
			ratios, ours = append(ratios, float64(m)/float64(f)), append(ours, m)
		}
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/4], "x-floor-lower-quartile")
	b.ReportMetric(ratios[len(ratios)/2], "x-floor-median")
	b.ReportMetric(float64(median(ours))/1e6, "ms")
}

// Aim: 2.0x the round trip of the SDK's echo, as the lower quartile of paired blocks.
func BenchmarkExecuteOverStdio(b *testing.B) {
	s := startServer(b)
	floor := startServer(b, playFloor+"=1")
	s.do("execute_python", "code", "x=1") // the session starts with its first job
	comparePaired(b,
		func() { s.do("execute_python", "code", "x=1") },
		func() { floor.do("echo") })
}

// Aim: 1.05x the same job in a session without pyplot, as the lower quartile of paired blocks.
func BenchmarkJobWithPyplot(b *testing.B) {
	setting := withMatplotlib(b)
	s, floor := startServer(b, setting), startServer(b, setting)
	s.do("execute_python", "code", "import matplotlib.pyplot", "wait_seconds", 60)
	floor.do("execute_python", "code", "x=1", "wait_seconds", 60)
	comparePaired(b,
		func() { s.do("execute_python", "code", "x=1") },
		func() { floor.do("execute_python", "code", "x=1") })
}

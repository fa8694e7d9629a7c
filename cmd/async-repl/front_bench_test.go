package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// playCopy makes the test binary play a front that only copies bytes, before a server of one
// process.
const playCopy = "ASYNC_REPL_TEST_PLAY_COPY"

// serveCopy is that front.
func serveCopy() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(withoutSettings(os.Environ()), "REPL_KEEPER=off", "REPL_STATE_DIR="+os.Getenv("REPL_STATE_DIR"), playCopy+"=")
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	go func() { // ends with the client
		io.CopyBuffer(struct{ io.Writer }{in}, struct{ io.Reader }{os.Stdin}, make([]byte, 64<<10))
		in.Close()
	}()
	io.CopyBuffer(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{out}, make([]byte, 64<<10))
	cmd.Wait()
	return 0
}

// Aim: 1.1x of an empty SDK server, with a front.
func BenchmarkFrontStartToFirstAnswer(b *testing.B) {
	compare(b,
		func() time.Duration { return startTime(b, "REPL_KEEPER=on") },
		func() time.Duration { return startTime(b, playFloor+"=1") })
}

// Aim: one process + 6 ms.
func BenchmarkFrontStartToFirstCommand(b *testing.B) {
	first := func(keeper string) func() time.Duration {
		return func() time.Duration {
			begin := time.Now()
			s := startServer(b, "REPL_KEEPER="+keeper, "REPL_LINGER=0")
			r := s.do("execute_command_async", "command", "echo hi")
			d := time.Since(begin)
			if err := r.Expect("completed", "hi"); err != nil {
				b.Fatal(err)
			}
			s.stop()
			s.exit()
			return d
		}
	}
	compare(b, first("on"), first("off"))
}

// Aim: a front that only copies bytes + 0.02 ms. The call does as little as a call of an engine
// can.
func BenchmarkFrontCall(b *testing.B) {
	for name, floor := range map[string][]string{"beside a copy": {playCopy + "=1"}, "beside one process": {"REPL_KEEPER=off"}} {
		b.Run(name, func(b *testing.B) {
			s, f := startServer(b, "REPL_KEEPER=on", "REPL_LINGER=0"), startServer(b, floor...)
			call := func(s *started) func() time.Duration {
				s.do("list_jobs")
				return func() time.Duration {
					const calls = 100
					begin := time.Now()
					for range calls {
						s.do("list_jobs")
					}
					return time.Since(begin) / calls
				}
			}
			compare(b, call(s), call(f))
		})
	}
}

// ship builds the program as it is shipped, and returns its path.
func ship(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "async-repl")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return path
}

// Aims: unused as one process; used + 3 MiB.
func BenchmarkFrontMemory(b *testing.B) {
	shipped := ship(b)
	tree := func(keeper string, used bool) (kib int) {
		s := prepare(b, "REPL_KEEPER="+keeper, "REPL_LINGER=0")
		s.cmd.Path, s.cmd.Args = shipped, []string{shipped}
		s.open()
		if used {
			s.do("execute_command_async", "command", "echo hi")
		}
		for _, pid := range family(s.cmd.Process.Pid) {
			kib += pss(b, pid)
		}
		s.stop()
		s.exit()
		return kib
	}
	for name, used := range map[string]bool{"unused": false, "used": true} {
		b.Run(name, func(b *testing.B) {
			var ours, one int
			for b.Loop() {
				ours += tree("on", used)
				one += tree("off", used)
			}
			b.ReportMetric(float64(ours)/1024/float64(b.N), "MiB")
			b.ReportMetric(float64(ours-one)/1024/float64(b.N), "MiB-over-one-process")
		})
	}
}

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/test/must"
)

// confinedServer starts a server in a sandbox for a benchmark.
func confinedServer(b *testing.B, env ...string) *started {
	b.Helper()
	s := prepare(b, append([]string{"REPL_PYTHON=" + realPython()}, env...)...)
	s.confine()
	s.open()
	return s
}

// Aim: 1.02x of a server without a sandbox.
func BenchmarkSandboxStartToFirstAnswer(b *testing.B) {
	compare(b,
		func() time.Duration { return startTime(b, "REPL_SANDBOX=workspace") },
		func() time.Duration { return startTime(b) })
}

// Aim: without a sandbox, plus 1.5x of bubblewrap alone.
func BenchmarkSandboxStartToFirstCommand(b *testing.B) {
	first := func(start func() *started) func() time.Duration {
		return func() time.Duration {
			begin := time.Now()
			s := start()
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
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	alone := func() time.Duration {
		begin := time.Now()
		out, err := exec.Command("bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net",
			"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true").CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		return time.Since(begin)
	}
	without := first(func() *started { return startServer(b) })
	compare(b,
		first(func() *started { return confinedServer(b) }),
		func() time.Duration { return without() + alone()*3/2 })
}

// Aims: 1.05x of a server without a sandbox.
func BenchmarkSandboxJobs(b *testing.B) {
	for name, call := range map[string]struct {
		tool string
		args []any
	}{
		"echo":   {"execute_command_async", []any{"command", "echo hi"}},
		"assign": {"execute_python", []any{"code", "x=1"}},
		"lines":  {"execute_command_async", []any{"command", "seq 30000", "wait_seconds", 30}},
	} {
		b.Run(name, func(b *testing.B) {
			do := func(s *started) func() {
				return func() {
					if r := s.do(call.tool, call.args...); r.Header("Status") != "completed" {
						b.Fatal(r)
					}
				}
			}
			comparePaired(b, do(confinedServer(b)), do(startServer(b)))
		})
	}
}

// Aims: 4 MiB over the front's; with a list of hosts that jobs have used, 8 MiB.
func BenchmarkSandboxMemory(b *testing.B) {
	shipped := ship(b)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 8<<20)) }))
	defer web.Close()
	for name, hosts := range map[string]string{"alone": "", "hosts": "packages," + web.Listener.Addr().String()} {
		b.Run(name, func(b *testing.B) {
			outer, front := 0, 0
			for b.Loop() {
				s := prepare(b, "REPL_SANDBOX_NET="+hosts)
				s.confine()
				s.cmd.Path, s.cmd.Args = shipped, []string{shipped}
				s.open()
				s.do("execute_command_async", "command", "echo hi")
				if hosts != "" {
					fetch := fmt.Sprintf(`for i in 1 2 3 4 5 6 7 8; do env -u no_proxy -u NO_PROXY curl -sS %s | wc -c & done; wait`, web.URL)
					if r := s.do("execute_command_async", "command", fetch, "wait_seconds", 50); strings.Count(string(r), strconv.Itoa(8<<20)) != 8 {
						b.Fatal(r)
					}
				}
				outer += pss(b, outerOf(b, s))
				front += pss(b, s.cmd.Process.Pid)
				s.stop()
				s.exit()
			}
			b.ReportMetric(float64(outer)/1024/float64(b.N), "MiB")
			b.ReportMetric(float64(outer-front)/1024/float64(b.N), "MiB-over-front")
		})
	}
}

// outerOf returns the process that has started the sandbox of a server.
func outerOf(t testing.TB, s *started) int {
	t.Helper()
	for _, pid := range family(s.cmd.Process.Pid) {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && strings.Contains(string(line), "\x00"+outerCommand+"\x00") {
			return pid
		}
	}
	t.Fatal("there is no outer process")
	return 0
}

// Aim: the outer process does not wake up while jobs run that print nothing, also if an engine of another
// workspace waits for a client. The floor is the front, which waits, too: the Go runtime wakes both.
func BenchmarkSandboxIdle(b *testing.B) {
	s := confinedServer(b, "REPL_MAX_JOBS=500")
	for range 500 {
		s.do("execute_command_async", "command", "sleep 1000", "wait_seconds", 0)
	}
	other := startEngineIn(b, os.Getenv("XDG_RUNTIME_DIR"), "REPL_LINGER=1h")
	other.run("x = 1")
	other.lose()
	outer, front := outerOf(b, s), s.cmd.Process.Pid
	time.Sleep(evictDelay + time.Second) // the start is over then
	switches, floor := 0, 0
	for b.Loop() {
		switches, floor = switches-switchesOf(b, outer), floor-switchesOf(b, front)
		time.Sleep(time.Minute)
		switches, floor = switches+switchesOf(b, outer), floor+switchesOf(b, front)
	}
	b.ReportMetric(float64(switches)/float64(b.N), "wakeups/min")
	b.ReportMetric(float64(floor)/float64(b.N), "wakeups-of-front/min")
}

// switchesOf returns how often the threads of a process have waited.
func switchesOf(b *testing.B, pid int) (n int) {
	b.Helper()
	tasks := must.Get(os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task"))(b)
	for _, task := range tasks {
		status := must.Get(os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + task.Name() + "/status"))(b)
		_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		n += must.Get(strconv.Atoi(strings.Fields(rest)[0]))(b)
	}
	return n
}

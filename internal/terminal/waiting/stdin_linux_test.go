package waiting

import (
	"os/exec"
	"syscall"
	"testing"

	"asyncrepl/internal/terminal/stdin"
	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// startPiped runs a script of bash with a pipe as its standard input, until the test's end. The
// script has closed its standard output just before it begins to wait.
func startPiped(t testing.TB, script string) (program, *stdin.Pipe) {
	t.Helper()
	pipe, theirs := must.Get2(stdin.Open())(t)
	t.Cleanup(pipe.Close)
	defer theirs.Close()
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Stdin = theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must.Do(t, cmd.Start())
	p := program{&ttytest.Program{PID: cmd.Process.Pid}}
	t.Cleanup(func() {
		all := p.Tree()
		for _, pid := range all {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		cmd.Wait()
		polltest.Until(t, "the processes to end", func() bool {
			for _, pid := range all {
				if s := ttytest.State(pid); s != "" && s != "Z" {
					return false
				}
			}
			return true
		})
	})
	return p, pipe
}

// TestPipes scans programs whose standard input is a pipe that the server writes.
func TestPipes(t *testing.T) {
	for name, c := range map[string]struct {
		want   verdict
		sent   string // before the scan
		script string
	}{
		"read":                  {waits, "", `read x`},
		"read again":            {waits, "one\n", `read x; read x`},
		"read the rest":         {waits, "half", `read x`},
		"child":                 {waits, "", `cat; :`},
		"by another descriptor": {waits, "", `exec 7<&0 </dev/null; read -u 7 x`},
		"of a pipeline":         {waits, "", `cat | sort`},
		"beside others":         {waits, "", `exec 3<&0; sleep 1000 & read x`},
		"poll":                  {waits, "", `exec python3 -c 'import select; select.select([0], [], [])'`},
		"poll beside a process at rest": {waits, "", `
exec 3< <(sleep 1000); exec python3 -c 'import select; select.select([0, 3], [], [])'`},

		"a writer in the job": {accepts, "", `exec 3<>/proc/self/fd/0; read x`},
		"poll beside a process at work": {accepts, "", `
exec 3< <(while sleep 0.01; do :; done); exec python3 -c 'import select; select.select([0, 3], [], [])'`},
		"briefly": {looping, "", `exec python3 -c '
import select
while True: select.select([0], [], [], 0.1)'`},

		"sleeps":                            {busy, "", `sleep 1000`},
		"sleeps with input":                 {busy, "one\n", `sleep 1000`},
		"reads another pipe":                {busy, "", `sleep 1000 | cat`},
		"reads what another process writes": {busy, "", `exec < <(sleep 1000); read x`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, pipe := startPiped(t, c.script)
			if c.sent != "" {
				must.Do(t, pipe.Send(t.Context(), c.sent, false))
			}
			kind := kindLine
			if c.want == busy {
				kind = ""
			}
			p.holds(t, pipe, c.want, kind)
		})
	}
}

// After the end of file, a read of the pipe is about to end, even if no program has run since.
func TestClosedPipeIsNotWaitedFor(t *testing.T) {
	p, pipe := startPiped(t, `read x; exec sleep 1000`)
	p.holds(t, pipe, waits, kindLine)
	syscall.Kill(p.PID, syscall.SIGSTOP)
	polltest.Until(t, "a stop", func() bool { return ttytest.State(p.PID) == "T" })
	must.Do(t, pipe.Send(t.Context(), "", true))
	syscall.Kill(p.PID, syscall.SIGCONT)
	for range 50 {
		if ev, ok := scanOnce(pipe, p.Tree()); ok {
			t.Fatalf("taken for waiting: %+v", ev)
		}
	}
}

//go:build linux

package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/child"
	"asyncrepl/internal/process/guard"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// If a server is killed, nothing remains, and the guard ends last.
func TestServerKilled(t *testing.T) {
	tests := []struct {
		name, script string // %[1]s is the tag
		count        int
		scanned      bool // the server has scanned its children since
		frozen       bool // the guard is stopped before the server is killed
	}{
		{"children", `sleep %[1]s & sleep %[1]s`, 2, false, false},
		{"a stopped guard", `sleep %[1]s & sleep %[1]s`, 2, false, true},
		{"ignores all", `trap '' TERM HUP INT; sleep %[1]s & while :; do sleep 0.05; done`, 1, false, false},
		{"nohup", `nohup sleep %[1]s >/dev/null 2>&1 & wait`, 1, false, false},
		{"setsid", `setsid sleep %[1]s & wait`, 1, false, false},
		{"double fork", `(setsid sleep %[1]s >/dev/null 2>&1 </dev/null &) ; (nohup sleep %[1]s >/dev/null 2>&1 &) ; wait; sleep 1000`, 2, false, false},
		{"stopped", `sleep %[1]s & kill -STOP $$; wait`, 1, false, false},
		{"env -i", `env -i nohup sleep %[1]s >/dev/null 2>&1 & wait`, 1, false, false},
		{"env -i setsid", `(env -i setsid sleep %[1]s >/dev/null 2>&1 </dev/null &) ; sleep 1000`, 1, true, false},
		{"left behind", `setsid bash -c 'env -i setsid sleep %[1]s & sleep %[1]s' >/dev/null 2>&1 </dev/null & until [ "$(cut -d' ' -f6 /proc/$!/stat)" = $! ]; do :; done; exit`, 2, true, false},
		{"env -i setsid below a living process", `nohup bash -c 'env -i setsid sleep %[1]s & wait' >/dev/null 2>&1 & wait`, 1, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tag := tag()
			argv := self("part-server", fmt.Sprintf(tt.script, tag))
			server := exec.Command(argv[0], argv[1:]...)
			stdin, err := server.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := server.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			server.Stderr = os.Stderr
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			defer server.Wait()
			defer server.Process.Kill()
			ps := grown(t, tag, tt.count)
			if tt.scanned { // the orphans have come to the server
				polltest.Until(t, "the orphans", func() bool {
					return slices.ContainsFunc(ps, func(p procfs.Process) bool {
						e, _ := inspect(p.PID)
						parent, _ := inspect(e.Parent)
						return e.Parent == server.Process.Pid || parent.Parent == server.Process.Pid
					})
				})
			}
			if _, err := stdin.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			guard, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			polltest.Until(t, "the guard to be up", func() bool { return ignoring(guard) })
			for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
				syscall.Kill(-guard, sig) // none of these ends it
			}
			if tt.frozen {
				syscall.Kill(guard, syscall.SIGSTOP)
				polltest.Until(t, "the guard to stop", func() bool { e, _ := inspect(guard); return e.State == 'T' })
			}
			server.Process.Kill()
			server.Wait()
			polltest.Until(t, "the guard to end", func() bool { e, ok := inspect(guard); return !ok || e.Ended() })
			gone(t, tag) // it ends last
		})
	}
}

// ignoring reports whether the guard ignores all the signals that it should. It sets one after
// another.
func ignoring(pid int) bool {
	d, err := procfs.DispositionOf(pid, syscall.SIGTTOU) // the last one that it ignores
	return err == nil && d.Ignored
}

func newGuardedOwner(t *testing.T) *Owner {
	o := must.Get(NewOwner(guarded()))(t)
	t.Cleanup(o.Shutdown)
	return o
}

// The next start of a process replaces a guard that has died, noticed or not, and sends the new one
// everything again.
func TestStartReplacesTheGuard(t *testing.T) {
	o := newGuardedOwner(t)
	tag := tag()
	j := onPipe(t, o, "job", `trap '' TERM HUP; sleep `+tag+` & wait`)
	grown(t, tag, 1)
	for i := range 20 {
		dead := o.guard.pid()
		must.Do(t, syscall.Kill(dead, syscall.SIGKILL))
		polltest.Until(t, "its death", func() bool { e, ok := inspect(dead); return !ok || e.Ended() })
		if i == 0 { // its end is noticed, and it is not replaced for that
			polltest.Until(t, "the notice", func() bool { return o.guard.pid() == 0 })
		}
		must.Get(o.Start(Spec{Argv: []string{"true"}, Env: testEnv}))(t)
		if pid := o.guard.pid(); pid == 0 || pid == dead {
			t.Fatalf("guard %d after %d", pid, dead)
		}
	}
	o.guard.close(false)
	if got := ends(t, j.Handle); got.Signal != syscall.SIGKILL {
		t.Errorf("got %+v, want SIGKILL by the guard", got)
	}
	polltest.Until(t, "the rest", func() bool { return len(tagged(tag)) == 0 })
}

// A stopped guard is continued by the next start, and by the end of its owner.
func TestStoppedGuardIsContinued(t *testing.T) {
	o := newGuardedOwner(t)
	stopped := func() bool { e, _ := inspect(o.guard.pid()); return e.State == 'T' }
	j := onPipe(t, o, "job", "sleep 1000")
	for range 2 {
		polltest.Until(t, "the guard to be up", func() bool { return ignoring(o.guard.pid()) })
		must.Do(t, syscall.Kill(o.guard.pid(), syscall.SIGSTOP))
		polltest.Until(t, "it to stop", stopped)
		onPipe(t, o, "other", "true")
		polltest.Until(t, "it to be continued", func() bool { return !stopped() })
	}
	must.Do(t, syscall.Kill(o.guard.pid(), syscall.SIGSTOP))
	polltest.Until(t, "it to stop", stopped)
	o.guard.close(false)
	if got := ends(t, j.Handle); got.Signal != syscall.SIGKILL {
		t.Errorf("got %+v, want SIGKILL by the guard", got)
	}
}

// A guard that does not read its pipe delays nothing for long. It is replaced, and kills none of
// the processes that it answered for.
func TestStuckGuardIsReplaced(t *testing.T) {
	o := newGuardedOwner(t)
	j := onPipe(t, o, "job", "sleep 1000")
	old := o.guard.pid()
	must.Do(t, syscall.Kill(old, syscall.SIGSTOP))
	o.guard.mu.Lock()
	o.guard.limit = 50 * time.Millisecond
	o.guard.mu.Unlock()
	for i := 0; o.guard.pid() == old; i++ { // until its pipe is full
		p := procfs.Process{PID: 1<<22 + 1 + i%10, Start: 1}
		o.guard.add(p)
		o.guard.forget(p)
	}
	onPipe(t, o, "other", "sleep 1000")
	if pid := o.guard.pid(); pid == 0 || pid == old {
		t.Errorf("guard %d after %d", pid, old)
	}
	if over(j.Done()) {
		t.Error("the job ended with the guard")
	}
}

func TestStartWithoutAGuard(t *testing.T) {
	o := must.Get(NewOwner(Config{Guard: []string{"/no/such/guard"}}))(t)
	defer o.Shutdown()
	h := must.Get(o.Start(Spec{Argv: []string{"true"}, Env: testEnv}))(t)
	if got := ends(t, h); got != (Exit{}) {
		t.Errorf("got %+v", got)
	}
}

func (g *guardLink) knows(p procfs.Process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.added[p.PID].Start == p.Start
}

// The guard learns of an orphan even if no caller scans and no child dies.
func TestGuardLearnsOfOrphans(t *testing.T) {
	o := newGuardedOwner(t)
	tag := tag()
	onPipe(t, o, "job", `(env -i setsid sleep `+tag+` </dev/null >/dev/null 2>&1 &) ; exec sleep 1000`)
	p := grown(t, tag, 1)[0]
	polltest.Until(t, "the guard to know", func() bool { return o.guard.knows(p) })
}

// The guard learns of a session that a scan has seen, even while its parents live, and forgets it
// with its last process.
func TestGuardLearnsOfSessions(t *testing.T) {
	o := newGuardedOwner(t)
	tag := tag()
	j := onPipe(t, o, "job", `env -i setsid bash -c 'sleep `+tag+` & wait' & wait; exec sleep 1000`)
	p := grown(t, tag, 1)[0]
	j.Tree()
	e, ok := inspect(p.PID)
	leader, ok2 := inspect(e.Session)
	if !ok || !ok2 || !o.guard.knows(leader.Process) {
		t.Fatalf("the guard does not know %v, session of %v", leader, e)
	}
	leader.Process.Signal(syscall.SIGKILL)
	polltest.Until(t, "its end", func() bool { _, ok := inspect(leader.PID); return !ok })
	j.Tree()
	if !o.guard.knows(leader.Process) {
		t.Error("the guard does not know the session whose leader has ended")
	}
	p.Signal(syscall.SIGKILL)
	polltest.Until(t, "the guard to forget", func() bool { reaper.scan(); j.Tree(); return !o.guard.knows(leader.Process) })
}

// The guard learns of sessions that only the periodic scans see, however many trees there are.
func TestGuardLearnsOfSessionsInTurn(t *testing.T) {
	o := newGuardedOwner(t)
	tag := tag()
	for range treesPerPeriod + 1 {
		onPipe(t, o, "job", `env -i setsid sleep `+tag+` & wait`)
	}
	ps := grown(t, tag, treesPerPeriod+1)
	reaper.scanSome() // as each period does
	reaper.scanSome()
	for _, p := range ps {
		if !o.guard.knows(p) {
			t.Errorf("the guard does not know %v", p)
		}
	}
}

// The guard forgets every process that has ended, also one that a scan of its tree has seen and
// reports when the tree is gone.
func TestGuardForgetsEndedProcesses(t *testing.T) {
	o := newGuardedOwner(t)
	stop := make(chan struct{})
	var scans sync.WaitGroup
	scans.Go(func() { // ends with the test
		for !over(stop) {
			reaper.scanSome()
		}
	})
	for range 20 {
		j := onTTY(t, o, "job", "(setsid sleep 0.01 &) ; setsid sleep 0.02 & sleep 0.01 & exit")
		j.Tree()
		ends(t, j.Handle)
		j.Stop(Ladder{})
	}
	close(stop)
	scans.Wait()
	reaper.scan()
	o.guard.mu.Lock()
	defer o.guard.mu.Unlock()
	if len(o.guard.added) > 0 {
		t.Errorf("the guard still watches %v", o.guard.added)
	}
}

// Shutdown says to the guard whether a process can be left. If none is, the guard need not scan. On a
// busy machine Shutdown can be late to find out: then it logs that, and the guard has to scan.
func TestGuardNeedNotScan(t *testing.T) {
	polltest.Check(t, func() error {
		var warned bytes.Buffer
		lines := filepath.Join(t.TempDir(), "lines")
		o := must.Get(NewOwner(Config{
			Guard: []string{"/bin/sh", "-c", `exec cat >"$LINES"`}, GuardEnv: append(testEnv, "LINES="+lines),
			Log: slog.New(slog.NewTextHandler(&warned, nil)),
		}))(t)
		onPipe(t, o, "job", "sleep 1000")
		o.Shutdown()
		if warned.Len() > 0 {
			return errors.New(warned.String())
		}
		polltest.Until(t, "the end of the guard's lines", func() bool {
			b, _ := os.ReadFile(lines)
			return strings.HasSuffix(string(b), "\n"+guard.Ended())
		})
		return nil
	})
}

// After Shutdown has begun, no process is started that it could miss, not even by a Start that began
// before.
func TestNoStartAfterShutdown(t *testing.T) {
	o := newOwner(t)
	o.Shutdown()
	if _, err := o.Start(Spec{Argv: []string{"true"}, Env: testEnv}); !errors.Is(err, ErrShutdown) {
		t.Errorf("got %v, want %v", err, ErrShutdown)
	}
	err := reaper.launch(&o.closed, "/bin/true", []string{"true"}, &os.ProcAttr{}, func(*child.Child) { t.Error("started") })
	if !errors.Is(err, ErrShutdown) {
		t.Error(err)
	}
}

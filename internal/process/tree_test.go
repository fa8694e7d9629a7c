//go:build linux

package process

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/process/procset"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/racetest"
)

func TestTree(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	j := onTTY(t, o, "job", `sleep `+tag+` & (sleep `+tag+` & wait) & nohup setsid sleep `+tag+` & (setsid -f sleep `+tag+`); wait`)
	grown(t, tag, 4)
	polltest.Until(t, "the double fork's orphan, and the end of its parent", func() bool {
		reaper.scan()
		tree := programs(j.Tree())
		return strings.Count(tree, "sleep") == 4 && !strings.Contains(tree, "setsid")
	})
	if got, want := programs(j.Tree()), "bash bash sleep sleep sleep sleep"; got != want {
		t.Errorf("tree: got %s, want %s", got, want)
	}
	if got, want := programs(j.Descendants()), "bash sleep sleep sleep"; got != want {
		t.Errorf("descendants: got %s, want %s", got, want)
	}
	for i, p := range j.Tree() {
		if i > 0 && p.Parent != j.PID() && !slices.ContainsFunc(j.Tree()[:i], func(q procfs.Process) bool { return q.PID == p.Parent }) && p.Parent != os.Getpid() {
			t.Errorf("%+v comes before its parent", p)
		}
	}
}

// A child that other code of this program started in our session is neither adopted nor reaped.
func TestChildrenOfOtherCode(t *testing.T) {
	o := newOwner(t)
	j := onPipe(t, o, "job", `sleep 1000`)
	cmd := exec.Command("sh", "-c", "read x; exit 9")
	stdin := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	reaper.scan()
	stdin.Close()
	polltest.Until(t, "a zombie", func() bool { e, ok := inspect(cmd.Process.Pid); return ok && e.Ended() })
	reaper.scan()
	end(t, j.Handle)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("waiting for it: %v, want exit 9", err)
	}
}

func isEmpty(o *Owner) bool {
	es, err := o.scan()
	return err == nil && len(es) == 0
}

// With many short programs and orphans beside os/exec, every exit status is right and nothing is
// left.
func TestQuickStarts(t *testing.T) {
	const hands = 12
	starts := 600
	switch {
	case testing.Short():
		starts = 24
	case racetest.Enabled: // .ci/long makes them all
		starts = 60
	}
	o := newOwner(t)
	polltest.Until(t, "the guards of earlier tests to end", func() bool {
		reaper.mu.Lock()
		defer reaper.mu.Unlock()
		return len(reaper.started) == 0
	})
	tag := tag()
	var wg sync.WaitGroup
	for hand := range hands {
		wg.Go(func() {
			for i := hand; i < starts; i += hands {
				code := i % 200
				if i%5 == 0 { // os/exec reaps its own child
					if err := exec.Command("sh", "-c", fmt.Sprintf("exit %d", code+1)).Run(); err == nil || err.Error() != fmt.Sprintf("exit status %d", code+1) {
						t.Errorf("os/exec: %v, want exit status %d", err, code+1)
					}
				}
				script := fmt.Sprintf("(setsid sh -c 'exit 99' &) ; (setsid sleep %s >/dev/null 2>&1 &) ; (sh -c 'exit 98' &) ; exit %d", tag, code)
				h, err := o.Start(Spec{Argv: []string{"sh", "-c", script}, Env: testEnv, Mark: fmt.Sprint("job", i)})
				if err != nil {
					t.Error(err)
					continue
				}
				if got := h.Exit(); got != (Exit{Code: code}) {
					t.Errorf("got %+v, want exit %d", got, code)
				}
				end(t, h)
			}
		})
	}
	wg.Wait()
	polltest.Until(t, "nothing to be left", func() bool { reaper.scan(); return len(tagged(tag)) == 0 && isEmpty(o) })
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	if len(reaper.handles) > 0 || len(reaper.started) > 0 {
		t.Errorf("%d handles and %d children are still in the table", len(reaper.handles), len(reaper.started))
	}
}

func TestSettle(t *testing.T) {
	tests := []struct {
		name, script string // %[1]s is the tag
		hungUp, left string
	}{
		{"nothing", `true`, "", ""},
		{"background", `sleep %[1]s & up $!; sleep %[1]s & up $!; exit`, "sleep sleep", ""},
		{"nohup", `nohup sleep %[1]s >/dev/null & up $!`, "", "sleep"},
		{"setsid", `setsid sleep %[1]s & up $!`, "", "sleep"},
		{"catches", `python3 -c 'import signal, time; signal.signal(signal.SIGHUP, lambda *_: None); print("up"); time.sleep(1000)' & read`, "", "python3"},
		{"tree", `python3 -c 'import subprocess, time; p = subprocess.Popen(["sleep", "%[1]s"]); print("up"); time.sleep(1000)' & read`, "python3 sleep", ""},
		{"both", `sleep %[1]s & up $!; nohup sleep %[1]s >/dev/null & up $!`, "sleep", "sleep"},
		{"other group", `set -m; nohup sleep %[1]s >/dev/null & up $!`, "", "sleep"},
	}
	const up = "up() { until grep -qx sleep /proc/$1/comm; do :; done; }; export -f up\n"
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOwner(t)
			tag := tag()
			script := tt.script
			if strings.Contains(script, "%[1]s") {
				script = fmt.Sprintf(script, tag)
			}
			o.settle = 2 * patience // Settle does not wait for processes that are decided
			j := onTTY(t, o, "job", up+script)
			if strings.HasSuffix(script, "read") {
				j.says(t, "up")
				j.pty.Master().WriteString("\n")
			}
			ends(t, j.Handle)
			before := time.Now()
			hungUp, left := j.Settle()
			took := time.Since(before)
			if programs(hungUp) != tt.hungUp || programs(left) != tt.left {
				t.Errorf("hung up %q, want %q; left %q, want %q", programs(hungUp), tt.hungUp, programs(left), tt.left)
			}
			if took > patience {
				t.Errorf("it took %v", took)
			}
			if c := j.Stop(Ladder{From: ladder.Terminate}); c.Survivors != nil {
				t.Errorf("survivors %v", c.Survivors)
			}
			gone(t, tag)
		})
	}
}

// A process that surely dies gets more than the 50 ms of one that only may, but not for ever.
func TestDoomedGetMoreTime(t *testing.T) {
	o := newOwner(t)
	j := onTTY(t, o, "job", `echo up; read`)
	j.says(t, "up")
	j.Signal(syscall.SIGSTOP) // so that it does not die of what it gets
	polltest.Until(t, "the leader to stop", func() bool { e, _ := inspect(j.PID()); return e.State == 'T' })
	e, _ := inspect(j.PID())
	e.State = 'S' // as if no processor had run it since
	for _, step := range []struct {
		sig            syscall.Signal
		at, in, beyond bool // at once, after the 50 ms, after 2 s
	}{{0, true, false, false}, {syscall.SIGHUP, true, true, false}} {
		j.Signal(step.sig)
		for waited, want := range map[time.Duration]bool{0: step.at, 2 * settleLimit: step.in, 2 * procset.CheckLimit: step.beyond} {
			o.settle = patience
			if waited > 0 {
				o.settle = settleLimit
			}
			if got := j.worthWaiting([]procfs.Stat{e}, j.undecided, time.Now().Add(-waited)); got != want {
				t.Errorf("after signal %d and %v: worth waiting: %v, want %v", step.sig, waited, got, want)
			}
		}
	}
	j.Stop(Ladder{From: ladder.Kill})
}

// Processes that the leader's end hung up are named also if another scan runs before the leader has
// been reaped.
func TestHungUpBeforeReaped(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	pty := newPTY(t)
	h := &Handle{owner: o, tty: pty, mark: "job", done: make(chan struct{}), treeGone: make(chan struct{})}
	attr := &os.ProcAttr{Env: testEnv, Files: slices.Repeat([]*os.File{pty.Slave()}, 3), Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true}}
	script := `sleep ` + tag + ` & until grep -qx sleep /proc/$!/comm; do :; done; exit`
	must.Do(t, reaper.launch(nil, "/bin/bash", []string{"bash", "-c", script}, attr, h.enter))
	polltest.Until(t, "the hung up process to be reaped", func() bool {
		reaper.scan()
		reaper.mu.Lock()
		defer reaper.mu.Unlock()
		return h.reapedOrphans == 1
	})
	if e, ok := inspect(h.PID()); !ok || !e.Ended() {
		t.Errorf("the leader: got %+v, %v, want a zombie", e, ok)
	}
	h.follow()
	if hungUp, left, err := h.Settle(); programs(hungUp) != "sleep" || left != nil || err != nil {
		t.Errorf("hung up %v, want a sleep; left %v", hungUp, left)
	}
	gone(t, tag)
}

// Without a terminal nothing is hung up, and Settle does not wait.
func TestSettleOnPipes(t *testing.T) {
	o := newOwner(t)
	j := onPipe(t, o, "job", `sleep `+tag()+` & until grep -qx sleep /proc/$!/comm; do :; done; exit 3`)
	if got := ends(t, j.Handle); got.Code != 3 {
		t.Fatalf("got %+v, want exit 3", got)
	}
	hungUp, left := j.Settle()
	if programs(hungUp) != "" || programs(left) != "sleep" {
		t.Errorf("hung up %v, left %v", hungUp, left)
	}
}

// The handle of a process is that whose tree it is in: as the leader, below it, or as an orphan with a session
// of its own that no scan has seen yet.
func TestHandleOf(t *testing.T) {
	o, other := newOwner(t), must.Get(NewOwner(Config{}))(t)
	t.Cleanup(other.Shutdown)
	beside := onTTY(t, o, "beside", "read x")
	j := onTTY(t, o, "job", `(setsid bash -c 'echo "orphan $$."; sleep 1000' &); sleep 1000 & echo "child $!."; wait`)
	j.says(t, "orphan ")
	j.says(t, "child ")
	pid := func(name string) int {
		_, rest, _ := strings.Cut(j.output(), name+" ")
		number, _, _ := strings.Cut(rest, ".")
		return must.Get(strconv.Atoi(number))(t)
	}
	polltest.Until(t, "the orphan to come to us", func() bool {
		e, ok := inspect(pid("orphan"))
		return ok && e.Parent == os.Getpid()
	})
	for _, pid := range []int{j.PID(), pid("child"), pid("orphan")} {
		if h := o.HandleOf(pid); h != j.Handle || h.Mark() != "job" {
			t.Errorf("process %d is of %+v", pid, h)
		}
		if h := other.HandleOf(pid); h != nil {
			t.Errorf("another owner has process %d in %+v", pid, h)
		}
	}
	if h := o.HandleOf(beside.PID()); h != beside.Handle {
		t.Errorf("the other leader is of %+v", h)
	}
	left := onPipe(t, o, "left", "setsid sleep 1000 >/dev/null 2>&1 &") // its leader's pid is free
	ends(t, left.Handle)
	if h := reaper.handleOf(left.PID()); h != nil {
		t.Errorf("a leader that has ended is of %+v", h)
	}
	ended := pid("child")
	end(t, j.Handle)
	for _, pid := range []int{-1, 0, 1, os.Getpid(), os.Getppid(), ended} {
		if h := o.HandleOf(pid); h != nil {
			t.Errorf("process %d is of %+v", pid, h)
		}
	}
}

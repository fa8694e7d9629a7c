package waiting

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/threads"
	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// A verdict that depends on another process at rest holds only if neither it nor the program has
// run since.
func TestProcessesAtRestHaveNotRun(t *testing.T) {
	program, other := start(t, []string{"sleep", "1000"}), start(t, []string{"sleep", "1000"})
	for _, pid := range []int{program.PID, other.PID} {
		polltest.Until(t, "a sleep", func() bool { return ttytest.State(pid) == "S" })
	}
	for name, c := range map[string]struct {
		change func(*ends)
		want   error
	}{
		"none has run":            {func(*ends) {}, nil},
		"the program has":         {func(e *ends) { e.clock-- }, threads.ErrMoved},
		"the other has":           {func(e *ends) { e.clocks[other.PID]-- }, threads.ErrMoved},
		"the other is new":        {func(e *ends) { delete(e.clocks, other.PID) }, threads.ErrMoved},
		"one beside them has":     {func(e *ends) { e.clocks[os.Getpid()] = 0 }, nil},
		"one beside them is gone": {func(e *ends) { e.probe.pids = append(e.probe.pids, 1<<22+1) }, threads.ErrMoved},
		"no other was examined":   {func(e *ends) { e.resting = nil; e.clock-- }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnds(&probe{input: inputOf(program.PTY), pids: []int{program.PID, other.PID, os.Getpid()}}, program.PID)
			if rests, err := e.rests(other.PID); !rests || err != nil {
				t.Fatalf("it rests: %t, %v", rests, err)
			}
			c.change(e)
			if err := e.confirm(); err != c.want {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// A process that has ended just now has closed its files, and its parent may not know yet. One that
// ended before the processes were examined was no longer there, for the parent too.
func TestEndedProcessesCountOnlyOnce(t *testing.T) {
	program := start(t, []string{"sleep", "1000"})
	parent := start(t, []string{"python3", "-c", `
import os, signal
pid = os.fork()
if pid:
    print("started", pid, ".", flush=True)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    print("ended", flush=True)
signal.pause()`})
	parent.WaitPrinted(t, " .")
	var child int
	must.Get(fmt.Sscanf(parent.Printed(), "started %d", &child))(t)
	polltest.Until(t, "the child to wait", func() bool { return ttytest.State(child) == "S" })
	var e *ends
	parentRests := func() bool {
		e = newEnds(&probe{input: inputOf(program.PTY), pids: []int{program.PID, parent.PID, child}}, program.PID)
		rests, err := e.rests(parent.PID)
		return rests && err == nil && e.confirm() == nil
	}
	polltest.Until(t, "the parent to rest", parentRests)
	unix.Kill(child, unix.SIGKILL)
	parent.WaitPrinted(t, "ended")
	if err := e.confirm(); err != threads.ErrMoved {
		t.Errorf("a child has ended since: %v, want %v", err, threads.ErrMoved)
	}
	polltest.Until(t, "the parent to rest again", parentRests)
	e = newEnds(&probe{input: inputOf(program.PTY), pids: []int{program.PID, parent.PID}}, program.PID)
	if rests, err := e.rests(parent.PID); !rests || err != nil {
		t.Errorf("a child that was not listed had ended before: %t, %v", rests, err)
	}
}

// A child that was started after the processes were listed can hold any end.
func TestNewChildIsNoRest(t *testing.T) {
	program := start(t, []string{"sleep", "1000"})
	parent := start(t, []string{"bash", "-c", "sleep 1000; :"})
	polltest.Until(t, "a child", func() bool {
		tree := parent.Tree()
		return len(tree) == 2 && ttytest.State(tree[0]) == "S" && ttytest.State(tree[1]) == "S"
	})
	for name, c := range map[string]struct {
		pids []int
		want error
	}{"listed": {parent.Tree(), nil}, "new": {[]int{parent.PID}, threads.ErrMoved}} {
		t.Run(name, func(t *testing.T) {
			polltest.Until(t, "the answer", func() bool {
				e := newEnds(&probe{input: inputOf(program.PTY), pids: append(c.pids, program.PID)}, program.PID)
				rests, err := e.rests(parent.PID)
				if rests && c.want != nil {
					t.Fatal("it rests")
				}
				return err == c.want && rests == (c.want == nil)
			})
		})
	}
}

// A process that hides its files can hold any end, and what hides the end of a wait is named.
func TestHiddenFilesCanBeAnyEnd(t *testing.T) {
	p := start(t, []string{"sleep", "1000"})
	for name, hides := range map[string]bool{"hidden": true, "all seen": false} {
		t.Run(name, func(t *testing.T) {
			var why string
			polltest.Until(t, "an answer", func() (ok bool) {
				e := newEnds(&probe{input: inputOf(p.PTY), pids: []int{p.PID}}, os.Getpid())
				e.held = &holders{of: map[string][]holder{"pipe:[1]": {{pid: p.PID, writes: true}}}, hidden: hides}
				var err error
				why, err = e.holdersLive("pipe:[1]", "outside", func(h holder) bool { return h.writes })
				return err == nil && (why == "" || hides)
			})
			if hides != (why == hiddenHolder) {
				t.Errorf("got %q", why)
			}
		})
	}
}

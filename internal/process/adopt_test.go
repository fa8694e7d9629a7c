//go:build linux

package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// forked returns a job whose script forks twice. The orphan leads its own session on the terminal
// pty, reports its pid, and runs rest in the same bash, with the environment of the job.
func forked(t *testing.T, o *Owner, pty *tty.PTY, rest string) (j *job, orphan procfs.Process) {
	t.Helper()
	return forkedBy(t, o, pty, "setsid", rest)
}

// forkedBy is forked with another command than setsid, which can take the environment away.
func forkedBy(t *testing.T, o *Owner, pty *tty.PTY, setsid, rest string) (j *job, orphan procfs.Process) {
	t.Helper()
	j = onTTY(t, o, "parent", fmt.Sprintf(`exec 3>&1; (%s bash -c 'exec <>%s >&0 2>&1; echo pid=$$. >&3; exec 3>&-; %s' &); read x`,
		setsid, pty.Slave().Name(), rest))
	j.says(t, ".")
	_, number, _ := strings.Cut(j.output(), "pid=")
	s, ok := inspect(must.Get(strconv.Atoi(number[:strings.Index(number, ".")]))(t))
	if !ok {
		t.Fatal("the orphan has ended")
	}
	orphaned(t, s.Process)
	return j, s.Process
}

// adopt adopts a process, whose output it reads.
func adopt(t *testing.T, o *Owner, p procfs.Process, pty *tty.PTY) *job {
	t.Helper()
	h := must.Get(o.Adopt(p.PID, Spec{TTY: pty, Mark: "branch"}))(t)
	j := &job{Handle: h, pty: pty}
	j.pump = pump.Shared(pty.Master(), j.write)
	t.Cleanup(func() {
		end(t, h)
		j.pump.Close()
	})
	return j
}

func TestAdoptedOrphanHasItsTrueExit(t *testing.T) {
	o := newOwner(t)
	for end, want := range map[string]Exit{
		"exit 7":        {Code: 7},
		"kill -SEGV $$": {Code: -1, Signal: syscall.SIGSEGV},
		"kill -KILL $$": {Code: -1, Signal: syscall.SIGKILL},
	} {
		pty := newPTY(t)
		_, p := forked(t, o, pty, "read x; "+end)
		b := adopt(t, o, p, pty)
		say(t, pty, "\n")
		if got := ends(t, b.Handle); got != want {
			t.Errorf("%s: got %+v, want %+v", end, got, want)
		}
	}
}

// Scans that run at the same time neither reap the orphan nor take it for one again.
func TestAdoptionIsOneStepForScans(t *testing.T) {
	o := newOwner(t)
	pty := newPTY(t)
	j, p := forked(t, o, pty, "read x")
	say(t, pty, "\n")
	polltest.Until(t, "its end", func() bool { reaper.scan(); _, ok := inspect(p.PID); return !ok })
	if _, err := o.Adopt(p.PID, Spec{TTY: pty}); err == nil {
		t.Error("an orphan that a scan had reaped was adopted")
	}
	for range 10 {
		pty := newPTY(t)
		_, p := forked(t, o, pty, "read x; exit 7")
		stop := make(chan struct{})
		var scans sync.WaitGroup
		for range 2 {
			scans.Go(func() {
				for !over(stop) {
					reaper.scan()
					j.Tree()
				}
			})
		}
		say(t, pty, "\n") // it may end before, or while, it is adopted
		h, err := o.Adopt(p.PID, Spec{TTY: pty})
		if err == nil {
			if got := ends(t, h); got != (Exit{Code: 7}) {
				t.Errorf("got %+v", got)
			}
		} else if e, ok := inspect(p.PID); ok {
			t.Errorf("%v, and it is there: %+v", err, e)
		}
		close(stop)
		scans.Wait()
	}
}

// An adopted process leaves the tree that it was forked in: the end of either does not touch the
// other, and what it starts belongs to it alone.
func TestAdoptedOrphanHasATreeOfItsOwn(t *testing.T) {
	for _, first := range []string{"the parent", "the adopted"} {
		t.Run(first, func(t *testing.T) {
			o := newOwner(t)
			tag := tag()
			pty := newPTY(t)
			parent, p := forked(t, o, pty, "sleep "+tag+" & setsid sleep "+tag+" & wait")
			grown(t, tag, 2)
			if !slices.ContainsFunc(parent.Tree(), same(p)) {
				t.Fatalf("the orphan is not in the tree of its parent: %v", parent.Tree())
			}
			b := adopt(t, o, p, pty)
			if got, want := programs(b.Tree()), "bash sleep sleep"; got != want {
				t.Errorf("tree of the adopted: got %s, want %s", got, want)
			}
			if got, want := programs(parent.Tree()), "bash"; got != want {
				t.Errorf("tree of the parent: got %s, want %s", got, want)
			}
			ended, other := parent, b
			if first == "the adopted" {
				ended, other = b, parent
			}
			if r := ended.Stop(Ladder{From: ladder.Kill}); len(r.Survivors) > 0 || r.Err != nil {
				t.Errorf("survivors %v, error %v", r.Survivors, r.Err)
			}
			if over(other.Done()) {
				t.Error("the other has ended too")
			}
			if left := len(tagged(tag)); (left == 2) != (ended == parent) {
				t.Errorf("%d of the children of the adopted are left", left)
			}
		})
	}
}

// A process that an adopted one forks shows the environment of the parent, so its mark is the
// parent's: the terminal decides.
func TestTerminalIsAskedBeforeTheMark(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	pty := newPTY(t)
	parent, p := forked(t, o, pty, "read x; (ASYNC_REPL_JOB=parent setsid sleep "+tag+" &); read x")
	b := adopt(t, o, p, pty)
	say(t, pty, "\n")
	child := grown(t, tag, 1)[0]
	orphaned(t, child)
	if !slices.ContainsFunc(b.Tree(), same(child)) || slices.ContainsFunc(parent.Tree(), same(child)) {
		t.Errorf("%v: tree of the adopted %v, of the parent %v", child, b.Tree(), parent.Tree())
	}
}

func TestAdoptRefuses(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	pty := newPTY(t)
	parent, p := forked(t, o, pty, "sleep "+tag+" & read x")
	child := grown(t, tag, 1)[0]
	for name, c := range map[string]struct {
		pid int
		pty *tty.PTY
	}{
		"a started process":    {parent.PID(), parent.pty},
		"another terminal":     {p.PID, newPTY(t)},
		"not our child":        {child.PID, pty},
		"a process of no tree": {1, pty},
		"ourselves":            {os.Getpid(), pty},
	} {
		if _, err := o.Adopt(c.pid, Spec{TTY: c.pty}); err == nil {
			t.Errorf("%s was adopted", name)
		}
	}
	if !slices.ContainsFunc(parent.Tree(), same(p)) {
		t.Errorf("the orphan left the tree: %v", parent.Tree())
	}
	o.Shutdown()
	if _, err := o.Adopt(p.PID, Spec{TTY: pty}); err == nil {
		t.Error("adopted after the shutdown")
	}
	gone(t, tag)
}

// The guard watches an adopted process although the tree that it left watched it before.
func TestGuardWatchesTheAdopted(t *testing.T) {
	o := newGuardedOwner(t)
	pty := newPTY(t)
	parent, p := forked(t, o, pty, "sleep 1000 & wait")
	parent.Tree()
	b := adopt(t, o, p, pty)
	for range 2 {
		parent.Tree()
		b.Tree()
	}
	end(t, parent.Handle)
	reaper.scan()
	if !o.guard.knows(p) {
		t.Error("the guard does not know it")
	}
	o.guard.close(false)
	if got := ends(t, b.Handle); got.Signal != syscall.SIGKILL {
		t.Errorf("got %+v, want SIGKILL by the guard", got)
	}
}

// untied returns an orphan that leads its own session on the terminal pty, and that the jobs of two
// Owners could have started.
func untied(t *testing.T, o *Owner, other *job, pty *tty.PTY) procfs.Process {
	t.Helper()
	for { // again, if a scan saw it before its parents had ended, or before it had closed the job's terminal
		j, p := forkedBy(t, o, pty, "env -i setsid", "read x; exit 7")
		if slices.ContainsFunc(o.Unattributed(), same(p)) && slices.ContainsFunc(other.owner.Unattributed(), same(p)) {
			return p
		}
		j.Stop(Ladder{From: ladder.Kill})
	}
}

// An orphan that is adopted, or is about to be, outlives another Owner whose guard watched it
// because a job of that could have started it.
func TestGuardOfAnotherOwnerSparesTheAdopted(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when+" the other's end", func(t *testing.T) {
			o := newOwner(t)
			another := must.Get(NewOwner(guarded()))(t)
			t.Cleanup(another.Shutdown)
			other := onTTY(t, another, "other", "read x")
			pty := newPTY(t)
			p := untied(t, o, other, pty)
			var adopted *job
			if when == "before" {
				adopted = adopt(t, o, p, pty)
			}
			guard := another.guard.pid()
			another.Shutdown()
			polltest.Until(t, "the end of the guard", func() bool { _, ok := inspect(guard); return !ok })
			if e, ok := inspect(p.PID); !ok || e.Ended() || e.Start != p.Start {
				t.Fatalf("the orphan is gone: %+v", e)
			}
			if adopted == nil {
				adopted = adopt(t, o, p, pty)
			}
			say(t, pty, "\n")
			if got := ends(t, adopted.Handle); got != (Exit{Code: 7}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

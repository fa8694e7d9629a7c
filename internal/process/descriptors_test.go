//go:build linux

package process

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/test/fdtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/racetest"

	"golang.org/x/sys/unix"
)

// A child that must move the highest possible descriptor finds no number above it.
func TestStartWithTheHighestDescriptor(t *testing.T) {
	o := newOwner(t)
	const highest = 1000
	defer fdtest.Limit(t, highest+1)()
	fd := must.Get(unix.FcntlInt(o.null.Fd(), unix.F_DUPFD_CLOEXEC, highest))(t)
	f := os.NewFile(uintptr(fd), "highest")
	defer f.Close()
	_, err := o.Start(Spec{Argv: []string{"/bin/true"}, Files: []*os.File{nil, f, nil}})
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("got %v, want %v", err, syscall.EMFILE)
	}
}

// While the table of descriptors is full and starts race for each descriptor that is freed, no
// process is taken for gone: neither the tree of a job, nor the process that a job left, nor the
// guard. A stop either proves that the tree is gone or says that it could not be checked.
func TestExhaustedDescriptors(t *testing.T) {
	rounds := 200
	switch {
	case testing.Short():
		rounds = 15
	case racetest.Enabled: // .ci/long makes them all
		rounds = 40
	}
	o := newGuardedOwner(t)
	tag := tag()
	runs := onPipe(t, o, "runs", "sleep "+tag+" & wait")
	left := onPipe(t, o, "left", "setsid sleep "+tag+" & exit 0")
	ends(t, left.Handle)
	grown(t, tag, 2)
	guard := o.guard.pid()

	restore := fdtest.Exhaust(t)
	f, openErr := os.Open("/")
	endRace := race(t, o)
	for range rounds {
		tree, err := runs.Handle.Tree()
		if got := programs(tree); err == nil && got != "bash sleep" || !strings.Contains(got, "bash") {
			t.Errorf("the tree of the running job is %q, error %v", got, err)
		}
		leftTree, err := left.Handle.Tree()
		if got := programs(leftTree); err == nil && got != "sleep" || got == "" { // after an error it has an earlier name
			t.Errorf("the tree of the ended job is %q, error %v", got, err)
		}
		o.guard.ensure()
		if over(left.TreeGone()) {
			t.Fatal("the tree of the ended job is taken for gone")
		}
	}
	result := runs.Stop(Ladder{From: ladder.Kill})
	ended := over(runs.Done())
	endRace()
	restore()

	if openErr == nil {
		f.Close()
		t.Error("the table was not full")
	}
	if len(result.Survivors) > 0 || result.Err == nil && !ended {
		t.Errorf("stopped with survivors %v, error %v, ended %v", result.Survivors, result.Err, ended)
	}
	if now := o.guard.pid(); now != guard {
		t.Errorf("the guard was %d, then %d", guard, now)
	}
	end(t, runs.Handle)
	end(t, left.Handle)
	gone(t, tag)
}

// race has four goroutines start programs without pause, until end. Most starts fail if the table
// of descriptors is full.
func race(t *testing.T, o *Owner) (end func()) {
	stop := make(chan struct{})
	var racers sync.WaitGroup
	for range 4 {
		racers.Go(func() {
			for !over(stop) {
				h, err := o.Start(Spec{Argv: []string{"/bin/true"}, Env: testEnv, Mark: "racer"})
				switch {
				case err == nil:
					h.Exit()
				case !errors.Is(err, syscall.EMFILE):
					t.Errorf("a start failed with %v, want %v", err, syscall.EMFILE)
				}
			}
		})
	}
	return func() { close(stop); racers.Wait() }
}

// If the children of this program can't be listed, Settle and Stop say so after 2 s and name no
// survivors, nothing is proven gone, and a later stop ends the tree.
func TestUncheckedTree(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for limits of 2 s")
	}
	o := newOwner(t)
	tag := tag()
	j := onTTY(t, o, "job", `setsid sleep `+tag+` & read x`)
	grown(t, tag, 1)
	cause := errors.New("no descriptor")
	list := func(f func() ([]int, error)) {
		reaper.scanning.Lock()
		defer reaper.scanning.Unlock()
		reaper.children = f
	}
	list(func() ([]int, error) { return nil, cause })
	defer list(ownChildren)
	finish(t, j)

	var settled, stopped error
	var left, survivors []procfs.Process
	var both sync.WaitGroup
	both.Go(func() { _, left, settled = j.Handle.Settle() })
	both.Go(func() {
		r := j.Stop(Ladder{From: ladder.Terminate})
		survivors, stopped = r.Survivors, r.Err
	})
	both.Wait()
	for what, err := range map[string]error{"Settle": settled, "Stop": stopped} {
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "could not be checked") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if left != nil || survivors != nil || over(j.TreeGone()) {
		t.Errorf("left %v, survivors %v, tree gone: %v", left, survivors, over(j.TreeGone()))
	}
	list(ownChildren)
	end(t, j.Handle)
	gone(t, tag)
}

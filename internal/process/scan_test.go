//go:build linux

package process

import (
	"bytes"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"asyncrepl/internal/test/polltest"
)

// Callers that wait for a scan share the next one: a thousand Owners that end at once must not list
// the children of the program a thousand times.
func TestCallersShareAScan(t *testing.T) {
	const callers = 100
	var lists atomic.Int64
	begun, goOn := make(chan struct{}), make(chan struct{})
	r := &processReaper{children: func() ([]int, error) {
		if lists.Add(1) == 1 {
			close(begun)
			<-goOn
		}
		return nil, nil
	}}
	var all sync.WaitGroup
	all.Go(func() { r.scan() }) // ends with its scan, as do the others
	<-begun
	for range callers {
		all.Go(func() { sharedByThisTest(r) })
	}
	polltest.Until(t, "all to wait", func() bool { return waiting("sharedByThisTest") == callers })
	close(goOn)
	all.Wait()
	if got := lists.Load(); got != 2 {
		t.Errorf("%d lists of children, want the first caller's and one for all others", got)
	}
}

// A scan ends although each of its rounds finds and reaps another orphan, as with a fork bomb:
// whoever ends the bomb waits for the scan.
func TestScanOfABombEnds(t *testing.T) {
	lists := 0
	r := &processReaper{handles: make(map[*Handle]bool), orphans: make(map[int]*orphan)}
	r.children = func() ([]int, error) {
		if lists++; lists > 10*scanRounds {
			return nil, nil
		}
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
		if err != nil {
			return nil, err
		}
		defer p.Release() // the scan reaps it
		polltest.Until(t, "its end", func() bool { e, ok := inspect(p.Pid); return ok && e.Ended() })
		return []int{p.Pid}, nil
	}
	if err := r.scan(); err != nil || r.reaped.Load() != scanRounds {
		t.Errorf("error %v; %d orphans reaped in %d rounds, want %d", err, r.reaped.Load(), lists, scanRounds)
	}
}

// sharedByThisTest is a name in the stacks of the callers.
//
//go:noinline
func sharedByThisTest(r *processReaper) { r.scan() }

// waiting returns how many goroutines with a function on their stacks wait for a channel or a lock.
func waiting(function string) (n int) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		head, _, _ := bytes.Cut(stack, []byte("\n"))
		blocked := bytes.Contains(head, []byte("[chan receive")) || bytes.Contains(head, []byte("[sync.Mutex.Lock"))
		if blocked && bytes.Contains(stack, []byte("."+function+"(")) {
			n++
		}
	}
	return n
}

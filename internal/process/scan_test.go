//go:build linux

package process

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"asyncrepl/internal/polltest"
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

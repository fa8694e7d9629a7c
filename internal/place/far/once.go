package far

import (
	"context"
	"sync"
)

// A once carries out each request once: a request with an id comes again if its link was lost, and gets the answer of
// the first then. A once remembers the newest answers only.
type once[T any] struct {
	mu    sync.Mutex
	byID  map[string]*answer[T]
	order []string // all ids, the oldest first
}

// answersKept is how many answers a once remembers.
const answersKept = 1000

type answer[T any] struct {
	known chan struct{} // closed when value is set
	value T
}

func newOnce[T any]() *once[T] { return &once[T]{byID: make(map[string]*answer[T])} }

// do returns the answer to the request with that id. The first call makes the answer by f, however long that takes.
// The others wait for it until ctx is done.
func (o *once[T]) do(ctx context.Context, id string, f func() T) (T, error) {
	o.mu.Lock()
	a, again := o.byID[id]
	if !again {
		a = &answer[T]{known: make(chan struct{})}
		o.byID[id] = a
		if o.order = append(o.order, id); len(o.order) > answersKept {
			delete(o.byID, o.order[0])
			o.order = o.order[1:]
		}
	}
	o.mu.Unlock()
	if !again {
		defer close(a.known)
		a.value = f()
		return a.value, nil
	}
	select {
	case <-a.known:
		return a.value, nil
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

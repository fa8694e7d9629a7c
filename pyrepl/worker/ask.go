package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// An idle worker is asked something by a numbered command, and answers with an event of the same
// number.

// The limits of the wait for an answer.
const (
	syncTime = 10 * time.Second // a worker that misses it is ended
	askTime  = time.Second      // callers that ask can do without the answer
)

// ErrSilent is the error of a wait for an answer that did not come in time.
var ErrSilent = errors.New("the worker did not answer")

// A Namespace is a worker's answer about its names.
type Namespace struct {
	Others
	Vars  []Variable `json:"vars"`
	Total int        `json:"total"` // all names that match, including those not in Vars
}

// Others are the names that stand for no data.
type Others struct {
	Modules   []string `json:"modules"`
	Functions []string `json:"functions"`
	Classes   []string `json:"classes"`
}

// A Variable is one name of a namespace. Value is set for exact built-in types only, and shortened
// to about 200 characters. Len and Shape are set if the worker can read them without running Python
// code.
type Variable struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Value string  `json:"value"`
	Len   *int64  `json:"len"`   // set for built-in containers and for a text too long for Value
	Shape []int64 `json:"shape"` // set for arrays, frames and series
}

// Sync waits until the worker has taken every signal that was sent to it so far.
func (w *Worker) Sync() error {
	_, err := w.ask(context.Background(), func(n int) command { return syncCommand{n} }, syncTime)
	return err
}

// Variables lists the names of the namespace that match a pattern of Python's fnmatch
// (https://docs.python.org/3/library/fnmatch.html), or all if the pattern is empty, without running
// user code.
func (w *Worker) Variables(ctx context.Context, pattern string) (Namespace, error) {
	ev, err := w.ask(ctx, func(n int) command { return variablesCommand{n, pattern} }, askTime)
	now, _ := ev.(variablesEvent)
	return now.Namespace, err
}

// Imported returns the modules of the list that the session has imported.
func (w *Worker) Imported(ctx context.Context, modules []string) ([]string, error) {
	ev, err := w.ask(ctx, func(n int) command { return importedCommand{n, modules} }, askTime)
	known, _ := ev.(importedEvent)
	return known.Modules, err
}

// AskExit asks the worker to exit as Python does: it runs its atexit handlers and flushes its open
// files. It reports whether the worker could be asked. exit.py is the other side.
func (w *Worker) AskExit() bool {
	return !w.Ended() && w.ch.send(exitCommand{}) == nil
}

// ask sends a numbered command, with files, and returns the answer, if it comes within limit.
func (w *Worker) ask(ctx context.Context, cmd func(n int) command, limit time.Duration, files ...*os.File) (Event, error) {
	w.asked++
	if err := w.ch.send(cmd(w.asked), files...); err != nil {
		w.AwaitDeath() // a closed end most probably means a dying worker, whose exit says why
		return nil, err
	}
	return w.await(ctx, w.asked, limit)
}

// await returns the answer to command n, if it comes within limit. It drops other events: they are
// about a job that is over.
func (w *Worker) await(ctx context.Context, n int, limit time.Duration) (Event, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case ev := <-w.events:
			if a, ok := ev.(interface{ to() int }); !ok || a.to() != n {
				continue
			}
			if ev, ok := ev.(unsupportedEvent); ok {
				return nil, fmt.Errorf("the worker does not support %q", ev.Op)
			}
			return ev, nil
		case <-w.handle.Done():
			return nil, fmt.Errorf("the worker %s", w.ExitText())
		case <-w.eof:
			if w.AwaitDeath() {
				return nil, ErrDied
			}
			return nil, ErrChannelClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			return nil, fmt.Errorf("%w for %v", ErrSilent, limit)
		}
	}
}

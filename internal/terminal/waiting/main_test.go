//go:build unix

package waiting

import (
	"os"
	"testing"
	"time"

	"asyncrepl/internal/terminal/tty/ttytest"
)

// program is a real program on a terminal.
type program struct{ *ttytest.Program }

func start(t testing.TB, argv []string, extra ...*os.File) program {
	t.Helper()
	return program{ttytest.Start(t, argv, extra...)}
}

// change is one call of a Watcher's OnChange.
type change struct {
	Evidence
	waiting bool
	at      time.Time
	printed string        // all output so far
	silent  time.Duration // since the last output
}

// watch runs a Watcher of p's terminal until the test's end.
func (p program) watch(t testing.TB) <-chan change { return p.watchFrom(t, p.PTY) }

// watchFrom runs a Watcher of p until the test's end.
func (p program) watchFrom(t testing.TB, from Source) <-chan change {
	w, reported := p.watcher(from)
	t.Cleanup(w.Start())
	return reported
}

// watcher returns a Watcher of p that is not started, and what it will report.
func (p program) watcher(from Source) (*Watcher, <-chan change) {
	reported := make(chan change, 1000) // OnChange must not block, and no test makes more
	w := &Watcher{Source: from, Tree: p.List, LastOutput: p.LastOutput, OnChange: func(ev Evidence, waiting bool) {
		reported <- change{ev, waiting, time.Now(), p.Printed(), time.Since(p.LastOutput())}
	}}
	p.OnOutput(w.Kick)
	return w, reported
}

// next returns the next change.
func next(t testing.TB, reported <-chan change) change {
	t.Helper()
	select {
	case c := <-reported:
		return c
	case <-time.After(ttytest.Patience):
		t.Fatal("no change was reported")
		return change{}
	}
}

// nextWaiting returns the next change that says that a program waits.
func nextWaiting(t testing.TB, reported <-chan change) change {
	t.Helper()
	for {
		if c := next(t, reported); c.waiting {
			return c
		}
	}
}

// scanOnce scans the processes pids and returns the first that waits for input.
func scanOnce(from Source, pids []int) (Evidence, bool) {
	ev, v := newProbe(from, pids).scan()
	return ev, v == waits
}

//go:build unix

package queries

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/text/escape"
	"asyncrepl/internal/text/screen"
)

const (
	// perSecond bounds the answers in a second, and the queries that wait for one.
	perSecond = 100
	// patience is how long a query waits for a silent terminal: some scripts print it before they
	// turn echo off.
	patience = 5 * time.Millisecond
	// pause is the time between two checks of the terminal's mode meanwhile.
	pause = 500 * time.Microsecond
	// tooLate is the age at which a query is not answered any more: its program has stopped waiting.
	tooLate = time.Second
)

// A Responder answers the queries in the output of one terminal.
type Responder struct {
	pty      *tty.PTY
	tree     func() ([]int, error)
	patience time.Duration
	tooLate  time.Duration

	reader escape.Reader // used by the pump's goroutine

	// Used by the goroutine that answers.
	cursor screen.Follower
	log    output.Reader // modes follows its output
	modes  Modes
	times  []time.Time // the newest answers, perSecond at most, the oldest first

	// Guarded by mu.
	mu      sync.Mutex
	waiting []pendingQuery
	ended   chan struct{} // closed when the goroutine that answers has ended; nil: it does not run

	ctx   context.Context // done after Close
	close context.CancelFunc
}

// A pendingQuery waits for an answer.
type pendingQuery struct {
	query
	log    output.Reader // holds the output up to the query
	end    int64         // the cursor where the query ends
	at     time.Time
	silent bool // the terminal was silent when the query was read
}

// New returns the Responder of a terminal. tree lists the processes that can read the terminal.
func New(pty *tty.PTY, tree func() ([]int, error)) *Responder {
	r := &Responder{pty: pty, tree: tree, patience: patience, tooLate: tooLate}
	r.ctx, r.close = context.WithCancel(context.Background())
	return r
}

// Printed finds the queries in b, which was just printed to the terminal and begins at the cursor
// at of log. The caller calls it with all output, in order. It does not wait.
func (r *Responder) Printed(log output.Reader, at int64, b []byte) {
	var found []pendingQuery
	r.scan(b, func(q query, end int) {
		if len(found) < perSecond {
			found = append(found, pendingQuery{query: q, log: log, end: at + int64(end)})
		}
	})
	if found == nil {
		return
	}
	mode, err := r.pty.Mode()
	now := time.Now()
	for i := range found {
		found[i].at, found[i].silent = now, err == nil && mode.Silent()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	r.waiting = append(r.waiting, found[:min(len(found), perSecond-len(r.waiting))]...)
	if r.ended == nil {
		r.ended = make(chan struct{})
		r.pty.SetAsked(true)
		go r.run(r.ended) // owned by the responder; ends when no query waits
	}
}

// Close ends the answering. Nothing is typed after it has returned.
func (r *Responder) Close() {
	r.mu.Lock()
	r.close()
	ended := r.ended
	r.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// run answers queries until none waits.
func (r *Responder) run(ended chan<- struct{}) {
	defer close(ended)
	for qs := r.next(); qs != nil; qs = r.next() {
		if qs = r.answerable(qs); len(qs) > 0 {
			r.answer(qs)
		}
	}
}

// next takes the queries that wait. If there are none, the goroutine that answers must end.
func (r *Responder) next() (qs []pendingQuery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	qs, r.waiting = r.waiting, nil
	if qs == nil || r.ctx.Err() != nil {
		r.ended = nil
		r.pty.SetAsked(false)
		return nil
	}
	return qs
}

// answerable returns the queries of qs that can be answered: they were read while the terminal was
// silent. If there are none, it returns all of them if the terminal becomes silent soon and its
// processes are still the same: one that has ended can have printed the queries.
func (r *Responder) answerable(qs []pendingQuery) []pendingQuery {
	if slices.ContainsFunc(qs, func(q pendingQuery) bool { return q.silent }) {
		return slices.DeleteFunc(qs, func(q pendingQuery) bool { return !q.silent })
	}
	before, err := r.tree()
	if err != nil {
		return nil
	}
	for end := qs[len(qs)-1].at.Add(r.patience); time.Now().Before(end); time.Sleep(pause) {
		mode, err := r.pty.Mode()
		if err != nil || r.ctx.Err() != nil {
			return nil
		}
		if mode.Silent() {
			after, err := r.tree()
			if err != nil || !sameProcesses(before, after) {
				return nil
			}
			return qs
		}
	}
	return nil
}

// sameProcesses reports whether two lists have the same pids.
func sameProcesses(a, b []int) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// answer types the answers to qs at once.
func (r *Responder) answer(qs []pendingQuery) {
	var text strings.Builder
	for _, q := range qs {
		if !r.allowed() {
			break
		}
		text.WriteString(q.answer(func() (row, col int, ok bool) { return r.position(q) }, func(m escape.Mode) escape.Setting { return r.setting(q, m) }))
	}
	ctx, cancel := context.WithDeadline(r.ctx, qs[0].at.Add(r.tooLate))
	defer cancel()
	if text.Len() > 0 && ctx.Err() == nil {
		r.pty.Answer(ctx, []byte(text.String()))
	}
}

// allowed reports whether there can be another answer in this second, and counts it.
func (r *Responder) allowed() bool {
	now := time.Now()
	if len(r.times) == perSecond {
		if now.Sub(r.times[0]) < time.Second {
			return false
		}
		r.times = slices.Delete(r.times, 0, 1)
	}
	r.times = append(r.times, now)
	return true
}

// position returns where the cursor was at a query.
func (r *Responder) position(q pendingQuery) (row, col int, ok bool) {
	rows, cols := r.pty.Size()
	return r.cursor.Cursor(q.log, q.end, rows, cols)
}

// setting returns the setting of a mode at a query.
func (r *Responder) setting(q pendingQuery, m escape.Mode) escape.Setting {
	if r.log != q.log {
		r.log, r.modes = q.log, Modes{}
	}
	r.modes.Follow(q.log, q.end)
	return r.modes.Setting(m)
}

package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/runner"
	"asyncrepl/jobs"
)

// A Config is what all sessions of one environment have in common.
type Config struct {
	Owner  *process.Owner
	Python func(ctx context.Context) (string, error) // path of the interpreter; may make the environment
	Env    func() []string                           // KEY=value, the whole environment of a worker
	Dir    string                                    // the workspace, where workers start
	Log    *slog.Logger

	// The names of the settings that choose Python and Dir, for errors that say what to change.
	PythonSetting, DirSetting string

	// Start bounds the time from the start of a worker to its first word
	// (0: 60 s, for machines that are busy and disks that are cold).
	Start time.Duration
}

// ErrClosed is the answer of a session that has been closed.
var ErrClosed = errors.New("the session has been closed")

// A Session is a named Python namespace that outlives its jobs.
type Session struct {
	name string
	cfg  Config

	// Guarded by mu.
	mu     sync.Mutex
	closed bool
	turn   *ticket   // whose turn it is; nil: idle
	queue  []*ticket // behind it, in order
	w      *worker   // nil until the first use and after a death was noticed
	news   string    // what the next job is told of the worker before its own
	names  []string  // as last told by a worker
	asOf   string    // the job that told them
	fresh  bool      // the next job is to look for modules anew
	paths  []string  // and to read these .pth files
}

// NewSession returns a session that has not started anything yet.
func NewSession(name string, cfg Config) *Session {
	if cfg.Start == 0 {
		cfg.Start = time.Minute
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Session{name: name, cfg: cfg}
}

// Name returns the name of the session.
func (s *Session) Name() string { return s.name }

// A ticket is a place in a session's queue.
type ticket struct {
	port    *jobs.Port    // nil: not a job's
	vacates bool          // it ends the namespace: a restart
	ready   chan struct{} // closed when the turn has come, or will not
	err     error         // why it will not; set before ready is closed
}

// job returns the id of the ticket's job.
func (t *ticket) job() string {
	if t == nil || t.port == nil {
		return ""
	}
	return t.port.ID()
}

// A lostError tells a queued job why it was not run.
type lostError struct{ job string }

func (e *lostError) Error() string { return "not run: variables were lost in " + e.job }

// enqueue takes a job's place in the queue, which is first in, first out.
func (s *Session) enqueue(p *jobs.Port) *ticket {
	t := &ticket{port: p, ready: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		t.err = ErrClosed
		close(t.ready)
	} else {
		s.place(t)
	}
	return t
}

// place puts t behind what was there before. The caller holds mu.
func (s *Session) place(t *ticket) {
	if s.turn == nil {
		s.turn = t
		close(t.ready)
		return
	}
	s.queue = append(s.queue, t)
}

// await waits for the turn of t.
func (s *Session) await(ctx context.Context, t *ticket) error {
	select {
	case <-t.ready:
	case <-ctx.Done():
		if s.unqueue(t) {
			return context.Cause(ctx)
		}
		<-t.ready // it came at the same moment
	}
	if t.err == nil && ctx.Err() != nil {
		s.release(t, "")
		return context.Cause(ctx)
	}
	return t.err
}

// unqueue takes t out of the queue and reports whether it was there.
func (s *Session) unqueue(t *ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range s.queue {
		if q == t {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return true
		}
	}
	return false
}

// release ends the turn of t. If its job lost the variables, lost says so in
// the words that the queued jobs are told, and none of them is run, unless they
// were sent for the next worker anyway.
func (s *Session) release(t *ticket, lost string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != t {
		return
	}
	s.turn = nil
	if lost != "" && !s.vacates() {
		s.dropQueue(lost)
	}
	if len(s.queue) > 0 {
		s.turn, s.queue = s.queue[0], s.queue[1:]
		close(s.turn.ready)
	}
}

// dropQueue tells every queued job that its turn will not come. Restarts go on
// waiting. The caller holds mu.
func (s *Session) dropQueue(lost string) {
	var rest []*ticket
	for _, q := range s.queue {
		if q.vacates {
			rest = append(rest, q)
			continue
		}
		q.err = &lostError{lost}
		close(q.ready)
	}
	s.queue = rest
}

// worker returns the live worker of the session, started if need be, and what
// is to be said of that. The caller has the turn.
func (s *Session) worker(ctx context.Context, p *jobs.Port) (w *worker, note string, err error) {
	s.mu.Lock()
	w, note = s.w, s.news
	s.news = ""
	s.mu.Unlock()
	if w != nil {
		select {
		case <-w.handle.Done():
			note = fmt.Sprintf("a new worker was started: the last one %s between jobs; variables lost", manner(w.handle.Exit()))
			s.bury(w)
		default:
			return w, note, nil
		}
	}
	if w, err = startWorker(ctx, s.cfg, p); err != nil {
		s.tell(note) // to the first job that has a new worker
		return nil, "", err
	}
	if !s.adopt(w) {
		w.end(jobs.Kill, 0)
		return nil, "", ErrClosed
	}
	return w, note, nil
}

// adopt makes w the session's worker, unless the session was closed while it
// started.
func (s *Session) adopt(w *worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.w = w
	}
	return !s.closed
}

// bury ends what is left of a worker that is dead or can't be ended.
func (s *Session) bury(w *worker) process.StopResult {
	s.mu.Lock()
	if s.w == w {
		s.w, s.names, s.asOf = nil, nil, ""
	}
	s.mu.Unlock()
	if !runner.Ended(w.handle) { // a kill was in vain
		return w.end(jobs.Kill, 0)
	}
	return w.end(jobs.Terminate, restartStep)
}

// remember keeps the names that a worker told at the end of a job.
func (s *Session) remember(job string, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if names != nil {
		s.names = names
	}
	s.asOf = job
}

// Close ends the session for good. Its jobs must have been stopped.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	w := s.w
	s.w = nil
	s.dropQueue("the end of the session")
	s.mu.Unlock()
	if w != nil {
		w.end(jobs.Kill, 0)
	}
}

// Live reports whether anything would be lost with the session: a worker with
// its variables, or jobs.
func (s *Session) Live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w != nil || s.turn != nil
}

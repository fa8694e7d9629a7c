package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// A Config says how the workers of a session start. All sessions of one environment can share it.
type Config = worker.Config

// errClosed is the error of calls to a session that has been closed.
var errClosed = errors.New("the session has been closed")

// A Session is a named Python namespace that outlives its jobs.
type Session struct {
	name string
	cfg  Config

	checkpoints *Checkpoints // holds this session's and, after SetCheckpoints, other sessions' too

	// Guarded by mu.
	mu      sync.Mutex
	closed  bool
	turn    *ticket        // the ticket that has the turn; nil: idle
	queue   []*ticket      // waiting, in order
	w       *worker.Worker // nil until the first use, and after its death was noticed
	lostIn  string         // the job in which the last worker died; it counts while w is nil
	note    string         // a note about the worker, for the receipt of the next job
	names   []string       // the names of the namespace, as last reported
	hidden  int            // how many more names there are; a sparing stop counts them
	asOf    string         // the job that reported names
	taken   int            // places in the queue that jobs have taken so far
	jobs    int            // jobs that have begun and ended
	ran     time.Duration  // the time that these jobs ran, without their wait in the queue
	used    time.Time      // the end of the last job
	history history
}

// NewSession returns a session that has not started anything yet.
func NewSession(name string, cfg Config) *Session {
	return &Session{name: name, cfg: cfg, checkpoints: new(Checkpoints)}
}

// Name returns the name of the session.
func (s *Session) Name() string { return s.name }

// Live reports whether something would be lost with the session: a worker with its variables, jobs
// or checkpoints.
func (s *Session) Live() bool {
	if s.checkpoints.Has(s) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w != nil || s.turn != nil
}

// Close ends the session for good. Its jobs must have been stopped.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	w := s.w
	s.w = nil
	s.dropQueue(lostIn("the end of the session"))
	s.mu.Unlock()
	if w != nil {
		w.End(process.Ladder{From: jobs.Kill})
	}
	s.checkpoints.Drop(s)
}

// worker returns the session's worker, and starts one if none is alive. The note, for the receipt
// of p's job, says what became of the last worker. The caller has the turn.
func (s *Session) worker(ctx context.Context, p *jobs.Port) (w *worker.Worker, note string, err error) {
	s.mu.Lock()
	w, note = s.w, s.note
	s.note = ""
	s.mu.Unlock()
	switch {
	case w != nil && w.Ended():
		note = fmt.Sprintf("a new worker was started: the last one %s between jobs; %s", w.ExitText(), lostText(s.lastNames()))
		s.discard(w, "", w.ExitText()+" between jobs")
	case w != nil:
		return w, note, nil
	}
	if w, err = worker.Start(ctx, s.cfg, p); err != nil {
		s.SetNote(note) // the first job with a new worker reports the loss
		return nil, "", err
	}
	s.mu.Lock()
	closed := s.closed // the session can have been closed while w started
	if !closed {
		s.w = w
	}
	s.mu.Unlock()
	if closed {
		w.End(process.Ladder{From: jobs.Kill})
		return nil, "", errClosed
	}
	return w, note, nil
}

// SetNote sets the note for the receipt of the next job.
func (s *Session) SetNote(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = note
}

// detach takes the worker from the session at a restart and forgets all that was known about it. It
// returns nil if the session has no worker.
func (s *Session) detach() *worker.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.w
	if w != nil {
		s.history.lose("was restarted", s.names)
	}
	s.w, s.names, s.hidden, s.asOf, s.note, s.lostIn = nil, nil, 0, "", "", ""
	return w
}

// discard ends the remaining processes of a worker that has died or could not be killed in a job.
// how says what happened to it, for the history.
func (s *Session) discard(w *worker.Worker, job, how string) process.StopResult {
	s.mu.Lock()
	if s.w == w {
		s.history.lose(how, s.names)
		s.w, s.names, s.hidden, s.asOf, s.lostIn = nil, nil, 0, "", job
	}
	s.mu.Unlock()
	if !w.Ended() { // it could not be killed
		return w.End(process.Ladder{From: jobs.Kill})
	}
	return w.End(process.Ladder{From: jobs.Terminate, Step: resetStep})
}

// remember keeps what a worker reported at the end of a job.
func (s *Session) remember(job string, done worker.DoneEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done.Names != nil {
		s.names = done.Names
	}
	if done.Hidden != nil {
		s.hidden = *done.Hidden
	}
	s.asOf = job
	s.history.learn(done)
}

// record changes the session's history.
func (s *Session) record(change func(h *history)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.history)
}

// ask calls question with the worker of an idle session, and holds the turn meanwhile. If the
// session is busy, ask calls busy with mu held, and returns nil. It returns nil, too, if no worker
// is alive.
func (s *Session) ask(question func(w *worker.Worker) error, busy func()) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	if s.turn != nil {
		defer s.mu.Unlock()
		busy()
		return nil
	}
	t := &ticket{ready: make(chan struct{})}
	s.turn = t
	w := s.w
	s.mu.Unlock()
	defer s.release(t, "")
	if w == nil || w.Ended() {
		return nil
	}
	return question(w)
}

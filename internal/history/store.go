//go:build unix

package history

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"asyncrepl/jobs"
)

// A Config describes a run and how much is kept.
type Config struct {
	State     string // an absolute path; the directory is made on first use
	Workspace string // an absolute path
	Tenant    string // empty: the server has no tenants
	Version   string // the program's version
	Started   time.Time
	Mark      func() string // NAME=value in the environments of all processes of the run; nil: unknown
	// Kill ends the processes that carry the mark of a run whose engine was killed. Nil: they are
	// left.
	Kill func(mark string) ([]EndedProcess, error)

	Keep     int           // the most past jobs of a workspace; 0: 1,000
	MaxAge   time.Duration // past jobs are forgotten after this time; 0: 7 days
	MaxBytes int64         // the most that all past runs take on disk, of all workspaces; 0: no limit

	Log *slog.Logger // nil: nothing is logged
}

// A Store keeps the records of the jobs of one engine, and reads those of the engines before it in
// the same workspace. It is a [jobs.Store].
type Store struct {
	config Config
	dir    string // of the runs of the workspace

	mu       sync.Mutex
	run      *run
	failure  error // why the last line was not written; nil: it was
	reported error // the failure that a caller was given last; nil: there was none since a line was written
	unread   error // why the journal of a past run was not read; nil: all were
	closed   bool
	noRoom   time.Time // when MakeRoom found nothing to remove
	sweeper  *time.Timer
	sweeping sync.WaitGroup

	taken atomic.Int64 // see Taken
}

// Open returns a store. It touches no disk: the directory of the run is made for the first job.
func Open(c Config) *Store {
	c.Keep, c.MaxAge = cmp.Or(c.Keep, 1000), cmp.Or(c.MaxAge, 7*24*time.Hour)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{config: c}
}

// Dir returns the directory of the run, and makes it if it does not exist.
func (s *Store) Dir() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return "", err
	}
	return s.run.dir, nil
}

// ready makes the run, unless it exists. The caller holds s.mu.
func (s *Store) ready() error {
	switch {
	case s.run != nil:
		return nil
	case s.closed:
		return errors.New("the server is shutting down")
	}
	run, err := s.newRun()
	if err != nil {
		s.failure = err
		return err
	}
	s.run, s.failure = run, nil
	if s.sweeper == nil {
		s.sweeper = time.AfterFunc(sweepDelay, s.sweepAgain) // owned by the store; Close stops it
	}
	return nil
}

// Begin records that a job is about to start.
func (s *Store) Begin(record jobs.Record) error {
	b, err := encode(begin, jobs.Saved{Record: record})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil && s.run.isRemoved() { // with the state directory: it is made again
		s.run.journal.file.Close()
		s.run = nil
	}
	if err := s.ready(); err != nil {
		return s.news()
	}
	if s.failure = s.run.journal.reserve(len(b)); s.failure == nil {
		s.write(record.ID, b)
	}
	return s.news()
}

// news returns why the last line was not written, unless a caller was given the same error before:
// while records pause, a log of the errors needs one line. The caller holds s.mu.
func (s *Store) news() error {
	before := s.reported
	s.reported = s.failure
	if before == nil || s.failure == nil {
		return s.failure
	}
	// The name of a directory that can't be made is another each time.
	var was, is syscall.Errno
	if before.Error() == s.failure.Error() || errors.As(before, &was) && errors.As(s.failure, &is) && was == is {
		return nil
	}
	return s.failure
}

// End records that a job has ended.
func (s *Store) End(saved jobs.Saved) error { return s.after(end, saved) }

// Amend records what has changed in a job after its end.
func (s *Store) Amend(saved jobs.Saved) error {
	saved.Short = nil // the line of the end has it
	return s.after(amend, saved)
}

// after writes a line that follows the start of a job.
func (s *Store) after(event string, saved jobs.Saved) error {
	b, err := encode(event, saved)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && s.run == nil {
		return nil // the run has ended, and what its jobs had left running with it
	}
	if err := s.ready(); err != nil {
		return s.news()
	}
	if !s.write(saved.Record.ID, b) && len(s.run.pending) < maxPending {
		s.run.pending = append(s.run.pending, pendingLine{saved.Record.ID, b})
	}
	return s.news()
}

// write appends a line, after those that could not be written before, and reports whether it did.
// The caller holds s.mu.
func (s *Store) write(id string, b []byte) bool {
	s.failure = s.run.flushPending()
	if s.failure == nil {
		s.failure = s.run.append(id, b)
	}
	return s.failure == nil
}

// Forget forgets a job of this run. When most lines of the journal are about such jobs, it is
// rewritten without them.
func (s *Store) Forget(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return nil
	}
	return s.run.forget(id)
}

// Closing records that the engine begins to end its jobs: what it does not live to see was stopped
// by its shutdown.
func (s *Store) Closing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.failure = s.run.note(closing)
	}
}

// Close ends the run. All jobs have ended. A run without a job leaves nothing.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
	s.mu.Unlock()
	s.sweeping.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return
	}
	if err := s.run.close(); err != nil {
		s.config.Log.Warn("closing the journal", "err", err)
	}
	s.run = nil
}

// A Status says where records are and what keeps them from being written or read.
type Status struct {
	Dir     string // of the workspace's runs, which need not exist yet
	Failure error  // why the last record was not written; nil: it was
	Unread  error  // why the records of a past run could not be read; nil: all could
}

// Status returns the state of the store. It touches no disk.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{Dir: s.workspaceDir(), Failure: s.failure, Unread: s.unread}
}

// A pendingLine is a line that could not be written yet.
type pendingLine struct {
	id   string
	text []byte
}

// maxPending bounds the lines that are kept until the disk takes them.
const maxPending = 1000

// checkOwn returns an error unless path is a directory of this user that no other user can change.
func checkOwn(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%s is not a directory: move it away, or set REPL_STATE_DIR", path)
	case st.Mode()&os.ModeSticky != 0:
		return nil // as in /tmp, only we can move what we make there
	case owner(st) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user: set REPL_STATE_DIR to a directory of yours", path)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("other users can write to %s: take that away with chmod go-w, or set REPL_STATE_DIR", path)
	}
	return nil
}

// makeState makes the state directory and directories in it, unless they exist. Other users can't
// change them.
func makeState(state string, dirs ...string) error {
	if state == "" {
		return errors.New("finding a place for records and long output: $HOME is not defined: set REPL_STATE_DIR")
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	if err := checkOwn(state); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if err := checkOwn(dir); err != nil {
			return err
		}
	}
	return nil
}

// runsDir returns the directory of all runs.
func (s *Store) runsDir() string { return filepath.Join(s.config.State, "runs") }

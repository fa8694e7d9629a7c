//go:build unix

package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/jobs"
)

// A Config describes a run and how much is kept.
type Config struct {
	State     string // an absolute path; the directory is made on first use
	Workspace string // an absolute path
	Tenant    string // empty: the server has no tenants
	Version   string // the program's version
	PID       int    // the process by which others know the engine

	// Off keeps the store from recording anything: the engine gives it no jobs, and Dir returns a
	// directory that ends with it.
	Off bool
	// OnScratch is called with a directory that ends with the engine, when it was made.
	OnScratch func(dir string)
	// Everywhere makes [Store.Past] look for a job that this workspace does not have in all others, and
	// in the records of confined engines. A person who gives an id need not be in its workspace; an agent
	// must stay in its own.
	Everywhere bool

	Mark func() string // returns NAME=value in the environments of all processes of the run
	// Kill ends the processes that carry the mark of a run whose engine was killed.
	Kill func(mark string) ([]process.Marked, error)

	Keep     int           // the most past jobs of a workspace; 0: 1,000
	MaxAge   time.Duration // past jobs are forgotten after this time; 0: 7 days
	MaxBytes int64         // the most that all past runs and unused sandboxes take on disk, of all workspaces; 0: no limit

	Log *slog.Logger
}

// A Store keeps the records of the jobs of one engine, and reads those of the engines before it in
// the same workspace. It is a [jobs.Store].
type Store struct {
	config Config
	dir    func() string // returns the directory of the runs of the workspace

	mu      sync.Mutex
	run     *run     // nil: there is none yet
	scratch *run     // nil: there is none
	failure error    // why the last line was not written; nil: it was
	paused  bool     // a caller was given a failure, and no line was written since
	unread  error    // why the journal of a past run was not read; nil: all were
	unsaid  []string // the runs for Said
	sweeper *time.Timer

	sweeping sync.Mutex // held during a sweep
	closed   atomic.Bool
	taken    atomic.Int64 // see Taken
	noRoom   atomic.Int64 // MakeRoom finds nothing to remove until then, as time.Time.UnixNano
}

// Open returns a store. It touches no disk: the directory of the run is made for the first job.
func Open(c Config) *Store {
	c.Keep, c.MaxAge = cmp.Or(c.Keep, 1000), cmp.Or(c.MaxAge, 7*24*time.Hour)
	s := &Store{config: c}
	s.dir = sync.OnceValue(s.workspaceDir)
	return s
}

// runsDir returns the directory of all runs, and scratchDir that of files that end with their
// engine.
func (s *Store) runsDir() string    { return filepath.Join(s.config.State, runsName) }
func (s *Store) scratchDir() string { return filepath.Join(s.config.State, "scratch") }

// workspaceDir returns the directory of the runs of the workspace. Its name has a hash instead of
// the path, which can be longer than a name. Links are resolved, so that one workspace has one
// directory.
func (s *Store) workspaceDir() string {
	path := s.config.Workspace
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	hash := sha256.Sum256([]byte(path))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, filepath.Base(path))
	return filepath.Join(s.runsDir(), strings.Trim(name[:min(len(name), 40)], "-")+"-"+hex.EncodeToString(hash[:8]))
}

// Dir returns the directory for the files of this run, and makes it if it does not exist. If
// nothing can be recorded, the directory ends with the engine.
func (s *Store) Dir() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready() == nil {
		return s.run.dir, nil
	}
	if s.scratch == nil {
		if s.closed.Load() {
			return "", errClosed
		}
		made, err := s.newRun(false)
		if err != nil {
			return "", err
		}
		s.scratch = made
		s.config.OnScratch(made.dir)
	}
	return s.scratch.dir, nil
}

var errClosed = errors.New("the server is shutting down")

// ready makes the run, unless it exists. The caller holds s.mu.
func (s *Store) ready() error {
	switch {
	case s.run != nil:
		return nil
	case s.config.Off:
		return errors.New("records are off")
	case s.closed.Load():
		return errClosed
	}
	if s.run, s.failure = s.newRun(true); s.failure != nil {
		s.run = nil
		return s.failure
	}
	if s.sweeper == nil {
		s.sweeper = time.AfterFunc(sweepDelay, s.sweepAgain) // owned by the store; Close stops it
	}
	return nil
}

// Begin records that a job is about to start.
func (s *Store) Begin(record jobs.Record) error {
	line, err := encode(begin, jobs.Saved{Record: record})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		if st, err := s.run.journal.file.Stat(); err == nil && st.Sys().(*syscall.Stat_t).Nlink == 0 {
			s.run.release() // the state directory was removed: it is made again
			s.run = nil
		}
	}
	if s.ready() == nil {
		if s.failure = s.run.journal.reserve(len(line)); s.failure == nil {
			s.failure = s.run.append(record.ID, line)
		}
	}
	return s.news()
}

// news returns why the last line was not written, unless a caller was given the reason of a line
// before: while records pause, a log of the errors needs one line. The caller holds s.mu.
func (s *Store) news() error {
	before := s.paused
	if s.paused = s.failure != nil; before {
		return nil
	}
	return s.failure
}

// Resize records the size of the terminal of a job that runs. The line takes none of the space that is
// reserved for ends.
func (s *Store) Resize(id string, size jobs.Size) error {
	line := resizeLine(id, size)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		if s.failure = s.run.journal.reserve(len(line)); s.failure == nil {
			s.failure = s.run.append(id, line)
		}
	}
	return s.news()
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
	line, err := encode(event, saved)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() && s.run == nil {
		return nil // the run has ended, and what its jobs had left running with it
	}
	if s.ready() == nil {
		s.failure = s.run.append(saved.Record.ID, line)
	}
	return s.news()
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

// Reset records that the variables of a session are gone, which no receipt says: the session was
// restarted or deleted. If the engine is killed later, they are not its loss.
func (s *Store) Reset(session string) { s.note(note{Event: reset, Session: session}) }

// Closing records that the engine begins to end its jobs: what it does not live to see was stopped
// by its shutdown.
func (s *Store) Closing() { s.note(note{Event: closing}) }

func (s *Store) note(n note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.failure = s.run.note(n)
	}
}

// Close ends the run. All jobs have ended. A run without a job leaves nothing.
func (s *Store) Close() {
	s.closed.Store(true)
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	if err := s.endRuns(); err != nil { // the lock is free: a log can be in the directory of the run
		s.config.Log.Warn("ending the records of this run", "err", err)
	}
}

// endRuns is the part of Close that holds the lock.
func (s *Store) endRuns() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
	for _, r := range []*run{s.run, s.scratch} {
		if r != nil {
			err = errors.Join(err, r.close())
		}
	}
	os.Remove(s.scratchDir()) // an error: others are there, or there is none
	s.run, s.scratch = nil, nil
	return err
}

// A Status says where records are and what keeps them from being written or read.
type Status struct {
	Dir     string // the directory of the workspace's runs, which need not exist yet
	Failure error  // why the last record was not written; nil: it was
	Unread  error  // why the records of a past run could not be read; nil: all could
}

// Status returns the state of the store. It makes no file.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{Dir: s.dir(), Failure: s.failure, Unread: s.unread}
}

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
	case int(st.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
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
	for _, dir := range append([]string{state}, dirs...) {
		err := os.MkdirAll(dir, 0o700)
		if err == nil || errors.Is(err, syscall.ENOTDIR) {
			err = checkOwn(dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

//go:build unix

package history

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"
)

// A run is a run of this engine: its records, or its scratch, which has no journal. The store
// guards it.
type run struct {
	about
	dir     string
	lock    *os.File // locked as long as the engine lives
	journal journal
	lines   map[string]int // the number of lines in the journal, by job
	all     int            // the number of lines about jobs in the journal
	gone    int            // how many of them are about forgotten jobs
}

// An about is the content of run.json.
type about struct {
	Format    int       `json:"format"`
	ID        string    `json:"run"`
	Version   string    `json:"version"`
	Started   time.Time `json:"started"`
	Workspace string    `json:"workspace"`
	Tenant    string    `json:"tenant,omitempty"`
	PID       int       `json:"pid"`
	Mark      string    `json:"mark,omitempty"`
}

// format is the version of the directory of a run. A run of another format is not read.
const format = 1

const (
	runsName    = "runs"
	journalName = "journal.jsonl"
	runName     = "run.json"
	lockName    = "lock"
	unnamed     = ".new" // ends the name of a file that is being written
)

// newRun makes the directory of a run: for records, or else for scratch.
func (s *Store) newRun(records bool) (_ *run, err error) {
	in := []string{s.scratchDir()}
	if records {
		in = []string{s.runsDir(), s.dir()}
	}
	if err := makeState(s.config.State, in...); err != nil {
		return nil, err
	}
	id := ulid.MustNew(ulid.Now(), rand.Reader).String()
	r := &run{
		about: about{
			Format: format, ID: id, Version: s.config.Version, Started: time.Now(),
			Workspace: s.config.Workspace, Tenant: s.config.Tenant, PID: s.config.PID, Mark: s.config.Mark(),
		},
		dir: filepath.Join(in[len(in)-1], id), lines: make(map[string]int),
	}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.release()
			os.RemoveAll(r.dir)
		}
	}()
	if r.journal.file, err = create(filepath.Join(r.dir, journalName)); err != nil {
		return nil, err
	}
	if r.lock, err = create(filepath.Join(r.dir, lockName)); err != nil {
		return nil, err
	}
	living.Store(r.dir, nil)
	err = unix.FcntlFlock(r.lock.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if err != nil && records { // scratch without a lock is removed by no other engine
		return nil, fmt.Errorf("locking %s: %w: set REPL_STATE_DIR to a file system with locks", r.lock.Name(), err)
	}
	text, err := json.Marshal(r.about)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.dir, runName)
	if err := os.WriteFile(path+unnamed, append(text, '\n'), 0o600); err != nil {
		return nil, err
	}
	return r, os.Rename(path+unnamed, path)
}

// create makes a file of ours.
func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
}

// living has the directories of the runs of this process.
//
// A POSIX lock belongs to a process: the process does not see its own, and loses it when it closes
// any descriptor of the file. That is why the lock has a file of its own, which nothing else opens.
// The lock of flock belongs to the open file, which a child has until its exec, too: the run of an
// engine that was killed meanwhile would count as living, for 26 ms on a busy machine.
var living sync.Map

// release closes the files of the run, and with them its lock.
func (r *run) release() {
	r.lock.Close() // nil is fine
	r.journal.file.Close()
	living.Delete(r.dir)
}

var (
	errLives = errors.New("the engine of the run lives")
	// errUnnamed means that a run is being made or removed, or a crash has left a part of it.
	errUnnamed = errors.New("the run has no " + runName)
)

// readEnded reads run.json of a run that has ended. The error is errLives, errUnnamed or a
// sentence.
func readEnded(run dir) (a about, err error) {
	if _, own := living.Load(run.String()); own {
		return a, errLives
	}
	file, _, err := run.open(runName)
	if errors.Is(err, fs.ErrNotExist) {
		return a, errUnnamed
	}
	defer file.Close() // nil is fine
	if err == nil {
		err = json.NewDecoder(io.LimitReader(file, blockSize)).Decode(&a)
	}
	lock, _, lockErr := run.open(lockName)
	if err = errors.Join(err, lockErr); err != nil {
		return a, fmt.Errorf("%s is no record of a run (%w): remove the directory", run, err)
	}
	defer lock.Close()
	held := unix.Flock_t{Type: unix.F_WRLCK}
	switch err := unix.FcntlFlock(lock.Fd(), unix.F_GETLK, &held); {
	case err != nil:
		return a, fmt.Errorf("asking for the lock of %s: %w: set REPL_STATE_DIR to a file system with locks", lock.Name(), err)
	case held.Type != unix.F_UNLCK:
		return a, errLives
	case a.Format != format:
		return a, fmt.Errorf("%s was written by async-repl %s, in another format: read it with that version", run, a.Version)
	}
	return a, nil
}

// openJournal opens the journal of a run for reading.
func openJournal(run dir) (*os.File, os.FileInfo, error) {
	file, st, err := run.open(journalName)
	if err == nil && st.Size() > maxJournal {
		file.Close()
		err = errNoFile
	}
	if err == errNoFile {
		err = fmt.Errorf("%s is no journal: remove the directory that it is in", run.at(journalName))
	}
	return file, st, err
}

// append appends a line about a job.
func (r *run) append(id string, line []byte) error {
	r.lines[id]++
	r.all++
	return r.journal.append(line)
}

// note appends a line about the run.
func (r *run) note(n note) error {
	n.ID, n.Time = r.ID, time.Now()
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return r.journal.append(append(line, '\n'))
}

// rewriteAt is how many lines about forgotten jobs a journal has before it is rewritten.
const rewriteAt = 2000

// forget forgets a job.
func (r *run) forget(id string) error {
	r.gone += r.lines[id]
	delete(r.lines, id)
	if r.gone < rewriteAt || r.gone*2 < r.all {
		return nil
	}
	file, err := rewrite(r.journal.file, r.dir, func(id string) bool { return r.lines[id] > 0 || id == r.ID })
	if err != nil || file == nil {
		r.gone = 0 // the next try is as far away
		return err
	}
	r.journal.file.Close()
	r.journal.file, r.journal.reserved = file, 0
	r.journal.size, err = file.Seek(0, io.SeekEnd)
	r.all, r.gone = r.all-r.gone, 0
	return err
}

// close ends the run. One without a job leaves nothing.
func (r *run) close() error {
	defer r.release()
	if r.all == 0 {
		return removeRun(r.dir)
	}
	return errors.Join(r.note(note{Event: closed}), r.journal.trim())
}

// removeRun removes the directory of a run.
func removeRun(dir string) error {
	if err := os.Remove(filepath.Join(dir, runName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

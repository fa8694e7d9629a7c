//go:build unix

package history

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"
)

// A run is the run of this engine. The store guards it.
type run struct {
	id      string
	dir     string
	journal journal
	pending []pendingLine
	lines   map[string]int // by job: the lines in the journal
	all     int            // lines in the journal
	gone    int            // lines about forgotten jobs
}

// A Run is what run.json says.
type Run struct {
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
	journalName = "journal.jsonl"
	runName     = "run.json"
	unfinished  = ".new-" // begins the name of a run that is being made
	removed     = ".old-" // begins the name of a run that is being removed
)

// workspaceDir returns the directory of the runs of the workspace. Its name has a hash instead of
// the path, which can be longer than a name. Links are resolved, so that one workspace has one
// directory. The caller holds s.mu.
func (s *Store) workspaceDir() string {
	if s.dir == "" {
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
		s.dir = filepath.Join(s.runsDir(), strings.Trim(name[:min(len(name), 40)], "-")+"-"+hex.EncodeToString(hash[:8]))
	}
	return s.dir
}

// newRun makes the directory of a run. It gets its name once it is complete and its journal locked:
// a reader never takes it for a run that has ended. The caller holds s.mu.
func (s *Store) newRun() (_ *run, err error) {
	dir := s.workspaceDir()
	if err := makeState(s.config.State, s.runsDir(), dir); err != nil {
		return nil, err
	}
	id := ulid.MustNew(ulid.Now(), rand.Reader).String()
	made := filepath.Join(dir, unfinished+id)
	if err := os.Mkdir(made, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(made)
		}
	}()
	about := Run{
		Format: format, ID: id, Version: s.config.Version, Started: s.config.Started,
		Workspace: s.config.Workspace, Tenant: s.config.Tenant, PID: os.Getpid(),
	}
	if s.config.Mark != nil {
		about.Mark = s.config.Mark()
	}
	text, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(made, runName), append(text, '\n'), 0o600); err != nil {
		return nil, err
	}
	file, err := newJournal(filepath.Join(made, journalName))
	if err != nil {
		return nil, err
	}
	r := &run{id: id, dir: filepath.Join(dir, id), journal: journal{file: file}, lines: make(map[string]int)}
	if err := os.Rename(made, r.dir); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

// newJournal makes a journal and locks it.
func newJournal(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(file, unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w: set REPL_STATE_DIR to a file system with locks", path, err), file.Close())
	}
	return file, nil
}

// lock locks a file, without waiting.
func lock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// owner returns the user who owns a file.
func owner(st os.FileInfo) int { return int(st.Sys().(*syscall.Stat_t).Uid) }

// isRemoved reports whether the journal was removed while it is open.
func (r *run) isRemoved() bool {
	st, err := r.journal.file.Stat()
	return err == nil && st.Sys().(*syscall.Stat_t).Nlink == 0
}

// append appends a line about a job.
func (r *run) append(id string, b []byte) error {
	if err := r.journal.append(b); err != nil {
		return err
	}
	r.lines[id]++
	r.all++
	return nil
}

// flushPending writes the lines that could not be written before.
func (r *run) flushPending() error {
	for len(r.pending) > 0 {
		if err := r.append(r.pending[0].id, r.pending[0].text); err != nil {
			return err
		}
		r.pending = r.pending[1:]
	}
	return nil
}

// note appends a line about the run.
func (r *run) note(event string) error {
	return r.journal.append([]byte(fmt.Sprintf("%s,\"time\":%q}\n", lineStart(event, r.id), time.Now().Format(time.RFC3339Nano))))
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
	file, size, err := rewrite(r.journal.file, r.dir, true, func(id string) bool { return r.lines[id] > 0 || id == r.id })
	if err != nil {
		r.gone = 0 // the next try is as far away
		return fmt.Errorf("rewriting the journal: %w", err)
	}
	r.journal.file.Close() // the lock of the new one holds already
	r.journal = journal{file: file, size: size}
	r.all, r.gone = r.all-r.gone, 0
	return nil
}

// rewrite replaces a journal by one that has only its lines about some jobs. It returns the new
// journal and its size. The journal of an engine that lives is locked before it has its name, and
// that of a past run is not.
func rewrite(old *os.File, dir string, lives bool, keep func(id string) bool) (_ *os.File, size int64, err error) {
	path := filepath.Join(dir, journalName)
	os.Remove(path + ".new") // a crash can have left it
	file, err := newJournal(path + ".new")
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(path + ".new")
		}
	}()
	st, err := old.Stat()
	if err != nil {
		return nil, 0, err
	}
	lines, w := bufio.NewReaderSize(io.NewSectionReader(old, 0, st.Size()), blockSize), bufio.NewWriterSize(file, blockSize)
	for {
		b, readErr := lines.ReadBytes('\n')
		if _, id, ok := split(b); ok && keep(id) {
			w.Write(bytes.TrimRight(b, "\n"))
			w.WriteByte('\n') // the last line can have lost its own
		}
		if readErr != nil {
			break
		}
	}
	if err := w.Flush(); err != nil {
		return nil, 0, err
	}
	if size, err = file.Seek(0, io.SeekEnd); err != nil {
		return nil, 0, err
	}
	if !lives {
		if err := lock(file, unix.LOCK_UN); err != nil {
			return nil, 0, err
		}
	}
	return file, size, os.Rename(path+".new", path)
}

// close ends the run.
func (r *run) close() error {
	defer r.journal.file.Close()
	// A process that is forked in this moment has the file, too, until its exec: it would keep the lock.
	defer lock(r.journal.file, unix.LOCK_UN)
	if r.all == 0 && len(r.pending) == 0 {
		return removeRun(r.dir)
	}
	if err := r.flushPending(); err != nil {
		return err
	}
	if err := r.note(closed); err != nil {
		return err
	}
	return r.journal.trim()
}

// removeRun removes the directory of a run. It loses its name first: a reader never finds a part of
// it.
func removeRun(dir string) error {
	old := filepath.Join(filepath.Dir(dir), removed+filepath.Base(dir))
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

//go:build unix

package history

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/sandbox"
)

// How much of past runs is kept: Config.Keep jobs of a workspace, for Config.MaxAge, and
// Config.MaxBytes of all workspaces and sandboxes together. A sweep removes the rest, in the background: a while
// after the run was made, so that it delays no first call, and then once an hour.
const (
	sweepDelay = 5 * time.Second
	sweepPause = time.Hour
	// unnamedAge is the age at which a directory without a run.json is removed. It takes a moment
	// to make one or to remove it, unless the process is stopped meanwhile.
	unnamedAge = time.Hour
)

// sweepAgain sweeps, and again later.
func (s *Store) sweepAgain() {
	s.sweeping.Lock() // Close waits for it
	defer s.sweeping.Unlock()
	if s.closed.Load() {
		return
	}
	if err := s.sweep(); err != nil && !s.closed.Load() {
		s.config.Log.Warn("sweeping records", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeper.Reset(sweepPause)
}

// sweep removes what is not kept of past runs, and of the directories of sandboxes. What those take counts with
// past runs, but a sweep removes it first: most of it is caches.
func (s *Store) sweep() (err error) {
	for _, path := range s.workspaces() {
		if e := s.locked(path, s.sweepWorkspace); e != errBusy {
			err = errors.Join(err, e)
		}
	}
	_, evictErr := s.evict(0)
	left := cmp.Or(s.config.MaxBytes, math.MaxInt64) - s.Taken()
	return errors.Join(err, evictErr, sandbox.Evict(s.config.State, s.config.MaxAge, left, s.closed.Load))
}

// workspaces returns the directories of the runs of all workspaces.
func (s *Store) workspaces() (dirs []string) {
	all, _ := os.ReadDir(s.runsDir()) // an error: there are none
	for _, each := range all {
		if each.IsDir() {
			dirs = append(dirs, filepath.Join(s.runsDir(), each.Name()))
		}
	}
	return dirs
}

// errBusy means that another process changes the runs of a workspace, or that the store closes.
var errBusy = errors.New("another process changes these records")

// locked calls f with a workspace's directory, which is locked.
func (s *Store) locked(path string, f func(dir) error) error {
	if s.closed.Load() {
		return errBusy
	}
	workspace, err := openDir(path)
	if err != nil {
		return err
	}
	defer workspace.root.Close()
	file, err := workspace.root.Open(".")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return errBusy
	} else if err != nil {
		return err
	}
	return f(workspace)
}

// sweepWorkspace removes the runs of a workspace that ended too long ago, what a crash has left of
// others, and the directory of the workspace if it is empty. It ends what engines have left that
// were killed. Of its own workspace it also removes the jobs that are too many or too old.
func (s *Store) sweepWorkspace(workspace dir) (err error) {
	names := slices.DeleteFunc(runNames(workspace, 0), func(name string) bool {
		_, endErr := readEnded(workspace.at(name))
		return endErr == errLives // also if it ends before the others are read
	})
	kept := make(map[string]bool) // the ids of jobs
	own := workspace.String() == s.dir()
	if own {
		for e := range s.entries([]place{s.place(s.dir())}) {
			if p, err := e.saved(); err != nil || time.Since(p.Record.Ended) < s.config.MaxAge {
				kept[e.id] = true
			}
		}
	}
	for _, name := range names {
		run := workspace.at(name)
		path := run.String()
		r, openErr := openRun(run)
		if openErr != nil { // it is of another version, or a part of a run
			age := s.config.MaxAge
			if openErr == errUnnamed {
				age = unnamedAge
			}
			err = errors.Join(err, removeOlder(path, age))
			continue
		}
		if !isSettled(run) {
			_, settleErr := s.settle(run)
			err = errors.Join(err, settleErr)
		}
		if time.Since(r.changed) > s.config.MaxAge {
			err = errors.Join(err, removeRun(path))
		} else if own {
			err = errors.Join(err, r.forget(kept))
		}
		r.file.Close()
	}
	os.Remove(workspace.String()) // an error: it has runs
	return err
}

// removeOlder removes the directory of a run in which nothing was made for so long.
func removeOlder(dir string, age time.Duration) error {
	if st, err := os.Stat(dir); err != nil || time.Since(st.ModTime()) < age {
		return nil
	}
	return removeRun(dir)
}

// forget removes all but some jobs of a past run.
func (r *reader) forget(kept map[string]bool) error {
	any := false
	for r.advance() {
		any = any || kept[r.head.id]
	}
	if !any {
		return removeRun(r.dir.String())
	}
	all, err := os.ReadDir(r.dir.String())
	for _, each := range all {
		if each.IsDir() && !kept[each.Name()] {
			err = errors.Join(err, os.RemoveAll(r.dir.at(each.Name()).String()))
		}
	}
	file, rewriteErr := rewrite(r.file, r.dir.String(), func(id string) bool { return kept[id] || id == r.ID })
	if file != nil {
		file.Close()
		rewriteErr = os.Chtimes(r.dir.at(journalName).String(), time.Time{}, r.changed)
	}
	return errors.Join(err, rewriteErr)
}

// Taken returns the bytes that past runs took on disk at the last sweep.
func (s *Store) Taken() int64 { return s.taken.Load() }

// roomPause is the time between two calls of MakeRoom that read the directories, if the first has
// found nothing to remove. A log calls it at each write that the limit refuses.
const roomPause = 10 * time.Second

// MakeRoom removes the output of the oldest past jobs, of all workspaces, until at least need bytes
// are free. It reports whether it has removed any.
func (s *Store) MakeRoom(need int64) bool {
	if time.Now().UnixNano() < s.noRoom.Load() {
		return false
	}
	removed, err := s.evict(need)
	if err != nil {
		s.config.Log.Warn("removing the output of past jobs", "err", err)
	}
	if !removed {
		s.noRoom.Store(time.Now().Add(roomPause).UnixNano())
	}
	return removed
}

// A usedDir is a directory and what it takes on disk. Its name is the id of a job or a run, which
// begins with the time of its start.
type usedDir struct {
	path  string
	bytes int64
}

// evict is MakeRoom that also removes what exceeds Config.MaxBytes: the output of the oldest past
// jobs and, if that is not enough, the oldest runs.
func (s *Store) evict(need int64) (removed bool, err error) {
	var outputs, runs []usedDir
	taken := int64(0)
	for _, path := range s.workspaces() {
		workspace, err := openDir(path)
		if err != nil {
			continue // another engine has removed it
		}
		for _, name := range runNames(workspace, 0) {
			dir := workspace.at(name)
			if _, err := readEnded(dir); err != nil {
				continue // its engine counts what it takes
			}
			run := usedDir{path: dir.String()}
			run.bytes = usedBy(run.path)
			taken += run.bytes
			for _, id := range runNames(dir, 0) {
				output := usedDir{path: dir.at(id).String()}
				output.bytes = usedBy(output.path)
				run.bytes -= output.bytes
				outputs = append(outputs, output)
			}
			runs = append(runs, run)
		}
		workspace.root.Close()
	}
	most := cmp.Or(s.config.MaxBytes, math.MaxInt64)
	shrink := func(dirs []usedDir, limit int64, remove func(string) error) {
		slices.SortFunc(dirs, func(a, b usedDir) int { return cmp.Compare(filepath.Base(a.path), filepath.Base(b.path)) })
		for _, d := range dirs {
			if taken <= limit {
				return
			}
			if e := remove(d.path); e != nil {
				err = errors.Join(err, e)
				continue
			}
			taken, removed = taken-d.bytes, true
		}
	}
	shrink(outputs, min(most, taken-need), os.RemoveAll)
	shrink(runs, most, removeRun)
	s.taken.Store(taken)
	return removed, err
}

// usedBy returns what a directory takes on disk with all that is in it.
func usedBy(dir string) (n int64) {
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil { // what can't be read is not ours to remove
			n += st.Blocks * 512
		}
		return nil
	})
	return n
}

//go:build unix

package history

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// How much of past runs is kept: Config.Keep jobs of a workspace, for Config.MaxAge, and
// Config.MaxBytes of all workspaces together. A sweep removes the rest, in the background: a while
// after the run was made, so that it is in the way of no first call, and then once an hour.
const (
	sweepDelay = 5 * time.Second
	sweepPause = time.Hour
)

// sweepAgain sweeps, and again later.
func (s *Store) sweepAgain() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.sweeping.Add(1) // Close waits for it
	s.mu.Unlock()
	defer s.sweeping.Done()
	if err := s.sweep(); err != nil {
		s.config.Log.Warn("sweeping records", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.sweeper.Reset(sweepPause)
	}
}

// sweep removes what is not kept of past runs.
func (s *Store) sweep() error {
	s.mu.Lock()
	own := s.workspaceDir()
	s.mu.Unlock()
	all, err := os.ReadDir(s.runsDir())
	if err != nil {
		return err
	}
	var errs []error
	for _, each := range all {
		dir := filepath.Join(s.runsDir(), each.Name())
		if !each.IsDir() {
			continue
		}
		errs = append(errs, s.locked(dir, func() error {
			if dir == own {
				return s.sweepOwn()
			}
			return s.sweepOld(dir)
		}))
	}
	_, err = s.evict(0)
	return errors.Join(append(errs, err)...)
}

// locked calls f with the lock on a workspace's directory, unless another process has it or the
// store closes.
func (s *Store) locked(dir string, f func() error) error {
	s.mu.Lock()
	stop := s.closed
	s.mu.Unlock()
	if stop {
		return nil
	}
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := lock(file, unix.LOCK_EX); errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	} else if err != nil {
		return err
	}
	return f()
}

// sweepOwn removes the past jobs of the workspace that are too many or too old.
func (s *Store) sweepOwn() error {
	kept := make(map[string]map[string]bool) // by the directory of the run: the ids of its jobs
	for e := range s.entries() {
		if p, err := e.saved(); err == nil && time.Since(p.Record.Ended) > s.config.MaxAge {
			continue
		}
		if kept[e.run.dir] == nil {
			kept[e.run.dir] = make(map[string]bool)
		}
		kept[e.run.dir][e.id] = true
	}
	var errs []error
	for _, run := range s.pastRuns() {
		r, err := openRun(run.dir)
		if err != nil {
			continue // its engine lives, or it is not ours to judge before it is too old
		}
		errs = append(errs, forgetAll(r, kept[run.dir]))
		r.file.Close()
	}
	return errors.Join(append(errs, s.sweepOld(s.workspaceDir()))...)
}

// forgetAll removes all but some jobs of a past run.
func forgetAll(r *reader, kept map[string]bool) error {
	keep := func(id string) bool { return kept[id] || id == r.ID }
	lines, gone := 0, 0
	for {
		b, err := r.tail.previous()
		if err != nil {
			break
		}
		if _, id, ok := split(b); ok {
			if lines++; !keep(id) {
				gone++
			}
		}
	}
	switch {
	case lines == 0:
		return nil // rubbish; it is removed when it is too old
	case len(kept) == 0:
		return removeRun(r.dir)
	}
	all, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, each := range all {
		if each.IsDir() && !kept[each.Name()] { // also the programs of jobs, which nothing runs any more
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, each.Name())))
		}
	}
	if gone == 0 || gone*2 < lines {
		return err
	}
	file, _, rewriteErr := rewrite(r.file, r.dir, false, keep)
	if rewriteErr != nil {
		return errors.Join(err, rewriteErr)
	}
	file.Close()
	return errors.Join(err, r.restoreTime())
}

// restoreTime gives a journal that was changed the time at which its run ended.
func (r *reader) restoreTime() error {
	return os.Chtimes(filepath.Join(r.dir, journalName), time.Time{}, r.changed)
}

// sweepOld removes the runs of a workspace that ended too long ago, what a crash has left of
// others, and the directory of the workspace if it is empty. It ends what engines have left that
// were killed.
func (s *Store) sweepOld(dir string) (err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, each := range all {
		path := filepath.Join(dir, each.Name())
		switch {
		case strings.HasPrefix(each.Name(), removed):
			err = errors.Join(err, os.RemoveAll(path))
		case strings.HasPrefix(each.Name(), unfinished):
			if st, statErr := each.Info(); statErr == nil && time.Since(st.ModTime()) > time.Hour {
				err = errors.Join(err, os.RemoveAll(path))
			}
		}
	}
	for _, name := range runNames(dir) {
		path := filepath.Join(dir, name)
		st, statErr := os.Lstat(filepath.Join(path, journalName))
		if statErr != nil { // the journal was removed
			if run, runErr := os.Stat(path); runErr == nil && time.Since(run.ModTime()) > s.config.MaxAge {
				err = errors.Join(err, os.RemoveAll(path))
			}
			continue
		}
		if time.Since(st.ModTime()) < s.config.MaxAge {
			if !isSettled(path) {
				if _, settleErr := s.settle(path, false); settleErr != nil && settleErr != errLives {
					err = errors.Join(err, settleErr)
				}
			}
			continue
		}
		file, openErr := openJournal(filepath.Join(path, journalName))
		if openErr != nil {
			continue // its engine lives
		}
		file.Close()
		err = errors.Join(err, removeRun(path))
	}
	os.Remove(dir) // an error: it has runs
	return err
}

// Taken returns the bytes that past runs took on disk at the last sweep.
func (s *Store) Taken() int64 { return s.taken.Load() }

// roomPause is the time between two calls of MakeRoom that read the directories, if the first has
// found nothing to remove. A log calls it at each write that the limit refuses.
const roomPause = 10 * time.Second

// MakeRoom removes the output of the oldest past jobs, of all workspaces, until at least need bytes
// are free. It reports whether it has removed any.
func (s *Store) MakeRoom(need int64) bool {
	s.mu.Lock()
	wait := time.Since(s.noRoom) < roomPause
	s.mu.Unlock()
	if wait {
		return false
	}
	removed, err := s.evict(need)
	if err != nil {
		s.config.Log.Warn("removing the output of past jobs", "err", err)
	}
	if !removed {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.noRoom = time.Now()
	}
	return removed
}

// evict is MakeRoom that also removes what exceeds Config.MaxBytes: the output of the oldest past
// jobs and, if that is not enough, the oldest runs.
func (s *Store) evict(need int64) (removed bool, err error) {
	jobs, runs, taken := s.usage()
	limit, most := taken-need, s.config.MaxBytes
	if most > 0 {
		limit = min(limit, most)
	}
	byName := func(a, b usedDir) int { return cmp.Compare(filepath.Base(a.path), filepath.Base(b.path)) }
	slices.SortFunc(jobs, byName)
	slices.SortFunc(runs, byName)
	shrink := func(dirs []usedDir, limit int64, remove func(string) error) {
		for _, d := range dirs {
			if taken <= limit {
				return
			}
			if e := remove(d.path); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
				continue
			}
			taken, removed = taken-d.bytes, true
		}
	}
	shrink(jobs, limit, os.RemoveAll)
	if most > 0 {
		shrink(runs, most, removeRun)
	}
	s.taken.Store(taken)
	return removed, err
}

// A usedDir is a directory and what it takes on disk. Its name is the id of a job or a run, which
// begins with the time of its start.
type usedDir struct {
	path  string
	bytes int64
}

// usage returns the directories with the output of past jobs, those of past runs without that
// output, of all workspaces, and what all of it takes on disk.
func (s *Store) usage() (jobs, runs []usedDir, all int64) {
	workspaces, _ := os.ReadDir(s.runsDir()) // an error: there are none
	for _, workspace := range workspaces {
		dir := filepath.Join(s.runsDir(), workspace.Name())
		for _, name := range runNames(dir) {
			run := filepath.Join(dir, name)
			file, err := openJournal(filepath.Join(run, journalName))
			if err != nil {
				continue // the engine lives, and counts what it takes
			}
			file.Close()
			whole := usedBy(run)
			all += whole
			for _, id := range runNames(run) {
				j := usedDir{filepath.Join(run, id), usedBy(filepath.Join(run, id))}
				jobs = append(jobs, j)
				whole -= j.bytes
			}
			runs = append(runs, usedDir{run, whole})
		}
	}
	return jobs, runs, all
}

// usedBy returns what a directory takes on disk with all that is in it.
func usedBy(dir string) (n int64) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			var st unix.Stat_t
			if unix.Lstat(path, &st) == nil {
				n += st.Blocks * 512
			}
		}
		return nil // what can't be read is not ours to remove
	})
	return n
}

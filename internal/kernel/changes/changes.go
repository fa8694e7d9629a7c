//go:build unix

// Package changes finds the files that were made or changed in a directory since a moment.
//
// Rules
//   - The times that the file system keeps decide, not who wrote: a file that another program wrote
//     meanwhile is found, too. A file that was replaced by another of its name is new.
//   - A search is bounded in entries and in time. One that has reached a bound finds fewer files,
//     and says so; it finds none that is not there.
//   - Symbolic links are not followed, and other file systems are not entered.
//
// [Now] is taken when something begins, and [Since] called when it has ended. The search runs in
// the goroutine of its caller. The package knows no jobs.
package changes

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of a search.
const (
	maxEntries = 5000 // bounds the directory entries that are visited
	maxTime    = 20 * time.Millisecond
	maxNames   = 20  // bounds the names of each kind in a result
	batch      = 256 // entries that are read at once
)

// Files are the files that a search has found, by their paths below the directory: the first names
// of each kind, those that are less deep first, and the number of all.
type Files struct {
	New, Changed           []string
	NewCount, ChangedCount int
	Partial                bool // a bound was reached: there can be more
}

// A Moment is a time by the clocks of the file systems. No file that is written later is older.
type Moment struct {
	coarse time.Time // the clock that the kernel stamps files with; it lags
	fine   time.Time // holds on file systems with fine times only; zero: unknown
}

// Now returns the present moment.
func Now() Moment { return Moment{coarseNow(), fineNow()} }

// Since returns the files below dir that were made or changed since from.
func Since(dir string, from Moment) Files { return since(dir, from, maxTime, maxEntries) }

// since is Since with other bounds.
func since(dir string, from Moment, limit time.Duration, entries int) Files {
	now := time.Now()
	s := &search{from: from.coarse, fine: from.fine, to: now, deadline: now.Add(limit), left: entries, dirs: []string{"."}}
	if dir != "" {
		s.in(dir)
	}
	found := Files{NewCount: len(s.made), ChangedCount: len(s.changed), Partial: s.stopped}
	found.New, found.Changed = first(s.made), first(s.changed)
	return found
}

// first returns the first names of a result.
func first(names []string) []string {
	slices.SortFunc(names, func(a, b string) int {
		const sep = string(filepath.Separator)
		return cmp.Or(strings.Count(a, sep)-strings.Count(b, sep), strings.Compare(a, b))
	})
	return slices.Clone(names[:min(len(names), maxNames)])
}

// A search is one walk of a directory, breadth first.
type search struct {
	from, to, deadline time.Time
	fine               time.Time // replaces from if the file system has fine times; zero: unknown
	device             uint64
	left               int      // entries that can still be visited
	dirs               []string // directories that are not read yet
	made, changed      []string
	stopped            bool // the search has reached a bound
}

// in searches the directory root.
func (s *search) in(root string) {
	for len(s.dirs) > 0 && !s.over() {
		dir := s.dirs[0]
		s.dirs = s.dirs[1:]
		path, flags := filepath.Join(root, dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC
		if dir != "." {
			flags |= unix.O_NOFOLLOW
		}
		fd, err := unix.Open(path, flags, 0)
		if err != nil {
			continue // it is gone, or not ours to read
		}
		f := os.NewFile(uintptr(fd), path)
		if s.enters(fd, dir) {
			s.read(f, dir)
		}
		f.Close()
	}
}

// over reports whether a bound is reached.
func (s *search) over() bool {
	s.stopped = s.stopped || s.left <= 0 || time.Now().After(s.deadline)
	return s.stopped
}

// enters reports whether an open directory is on the file system of the first one.
func (s *search) enters(fd int, dir string) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	if dir == "." {
		s.device = uint64(st.Dev)
		if !s.fine.IsZero() && hasFineTimes(fd) {
			s.from = s.fine
		}
	}
	return uint64(st.Dev) == s.device
}

// read visits the entries of an open directory.
func (s *search) read(f *os.File, dir string) {
	for {
		entries, err := f.ReadDir(batch)
		for _, e := range entries {
			if s.over() {
				return
			}
			s.left--
			switch path := filepath.Join(dir, e.Name()); {
			case e.IsDir() && !skipped(e.Name()):
				s.dirs = append(s.dirs, path)
			case e.Type()&fs.ModeType == 0:
				s.file(int(f.Fd()), e.Name(), path)
			}
		}
		if err != nil || len(entries) == 0 {
			return
		}
	}
}

// skipped reports whether directories of a name hold what tools write for themselves.
func skipped(name string) bool {
	switch name {
	case ".git", "node_modules", "__pycache__":
		return true
	}
	return strings.HasPrefix(name, ".venv") || strings.HasPrefix(name, ".") && strings.HasSuffix(name, "_cache")
}

// file notes the regular file of a name in an open directory, if it is new or changed.
func (s *search) file(dir int, name, path string) {
	born, modified, err := times(dir, name)
	switch {
	case err != nil:
	case s.during(born):
		s.made = append(s.made, path)
	case s.during(modified):
		s.changed = append(s.changed, path)
	}
}

// during reports whether t is in the span of the search.
func (s *search) during(t time.Time) bool { return !t.Before(s.from) && !t.After(s.to) }

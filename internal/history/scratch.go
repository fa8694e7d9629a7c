//go:build unix

package history

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"
)

// A Scratch is a directory for files that end with the engine. It is made on first use, and locked,
// so that the next engine removes it if this one was killed.
type Scratch struct {
	State  string           // an absolute path; the directory is made in it
	OnMade func(dir string) // is called when the directory was made; nil: nothing is called

	mu   sync.Mutex
	dir  string
	lock *os.File // the open directory; nil: there is none
}

// Dir returns the directory, and makes it if it does not exist.
func (s *Scratch) Dir() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		return s.dir, nil
	}
	all := filepath.Join(s.State, "scratch")
	if err := makeState(s.State, all); err != nil {
		return "", err
	}
	sweepScratch(all)
	dir := filepath.Join(all, ulid.MustNew(ulid.Now(), rand.Reader).String())
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	file, err := os.Open(dir)
	if err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	_ = lock(file, unix.LOCK_EX) // an error: without locks no other engine removes it
	s.dir, s.lock = dir, file
	if s.OnMade != nil {
		s.OnMade(dir)
	}
	return dir, nil
}

// Close removes the directory.
func (s *Scratch) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	err := errors.Join(os.RemoveAll(s.dir), s.lock.Close())
	s.lock = nil
	os.Remove(filepath.Dir(s.dir)) // an error: other engines have theirs there
	return err
}

// sweepScratch removes the directories of engines that were killed. One that is being made can have
// no lock yet: it is spared while it is empty.
func sweepScratch(all string) {
	for _, name := range runNames(all) {
		file, err := os.Open(filepath.Join(all, name))
		if err != nil {
			continue
		}
		if names, _ := file.Readdirnames(1); len(names) > 0 && lock(file, unix.LOCK_EX) == nil {
			os.RemoveAll(file.Name())
		}
		file.Close()
	}
}

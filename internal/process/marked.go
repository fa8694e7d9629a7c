//go:build unix

package process

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"
)

// A Marked is a process with the mark of an Owner in its environment.
type Marked struct {
	procfs.Process
	Job string // the job or worker that started it; empty: unknown
}

// markedPause is the time between two scans of KillMarked.
const markedPause = 5 * time.Millisecond

// KillMarked kills the processes that carry the mark of an Owner whose program was killed together
// with its guard, and returns them. [Owner.Mark] returned the mark. It returns after two scans in a
// row have found none, as the guard does, or with an error after the limit.
func KillMarked(mark string, limit time.Duration) (killed []Marked, err error) {
	name, value, ok := strings.Cut(mark, "=")
	if !ok || name != ownerMark || value == "" {
		return nil, nil
	}
	known := make(map[procfs.Process]bool)
	for empty, until := 0, time.Now().Add(limit); empty < 2; {
		all, scanErr := procfs.All()
		found := false
		for _, s := range all {
			v, has, envErr := procfs.LookupEnv(s.PID, name)
			switch {
			case errors.Is(envErr, procfs.ErrGone), errors.Is(envErr, fs.ErrPermission), errors.Is(envErr, errors.ErrUnsupported):
			case envErr != nil:
				scanErr = errors.Join(scanErr, envErr)
			case has && v == value && !s.Ended() && s.PID != os.Getpid():
				found = true
				if !known[s.Process] {
					known[s.Process] = true
					job, _, _ := procfs.LookupEnv(s.PID, jobMark) // an error: it is ending, and its job stays unknown
					killed = append(killed, Marked{s.Process, job})
				}
				s.Signal(syscall.SIGKILL) // an error: it has ended, or the next scan finds it again
			}
		}
		if empty++; found || scanErr != nil {
			empty = 0
		}
		if empty < 2 && time.Now().After(until) {
			return killed, errors.Join(errors.New("processes of a server that was killed could not be ended"), scanErr)
		}
		time.Sleep(markedPause)
	}
	return killed, nil
}

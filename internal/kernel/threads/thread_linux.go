package threads

import (
	"errors"
	"fmt"

	"asyncrepl/internal/kernel/procfs"
)

// A Thread is one thread of a process.
type Thread struct {
	PID, TID int
}

// file returns the path of a file that /proc shows of the thread.
func (t Thread) file(name string) string { return procfs.TaskPath(t.PID, t.TID, name) }

// Ended reports whether the thread has ended. The first thread of a process stays visible until the
// others have ended, too.
func (t Thread) Ended() bool {
	s, err := procfs.InspectThread(t.PID, t.TID)
	return errors.Is(err, procfs.ErrGone) || err == nil && (s.State == 'Z' || s.State == 'X')
}

// NameOf names a process in a reply.
func NameOf(pid int) string {
	s, err := procfs.Inspect(pid)
	if err != nil {
		return fmt.Sprintf("pid %d", pid)
	}
	return fmt.Sprintf("%s (pid %d)", s.Program, pid)
}

// Woken reports whether the thread has been woken. If another processor must take it up, which can
// take milliseconds on a virtual machine, the kernel (6.18) still shows the call that it was blocked
// in, but no longer the state of a thread that sleeps: it is TASK_WAKING.
func (t Thread) Woken() bool {
	s, err := procfs.InspectThread(t.PID, t.TID)
	return err == nil && s.State == 'R'
}

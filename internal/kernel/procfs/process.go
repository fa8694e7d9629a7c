//go:build unix

package procfs

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone means that the process, or its thread or descriptor that was asked about, does not exist
// any more.
var ErrGone = errors.New("process has ended")

// Process identifies one process. PID and Start together mean this process and never a later one
// with the same pid. The other fields are as they were when the process was inspected.
type Process struct {
	PID     int
	Program string // the kernel's name of it, at most 15 bytes
	Start   uint64 // the kernel's own unit; larger is later
	Parent  int
	Group   int
}

// Stat is the kernel's entry for a process or for one thread.
type Stat struct {
	Process
	Session  int
	Terminal uint64 // device number of the controlling terminal; 0: none
	State    byte   // the letter of https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
	Threads  int
	CPU      time.Duration // including children that have ended and been waited for; 0: unknown
	Memory   int64         // bytes resident; 0: unknown

	// StopSignal is the signal that stopped the process, if State is T. 0: unknown, because the
	// parent has waited for the stop, or because we lack the permission to see it.
	StopSignal syscall.Signal

	exiting bool // the first thread no longer runs its program
	killed  bool // a signal is ending the first thread
}

// Exiting reports whether the entry's thread no longer runs its program. Until it is gone, the kernel
// can show it blocked in the call in which a signal has hit it.
func (s Stat) Exiting() bool { return s.exiting || s.killed }

// Ended reports whether the process has ended with all its threads. A process whose first thread
// has ended looks like a zombie while its other threads keep running.
func (s Stat) Ended() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// Ending reports whether the process has ended or no longer runs its program. A session leader's
// terminal can be hung up by then, while the kernel shows the leader as running for a moment more.
func (s Stat) Ending() bool { return s.Ended() || s.exiting && s.Threads <= 1 }

// Stopped reports whether the process has ended, or can't run, and so not fork, until it is
// continued.
func (s Stat) Stopped() bool { return s.State == 'T' || s.State == 't' || s.Ended() }

// A Disposition is how a process treats one signal. The zero Disposition is the signal's default
// effect.
type Disposition struct {
	Ignored, Caught, Blocked bool

	Pending bool // it was sent, and has not been delivered
}

// Disposition returns how p treats sig.
func (p Process) Disposition(sig syscall.Signal) (Disposition, error) {
	d, err := DispositionOf(p.PID, sig)
	if err != nil {
		return Disposition{}, err
	}
	if err := p.verify(); err != nil { // afterwards, so that the pid was p's all the while
		return Disposition{}, err
	}
	return d, nil
}

// verify fails with ErrGone if p's pid is not p's any more.
func (p Process) verify() error {
	s, err := Inspect(p.PID)
	if err == nil && s.Start != p.Start {
		err = ErrGone
	}
	return err
}

// A FileID identifies an open file, whatever name it was opened by.
type FileID struct{ dev, ino uint64 }

// Identify returns the identity of the file that st describes.
func Identify(st *unix.Stat_t) FileID { return FileID{uint64(st.Dev), st.Ino} }

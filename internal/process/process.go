//go:build unix

package process

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone is the error of a signal to a process that has ended.
var ErrGone = errors.New("process has ended")

// Process is one process as it was seen. PID and Start together mean this process and never a later one of its number.
type Process struct {
	PID     int
	Program string
	Start   uint64 // in a unit of the kernel's; larger is later
	Parent  int
	Group   int
}

// A Disposition is what becomes of a signal. The zero Disposition is the default: it has its usual effect.
type Disposition struct{ Ignored, Caught, Blocked bool }

// An entry is a process with what else the kernel's table says of it.
type entry struct {
	Process
	session int
	state   byte // as in /proc/PID/stat
	threads int
	exiting bool          // its first thread is about to end
	cpu     time.Duration // with that of children that have ended and been waited for; 0: not told
	memory  int64         // bytes resident; 0: not told
}

// ended tells whether nothing of e runs any more. A thread group whose first thread has ended looks like a zombie
// while its other threads run on.
func (e entry) ended() bool { return (e.state == 'Z' || e.state == 'X') && e.threads <= 1 }

// ending tells whether e has ended or is about to, past all that its program does. The kernel has hung up a leader's
// terminal by then, and shows the leader running for a moment more.
func (e entry) ending() bool { return e.ended() || e.exiting && e.threads <= 1 }

// stopped tells whether e can't run, hence not fork, before somebody lets it.
func (e entry) stopped() bool { return e.state == 'T' || e.state == 't' || e.ended() }

// living are the processes among es that have not ended.
func living(es []entry) []Process {
	var ps []Process
	for _, e := range es {
		if !e.ended() {
			ps = append(ps, e.Process)
		}
	}
	return ps
}

// signalGroups sends each of sigs to every group that es are in. The numbers can't have been given to others since es
// were seen, unless all of a group ended and every number there is was used within microseconds.
func signalGroups(es []entry, sigs ...syscall.Signal) {
	sent := make(map[int]bool, len(es))
	for _, e := range es {
		target := -e.Group
		if e.Group <= 1 { // in another namespace of process numbers
			target = e.PID
		}
		if sent[target] {
			continue
		}
		sent[target] = true
		for _, sig := range sigs {
			syscall.Kill(target, sig)
		}
	}
}

// SignalName is the usual name of sig, such as SIGSEGV.
func SignalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}

// OwnFault tells whether a death by sig is as a rule the program's own doing.
func OwnFault(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGFPE, syscall.SIGILL, syscall.SIGBUS,
		syscall.SIGPIPE, syscall.SIGSYS, syscall.SIGTRAP, syscall.SIGXCPU, syscall.SIGXFSZ:
		return true
	}
	return false
}

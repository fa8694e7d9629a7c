//go:build unix

package procset

// This file sends signals to many processes at once, in the ways that end them: to their groups, with
// a hangup for those that ignore SIGTERM, and again for those that missed it.
//
// A signal to a group reaches processes that no scan has seen yet. It is sent only to a group that
// a scanned process was in: its id can't have passed to other processes since, unless the group has
// ended and the kernel has used all other pids within microseconds. A process that could not be
// inspected is left out, because its group may have changed.

import (
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"
)

// remindTime is the time from terminate to the first reminder, see [Reminder].
const remindTime = 100 * time.Millisecond

// Terminate sends SIGTERM to the groups of es, and SIGHUP to the processes that ignore SIGTERM, as
// an interactive shell does (https://www.gnu.org/software/bash/manual/html_node/Signals.html). It
// continues stopped processes so that they receive the signal.
func Terminate(es []procfs.Stat) {
	ignoring := ignoringSIGTERM(es) // first: a shell may exec when its child ends
	SendGroups(es, syscall.SIGTERM, syscall.SIGCONT)
	hangUp(ignoring)
}

// SendGroups sends sigs, in this order, to every process group with a member among es.
func SendGroups(es []procfs.Stat, sigs ...syscall.Signal) {
	sent := make(map[int]bool, len(es))
	for _, e := range es {
		target := -e.Group
		if e.Group <= 1 { // it is in another pid namespace
			target = e.PID
		}
		if !inspected(e) || sent[target] {
			continue
		}
		sent[target] = true
		for _, sig := range sigs {
			syscall.Kill(target, sig)
		}
	}
}

// DiesOf reports whether a process can die of sig, which it does if it neither ignores nor catches
// nor blocks the signal. If its signals can't be read, the answer is true.
func DiesOf(pid int, sig syscall.Signal) bool {
	d, err := procfs.DispositionOf(pid, sig)
	return err != nil || !d.Ignored && !d.Caught && !d.Blocked
}

// A Reminder repeats the SIGHUP to processes that ignore SIGTERM, because a shell that receives it
// just before it execs another program loses it. The first is due after 100 ms, and each following
// one after twice as long. The zero Reminder is never due.
type Reminder struct {
	due <-chan time.Time
	gap time.Duration
}

// NewReminder returns a Reminder for processes that have just been terminated.
func NewReminder() Reminder {
	var r Reminder
	r.set()
	return r
}

func (r *Reminder) set() {
	r.gap = max(2*r.gap, remindTime)
	r.due = time.After(r.gap)
}

// Due returns a channel that receives a value when Remind must be called.
func (r *Reminder) Due() <-chan time.Time { return r.due }

// Remind hangs up the processes of es that ignore SIGTERM.
func (r *Reminder) Remind(es []procfs.Stat) {
	hangUp(ignoringSIGTERM(es))
	r.set()
}

// ignoringSIGTERM returns the entries of es that ignore SIGTERM.
func ignoringSIGTERM(es []procfs.Stat) (ignoring []procfs.Stat) {
	for _, e := range es {
		if d, err := procfs.DispositionOf(e.PID, syscall.SIGTERM); err == nil && d.Ignored {
			ignoring = append(ignoring, e)
		}
	}
	return ignoring
}

// hangUp sends SIGHUP to each of es, as if its terminal had closed.
func hangUp(es []procfs.Stat) {
	for _, e := range es {
		e.Signal(syscall.SIGHUP) // an error: it has ended, or a reminder reaches it later
	}
}

// inspected reports whether the scan could inspect e, and did not merely count it as alive.
func inspected(e procfs.Stat) bool { return e.State != 0 }

package waiting

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/procfs"
)

// ends decides whether anything but input can wake one program. It goes from what the program's
// threads wait for to the processes of the job that hold the other ends, and to what these wait
// for. If it comes to nothing that is live, the program and those processes all wait for one
// another or for input.
//
// Live is what can happen by itself: a thread at work, a wait that ends soon, a socket that
// listens, and whatever a process outside the job can do.
type ends struct {
	probe   *probe
	program int                   // whose wait this is about
	clock   time.Duration         // its CPU time before the first reading
	clocks  map[int]time.Duration // of all processes of the job; nil before the first other is examined
	resting map[int]bool          // the other processes that have been examined or are being examined
	held    *holders              // nil before the first use
	tcp     map[string]*peers     // by network namespace
}

func newEnds(p *probe, program int) *ends {
	clock, _ := procfs.CPUTime(program) // an error: the program is gone, and confirm finds that out
	return &ends{probe: p, program: program, clock: clock}
}

// confirm returns errMoved if a process that was found at rest has run since it was examined, or
// since another one was: it can have woken that one. If the answer depends on no process but the
// program, confirm does nothing.
func (e *ends) confirm() error {
	if len(e.resting) == 0 {
		return nil
	}
	if now, err := procfs.CPUTime(e.program); err != nil || now != e.clock {
		return errMoved
	}
	for pid := range e.resting {
		before, known := e.clocks[pid]
		if now, err := procfs.CPUTime(pid); err != nil || !known || now != before {
			return errMoved
		}
	}
	return nil
}

// live reports whether one of the members that the thread waits for is live. Input is not.
func (e *ends) live(t thread, members []member) (bool, error) {
	for _, m := range members {
		is, err := e.probe.isSource(t, m)
		if err != nil {
			return false, err
		}
		live := false
		switch link := e.probe.input.pipe(); {
		case !is:
			live, err = e.memberLive(t, m)
		case link != "": // the only writer should be the server
			var writers []int
			writers, live, err = e.holders(link, func(h holder) bool { return h.writes })
			live = live || len(writers) > 0
		}
		if live || err != nil {
			return live, err
		}
	}
	return false, nil
}

// internal are the descriptors by which a program notifies itself.
var internal = []string{"anon_inode:[eventfd]", "anon_inode:[signalfd]", "anon_inode:inotify"}

const timer = "anon_inode:[timerfd]"

// memberLive is live for one member that is not the source.
func (e *ends) memberLive(t thread, m member) (bool, error) {
	link, err := t.linkOf(m)
	if err != nil {
		return false, err
	}
	kind, inode, _ := strings.Cut(link, ":")
	switch {
	case slices.Contains(internal, link):
		return false, nil
	case link == timer:
		due, err := t.timerDue(m.fd)
		return err == nil && due < briefWait, unlessHidden(err)
	case kind == "pipe":
		return e.pipeLive(t, m, link)
	case kind == "socket":
		return e.socketLive(t, strings.Trim(inode, "[]"))
	}
	return true, nil
}

// pipeLive is memberLive for a pipe. Its other ends are those that can write if the thread reads it,
// and those that can read if it writes.
func (e *ends) pipeLive(t thread, m member, link string) (bool, error) {
	reads, writes, err := t.access(m.fd)
	if err != nil {
		return true, err
	}
	return e.holdersLive(link, func(h holder) bool { return reads && h.writes || writes && h.reads })
}

// socketLive is memberLive for a socket.
func (e *ends) socketLive(t thread, inode string) (bool, error) {
	n, err := strconv.ParseUint(inode, 10, 32)
	if err != nil {
		return true, nil
	}
	peer, err := e.peer(t.pid, uint32(n))
	if peer == 0 || err != nil {
		return true, err
	}
	link := "socket:[" + strconv.FormatUint(uint64(peer), 10) + "]"
	return e.holdersLive(link, func(holder) bool { return true })
}

// holders returns the processes of the job that have the file that /proc shows as link open in a way
// that other accepts, and whether there may be more.
func (e *ends) holders(link string, other func(holder) bool) (pids []int, more bool, err error) {
	if e.held == nil {
		if e.held, err = e.probe.readHolders(); err != nil {
			return nil, true, err
		}
	}
	return e.held.others(link, other), e.held.hidden, nil
}

// holdersLive reports whether one of the processes that hold an end can do something with it by
// itself. It reports true if no process of the job holds it: then another does.
func (e *ends) holdersLive(link string, other func(holder) bool) (bool, error) {
	pids, more, err := e.holders(link, other)
	if err != nil || more || len(pids) == 0 {
		return true, err
	}
	for _, pid := range pids {
		if rests, err := e.rests(pid); !rests || err != nil {
			return true, err
		}
	}
	return false, nil
}

// rests reports whether no thread of a process can continue by itself. A circle of processes that
// wait for one another rests, and the program's own threads are otherThreadsActive's.
func (e *ends) rests(pid int) (bool, error) {
	if pid == e.program || e.resting[pid] {
		return true, nil
	}
	if e.clocks == nil { // all of them before the first reading of any of them
		e.resting, e.clocks = make(map[int]bool), make(map[int]time.Duration, len(e.probe.pids))
		for _, pid := range e.probe.pids {
			if clock, err := procfs.CPUTime(pid); err == nil {
				e.clocks[pid] = clock
			}
		}
	}
	e.resting[pid] = true
	s, err := procfs.InspectThread(pid, pid)
	if err != nil {
		return false, unlessHidden(err)
	}
	if s.State == 'T' { // it waits for a signal
		return true, nil
	}
	tids, err := procfs.Threads(pid)
	if err != nil {
		return false, unlessHidden(err)
	}
	for _, tid := range tids {
		if rests, err := e.threadRests(thread{pid: pid, tid: tid, stat: s}); !rests || err != nil {
			return false, err
		}
	}
	return true, nil
}

// threadRests is rests for one thread of a process that is not the program: it waits in a futex, for
// a child, for a signal, for input, for ends that are not live, or for longer than briefWait.
func (e *ends) threadRests(t thread) (bool, error) {
	c, err := t.blockedIn()
	if err != nil {
		return t.ended(), unlessHidden(err)
	}
	switch {
	case slices.Contains(parked, c.number), c.number == unix.SYS_WAIT4, c.number == unix.SYS_WAITID:
		return true, nil
	case slices.Contains(sleeping, c.number):
		left, err := t.sleepLeft(c)
		return err == nil && left >= briefWait, unlessHidden(err)
	}
	w, err := t.waitOf(c)
	if err != nil || w.brief() {
		return false, unlessHidden(err)
	}
	live, err := e.live(t, w.members)
	return !live, err
}

// otherThreadsActive reports whether other threads than t keep the program running without input.
// If t is blocked in a read, only threads count that wait for something live, because nothing else
// wakes the read. If t waits for several things, every thread counts that is not idle, because it
// can wake t.
func (e *ends) otherThreadsActive(t thread, read bool) (bool, error) {
	tids, err := procfs.Threads(t.pid)
	if err != nil {
		return false, err
	}
	for _, tid := range tids {
		if tid == t.tid {
			continue
		}
		other := t
		other.tid = tid
		if active, err := e.active(other, read); active || err != nil {
			return active, err
		}
	}
	return false, nil
}

// active is otherThreadsActive for one other thread.
func (e *ends) active(other thread, read bool) (bool, error) {
	c, err := other.blockedIn()
	if err != nil {
		return !read && !other.ended(), unlessHidden(err)
	}
	if slices.Contains(parked, c.number) || slices.Contains(sleeping, c.number) {
		return false, nil
	}
	w, err := other.waitOf(c)
	if err != nil {
		return !read, unlessHidden(err)
	}
	return e.live(other, w.members)
}

// ended reports whether a thread has ended. The first thread of a process stays visible until the
// others have ended, too.
func (t thread) ended() bool {
	s, err := procfs.InspectThread(t.pid, t.tid)
	return errors.Is(err, procfs.ErrGone) || err == nil && (s.State == 'Z' || s.State == 'X')
}

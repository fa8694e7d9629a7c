package waiting

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/threads"
)

// ends decides whether anything but input can wake one program. It goes from what the program's
// threads wait for to the processes of the job that hold the other ends, and to what these wait
// for. If it comes to nothing that is live, the program and those processes all wait for one
// another or for input.
//
// Live is what can happen by itself: a thread at work, a wait that ends soon, a socket that
// listens, and whatever a process outside the job can do.
type ends struct {
	probe    *probe
	program  int           // the pid of the program that waits
	clock    time.Duration // the program's CPU time before the first reading
	working  bool          // another thread of the program is on a processor, or about to be
	terminal bool          // the answer depends on a terminal that the job has made
	// clocks has the CPU times of all processes of the job; nil before the first other is examined.
	clocks  map[int]time.Duration
	resting map[int]bool // the other processes that have been examined or are being examined
	held    *holders     // nil before the first use
	sockets threads.Sockets
}

func newEnds(p *probe, program int) *ends {
	clock, _ := procfs.CPUTime(program) // an error: the program is gone, and confirm finds that out
	return &ends{probe: p, program: program, clock: clock}
}

// otherWake returns what lets the program continue without input, in words that follow its name, or
// nothing.
func (e *ends) otherWake(t thread, w threads.Wait) (why string, err error) {
	if why, err = e.membersLive(t, w.Members); why != "" || err != nil {
		return why, err
	}
	if why, err = e.otherThreadsActive(t, w.Read); why != "" || err != nil {
		return why, err
	}
	if why, err = e.backgroundJob(t); why != "" || err != nil {
		return why, err
	}
	if brief(w.Timeout) && !slices.Contains(e.probe.outside, e.program) {
		if why, err = e.othersWork(); why != "" || err != nil {
			return why, err
		}
	}
	return "", e.confirm()
}

// backgroundJob names a child of the thread's program that runs in the background of the same
// terminal, as the jobs of an interactive shell do. The shell wakes when it ends.
func (e *ends) backgroundJob(t thread) (why string, err error) {
	if t.stat.Terminal == 0 {
		return "", nil
	}
	children, err := procfs.Children(t.PID, t.stat.Threads)
	for _, child := range children {
		s, err := procfs.Inspect(child)
		if err == nil && s.Session == t.stat.Session && s.Group != t.stat.Group && !s.Stopped() {
			return "has " + threads.NameOf(child) + " in the background", nil
		}
	}
	return "", threads.UnlessHidden(err)
}

// confirm returns threads.ErrMoved if a process that was found at rest has run since it was
// examined, or since another one was: it can have woken that one. It does so, too, if any process
// of the job ends just now: such a process has closed its files, and its parent has not been woken
// yet. If the answer depends on no process but the program, confirm does nothing.
func (e *ends) confirm() error {
	if len(e.resting) == 0 {
		return nil
	}
	if now, err := procfs.CPUTime(e.program); err != nil || now != e.clock {
		return threads.ErrMoved
	}
	for pid := range e.resting {
		if e.ran(pid) {
			return threads.ErrMoved
		}
	}
	for _, pid := range e.probe.pids {
		s, err := procfs.Inspect(pid)
		ending := err == nil && s.Exiting() && s.Threads <= 1
		if errors.Is(err, procfs.ErrGone) || ending && (!s.Ended() || e.ran(pid)) {
			return threads.ErrMoved
		}
	}
	return nil
}

// ran reports whether a process has run since the first other process was examined, or was started
// since.
func (e *ends) ran(pid int) bool {
	before, known := e.clocks[pid]
	now, err := procfs.CPUTime(pid)
	return err != nil || !known || now != before
}

// membersLive returns what is live among the members that the thread waits for, in words that
// follow "the program", or nothing if none is. Input is not.
func (e *ends) membersLive(t thread, members []threads.Member) (why string, err error) {
	for _, m := range members {
		is, err := e.probe.isSource(t, m)
		if err != nil {
			return "", err
		}
		switch link := e.probe.input.pipe(); {
		case !is:
			why, err = e.memberLive(t, m)
		case link != "":
			why, err = e.writtenByOthers(link)
		}
		if why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// writtenByOthers is membersLive for the pipe that is the standard input. Its only writer should be
// the server.
func (e *ends) writtenByOthers(link string) (why string, err error) {
	writers, more, err := e.holders(link, func(h holder) bool { return h.writes })
	switch {
	case err != nil || len(writers) == 0 && !more:
		return "", err
	case more:
		return hiddenHolder, nil
	}
	return "waits for " + threads.NameOf(writers[0]), nil
}

// internal are the descriptors by which a program notifies itself.
var internal = []string{"anon_inode:[eventfd]", "anon_inode:[signalfd]"}

// memberLive is membersLive for one member that is not the source.
func (e *ends) memberLive(t thread, m threads.Member) (why string, err error) {
	link, err := t.LinkOf(m)
	if err != nil {
		return "", err
	}
	kind, inode, _ := strings.Cut(link, ":")
	switch {
	case slices.Contains(internal, link):
		return "", nil
	case link == threads.TimerLink:
		if due, err := t.TimerDue(m.FD); err != nil || due >= briefWait {
			return "", threads.UnlessHidden(err)
		}
		return "waits for a timer", nil
	case link == threads.WatchLink:
		if watches, err := t.Watches(m.FD); err != nil || !watches {
			return "", threads.UnlessHidden(err)
		}
		return "waits for a change of files", nil
	case kind == "pipe":
		return e.pipeLive(t, m, link)
	case kind == "socket":
		return e.socketLive(t, strings.Trim(inode, "[]"))
	case link == threads.ProcessLink:
		return "waits for the end of a process", nil
	case link == "":
		return "waits for something that can't be seen", nil
	}
	return e.terminalLive(t, m, link)
}

// terminalLive handles a descriptor that may be one end of a pseudo-terminal made inside the job, as
// script(1), sudo and apt make them for the programs that they run. Any other file counts as outside
// the job. A program that passes input on to such a terminal waits for input only if a program reads
// it there: `sudo make` does not.
func (e *ends) terminalLive(t thread, m threads.Member, link string) (why string, err error) {
	outside := "waits for " + link
	end, isTerminal, err := t.TerminalEnd(m.FD, link)
	if err != nil || !isTerminal {
		return outside, err
	}
	e.terminal = true
	why, err = e.holdersLive(terminalLink(end), outside, func(h holder) bool { return h.master != end.Master })
	if why != "" || err != nil || !end.Master {
		return why, err
	}
	pids := e.held.others(terminalLink(end), func(h holder) bool { return !h.master })
	for _, pid := range pids {
		if reads, err := readsTerminal(pid, end.Number); reads || err != nil {
			return "", err
		}
	}
	return "waits for " + threads.NameOf(pids[len(pids)-1]), nil
}

// readsTerminal reports whether a thread of a process waits for input of a terminal.
func readsTerminal(pid, number int) (bool, error) {
	tids, err := procfs.Threads(pid)
	if err != nil {
		return false, threads.UnlessHidden(err)
	}
	for _, tid := range tids {
		t := threads.Thread{PID: pid, TID: tid}
		w, err := t.WaitsFor()
		if err != nil {
			continue // it does not wait, or has ended
		}
		for _, m := range w.Members {
			if !m.Input {
				continue
			}
			link, err := t.LinkOf(m)
			if err != nil {
				return false, err
			}
			end, is, err := t.TerminalEnd(m.FD, link)
			if err != nil || is && end.Number == number && !end.Master {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// pipeLive is memberLive for a pipe. Its other ends are those that can write if the thread reads
// it, and those that can read if it writes.
func (e *ends) pipeLive(t thread, m threads.Member, link string) (why string, err error) {
	reads, writes, err := t.Access(m.FD)
	if err != nil {
		return "", err
	}
	outside := "waits for a pipe from outside the job"
	return e.holdersLive(link, outside, func(h holder) bool { return reads && h.writes || writes && h.reads })
}

// socketLive is memberLive for a socket.
func (e *ends) socketLive(t thread, inode string) (why string, err error) {
	n, err := strconv.ParseUint(inode, 10, 32)
	if err != nil {
		return "waits for a socket", nil
	}
	peer, outside, err := e.sockets.Peer(t.PID, uint32(n))
	if peer == 0 || err != nil {
		return outside, err
	}
	return e.holdersLive("socket:["+strconv.FormatUint(uint64(peer), 10)+"]", outside, func(holder) bool { return true })
}

// holders returns the processes of the job that have the file that /proc shows as link open in a
// way that other accepts, and whether there may be more.
func (e *ends) holders(link string, other func(holder) bool) (pids []int, more bool, err error) {
	if e.held == nil {
		if e.held, err = e.probe.readHolders(); err != nil {
			return nil, true, err
		}
	}
	return e.held.others(link, other), e.held.hidden, nil
}

const hiddenHolder = "waits for a process that can't be inspected"

// holdersLive returns which of the processes that hold an end can do something with it by itself.
// If no process of the job holds it, another does, and holdersLive returns outside.
func (e *ends) holdersLive(link, outside string, other func(holder) bool) (why string, err error) {
	pids, more, err := e.holders(link, other)
	switch {
	case err != nil:
		return "", err
	case len(pids) == 0:
		return outside, nil
	case more:
		return hiddenHolder, nil
	}
	for _, pid := range pids {
		if rests, err := e.rests(pid); err != nil {
			return "", err
		} else if !rests {
			return "waits for " + threads.NameOf(pid), nil
		}
	}
	return "", nil
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
		return false, threads.UnlessHidden(err)
	}
	if s.State == 'T' { // it waits for a signal
		return true, nil
	}
	if err := e.noNewChild(pid, s.Threads); err != nil {
		return false, err
	}
	tids, err := procfs.Threads(pid)
	if err != nil {
		return false, threads.UnlessHidden(err)
	}
	for _, tid := range tids {
		if rests, err := e.threadRests(thread{threads.Thread{PID: pid, TID: tid}, s}); !rests || err != nil {
			return false, err
		}
	}
	return true, nil
}

// noNewChild returns threads.ErrMoved if a process has a child that was not among the processes of
// the job: it can hold any end. A child that has ended does not count; if the process waits for it,
// it has been woken.
func (e *ends) noNewChild(pid, tasks int) error {
	children, err := procfs.Children(pid, tasks)
	for _, child := range children {
		if _, known := e.clocks[child]; known {
			continue
		}
		if s, err := procfs.Inspect(child); err != nil || !s.Ended() {
			return threads.ErrMoved
		}
	}
	return threads.UnlessHidden(err)
}

// othersWork names a process of the job other than the program that can continue by itself, as
// membersLive does. A program that wakes by itself can look at what that process does.
func (e *ends) othersWork() (why string, err error) {
	for _, pid := range e.probe.pids {
		if rests, err := e.rests(pid); err != nil {
			return "", err
		} else if !rests {
			return "runs beside " + threads.NameOf(pid), nil
		}
	}
	return "", nil
}

// threadRests is rests for one thread of a process that is not the program: it waits in a futex,
// for a child, for a signal, for input, for ends that are not live, or for longer than briefWait.
func (e *ends) threadRests(t thread) (bool, error) {
	c, err := t.BlockedIn()
	if err != nil {
		return t.Ended(), threads.UnlessHidden(err)
	}
	switch {
	case c.Parked(), c.AwaitsChild():
		return true, nil
	case c.Sleeps():
		left, err := t.SleepLeft(c)
		return err == nil && left >= briefWait, threads.UnlessHidden(err)
	}
	w, err := t.WaitOf(c)
	if err != nil || brief(w.Timeout) {
		return false, threads.UnlessHidden(err)
	}
	why, err := e.membersLive(t, w.Members)
	return why == "", err
}

// otherThreadsActive returns what other threads than t do that keeps the program running without
// input, as membersLive does. If t is blocked in a read, only threads count that wait for something
// live, because nothing else wakes the read. If t waits for several things, every thread counts
// that is not idle, because it can wake t.
func (e *ends) otherThreadsActive(t thread, read bool) (why string, err error) {
	tids, err := procfs.Threads(t.PID)
	if err != nil {
		return "", err
	}
	for _, tid := range tids {
		if tid == t.TID {
			continue
		}
		other := t
		other.TID = tid
		if why, err := e.otherThreadActive(other, read); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// otherThreadActive is otherThreadsActive for one other thread.
func (e *ends) otherThreadActive(other thread, read bool) (why string, err error) {
	c, err := other.BlockedIn()
	if err != nil {
		if threads.Hidden(err) && !other.Ended() {
			e.working = true
			return "", nil
		}
		return "", threads.UnlessHidden(err)
	}
	if c.Parked() || c.Sleeps() {
		// Only of a wait with a time limit: that is how a thread waits for Python's lock, which the
		// program releases as it begins to read. Other threads are parked for longer.
		e.working = e.working || c.Timed() && other.Woken()
		return "", nil
	}
	w, err := other.WaitOf(c)
	switch {
	case err == nil:
		return e.membersLive(other, w.Members)
	case !threads.Hidden(err) || read:
		return "", threads.UnlessHidden(err)
	case c.AwaitsChild():
		return "waits for a child", nil
	}
	return threadWorks, nil
}

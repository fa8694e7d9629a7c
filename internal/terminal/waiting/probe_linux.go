package waiting

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/threads"
	"asyncrepl/internal/terminal/tty"
)

// A probe is one scan of the processes of a job for those that wait for its input.
type probe struct {
	input   input
	pids    []int    // all processes of the job, and those outside
	outside []int    // they are not of the job, and have its terminal open
	sockets []uint32 // inodes of sockets that the job's foreground waits for
}

func newProbe(from Source, pids []int) *probe { return &probe{input: inputOf(from), pids: pids} }

// A thread is a thread to scan.
type thread struct {
	threads.Thread
	stat procfs.Stat // observe reads the thread's entry; before that it is the entry of the process
}

// scan finds the first of the processes with a thread that waits in a read, poll, select or
// epoll for input, and that nothing else can wake. A process that reads the terminal is in the
// foreground group, or has the terminal open without being under its job control (`su -c`, `setsid
// -w`): the kernel stops any other that reads.
func (p *probe) scan() (Evidence, verdict) {
	best := busy
	var found Evidence
	for _, pid := range p.pids {
		ev, v := p.process(pid)
		if v > best {
			best, found = v, ev
		}
		if best == waits {
			break
		}
	}
	return found, best
}

// process scans the threads of one process.
func (p *probe) process(pid int) (Evidence, verdict) {
	s, err := procfs.InspectThread(pid, pid)
	if err != nil {
		return Evidence{}, verdictAfter(err)
	}
	if !p.input.mayRead(s) && s.State != 'T' { // it is stopped as soon as it reads
		return Evidence{}, busy
	}
	tids, err := procfs.Threads(pid)
	best := busy
	if err != nil {
		best = verdictAfter(err)
	}
	var found Evidence
	for _, tid := range tids {
		if ev, v := p.thread(thread{threads.Thread{PID: pid, TID: tid}, s}); v > best {
			best, found = v, ev
		}
		if best == waits {
			break
		}
	}
	return found, best
}

// thread scans one thread.
func (p *probe) thread(t thread) (Evidence, verdict) {
	w, err := t.WaitsFor()
	if errors.Is(err, fs.ErrPermission) {
		return p.infer(t)
	}
	if err != nil {
		return Evidence{}, verdictAfter(err)
	}
	switch found, err := p.awaits(t, w.Members); {
	case err != nil:
		return Evidence{}, verdictAfter(err)
	case !found:
		return Evidence{}, busy
	}
	return p.confirm(t)
}

// confirm makes one moment of many readings of /proc. It reads the thread's clock before the first
// and after the last: if the clock stood still, the thread slept all the while, and all that the
// readings showed was true at the same time. At that moment it was blocked in its wait, there was
// no input that would end the wait, and everything that it had printed to the terminal was out.
// Without the clock, a program that has just been answered, or a program with its prompt in
// transit, would be taken for one that waits.
func (p *probe) confirm(t thread) (Evidence, verdict) {
	clock, err := procfs.NewThreadClock(t.PID, t.TID)
	if err != nil {
		return Evidence{}, uncertain
	}
	m, mode, err := p.observe(t)
	if err != nil {
		return Evidence{}, uncertain
	}
	if ran, err := clock.Ran(); ran || err != nil {
		return Evidence{}, uncertain
	}
	ev := Evidence{pid: t.PID, tid: t.TID, program: m.program}
	switch v := judge(m); v {
	case stopped:
		return ev, v
	case accepts, crowded, looping, waits:
		ev.Kind, ev.also = kindOf(mode), m.also
		return ev, v
	default:
		return Evidence{}, v
	}
}

// observe reads the facts about a thread for the rules. An error means that the moment has passed,
// or that something could not be read.
func (p *probe) observe(t thread) (m moment, mode tty.Mode, err error) {
	program := t.stat.Program
	// This comes first: it makes the terminal take its keys, and a key can be a signal that ends
	// the call.
	m.inTransit = p.input.inTransit()
	t.stat, err = procfs.InspectThread(t.PID, t.TID)
	if err != nil {
		return m, mode, err
	}
	if t.stat.Exiting() || t.stat.State == 'R' { // the call has ended, which the kernel still shows
		return m, mode, threads.ErrMoved
	}
	if t.TID == t.PID { // an exec since then would have changed it; other threads don't survive one
		program = t.stat.Program
	}
	m.program = program
	m.mayRead = p.input.mayRead(t.stat)
	w, err := t.WaitsFor()
	if err != nil {
		return m, mode, err
	}
	if found, err := p.awaits(t, w.Members); err != nil || !found {
		return m, mode, threads.ErrMoved
	}
	m.reads = w.Read
	if m.stopped = t.stat.State == 'T' || t.stat.State == 't'; m.stopped {
		return m, mode, nil
	}
	if mode, err = p.input.mode(); err != nil {
		return m, mode, err
	}
	if w.Read && mode.ReadTimeout > 0 {
		w.Timeout = mode.ReadTimeout
	}
	e := newEnds(p, t.PID)
	if m.also, err = e.otherWake(t, w); err != nil {
		return m, mode, err
	}
	m.working = e.working
	m.timeout = w.Timeout
	if e.terminal { // bytes on their way in that terminal can't be seen
		m.timeout = 0
	}
	return m, mode, nil
}

// awaits reports whether the thread waits for input of the job's source.
func (p *probe) awaits(t thread, members []threads.Member) (bool, error) {
	for _, m := range members {
		if !m.Input {
			continue
		}
		if is, err := p.isSource(t, m); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// isSource reports whether a member that the thread waits for is the job's source. The inode
// decides and not the path, which can be another terminal's in a container.
func (p *probe) isSource(t thread, m threads.Member) (bool, error) {
	st, err := t.Stat(m)
	if st == nil || err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		p.sockets = append(p.sockets, uint32(st.Ino))
	}
	return p.input.is(t, st), nil
}

// Sees reports whether the kernel shows the call that a process is blocked in. A container or a
// security module can forbid it.
func Sees(pid int) bool {
	b, err := procfs.ReadStart(procfs.TaskPath(pid, pid, "syscall"), make([]byte, 256))
	return err == nil && len(b) > 0
}

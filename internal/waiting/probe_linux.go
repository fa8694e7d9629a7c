package waiting

import (
	"strconv"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/procfs"
	"asyncrepl/internal/tty"
)

// A probe is one scan of the processes of a job for those that wait for its terminal.
type probe struct {
	pty    *tty.PTY
	device tty.Device
	pids   []int // of the whole job
}

// A thread is a thread to scan.
type thread struct {
	pid, tid int
	stat     procfs.Stat // of the thread, or of its process before observe
}

// scan finds the first of the processes pids with a thread that waits in a read, poll, select or
// epoll for input of the terminal, and that nothing else can wake. The process is in the foreground
// group, or has the terminal open without being under its job control (`su -c`, `setsid -w`): the
// kernel stops any other that reads.
func scan(pty *tty.PTY, pids []int) (Evidence, verdict) {
	p := probe{pty: pty, device: pty.Device(), pids: pids}
	foreground, _ := pty.Foreground() // 0, no group, if none is left
	best := busy
	var found Evidence
	for _, pid := range pids {
		ev, v := p.process(pid, foreground)
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
func (p *probe) process(pid, foreground int) (Evidence, verdict) {
	s, err := procfs.InspectThread(pid, pid)
	if err != nil {
		return Evidence{}, verdictAfter(err)
	}
	if !p.mayRead(s, foreground) {
		return Evidence{}, busy
	}
	tids, err := procfs.Threads(pid)
	best := busy
	if err != nil {
		best = verdictAfter(err)
	}
	var found Evidence
	for _, tid := range tids {
		if ev, v := p.thread(thread{pid: pid, tid: tid, stat: s}); v > best {
			best, found = v, ev
		}
		if best == waits {
			break
		}
	}
	return found, best
}

// mayRead reports whether the kernel would let the process read the terminal.
func (p *probe) mayRead(s procfs.Stat, foreground int) bool {
	return s.Terminal != p.device.Rdev || s.Group == foreground
}

// thread scans one thread.
func (p *probe) thread(t thread) (Evidence, verdict) {
	w, err := t.waitsFor()
	if err != nil {
		return Evidence{}, verdictAfter(err)
	}
	switch found, err := p.awaits(t, w.members); {
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
// nothing in the terminal that would end the wait, and everything that it had printed was out.
// Without the clock, a program that has just been answered, or a program with its prompt in
// transit, would be taken for one that waits.
func (p *probe) confirm(t thread) (Evidence, verdict) {
	clock, err := procfs.NewThreadClock(t.pid, t.tid)
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
	v := judge(m)
	if v == uncertain {
		return Evidence{}, v
	}
	return Evidence{Kind: kindOf(mode), pid: t.pid, tid: t.tid, program: m.program}, v
}

// observe reads the facts about a thread for the rules. An error means that the moment has passed,
// or that something could not be read.
func (p *probe) observe(t thread) (m moment, mode tty.Mode, err error) {
	program := t.stat.Program
	t.stat, err = procfs.InspectThread(t.pid, t.tid)
	if err != nil {
		return m, mode, err
	}
	if t.tid == t.pid { // an exec since then would have changed it; other threads don't survive one
		program = t.stat.Program
	}
	if t.stat.State == 'T' || t.stat.State == 't' {
		return moment{stopped: true}, mode, nil
	}
	w, err := t.waitsFor()
	if err != nil {
		return m, mode, err
	}
	if found, err := p.awaits(t, w.members); err != nil || !found {
		return m, mode, errMoved
	}
	if m.otherWake, err = p.otherWake(t, w); err != nil {
		return m, mode, err
	}
	foreground, _ := p.pty.Foreground()
	if mode, err = p.pty.Mode(); err != nil {
		return m, mode, err
	}
	m.program = program
	m.mayRead = p.mayRead(t.stat, foreground)
	m.inTransit = p.pty.InTransit()
	m.timeout = w.timeout
	if w.read && mode.ReadTimeout > 0 {
		m.timeout = mode.ReadTimeout
	}
	return m, mode, nil
}

// otherWake reports whether the program can continue without input of the terminal.
func (p *probe) otherWake(t thread, w wait) (bool, error) {
	if wakeable, err := p.externallyWakeable(t, w.members); wakeable || err != nil {
		return wakeable, err
	}
	return p.otherThreadsActive(t, w.read)
}

// isTerminal reports whether a member that the thread waits for is the terminal. The inode decides
// and not the path, which can be another terminal's in a container. /dev/tty is the terminal if the
// terminal controls the process.
func (p *probe) isTerminal(t thread, m member) (bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(t.file("fd/"+strconv.Itoa(m.fd)), &st); err != nil {
		return false, unlessHidden(err)
	}
	if m.inode != 0 && m.inode != st.Ino {
		return false, nil
	}
	if st.Rdev == controlling && st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return t.stat.Terminal == p.device.Rdev, nil
	}
	return tty.DeviceOf(&st) == p.device, nil
}

// controlling is the device number of /dev/tty.
var controlling = unix.Mkdev(5, 0)

// file returns the path of a file that /proc shows of the thread.
func (t thread) file(name string) string { return procfs.TaskPath(t.pid, t.tid, name) }

// Sees reports whether the kernel shows the call that a process is blocked in. A container or a
// security module can forbid it.
func Sees(pid int) bool {
	b, err := procfs.ReadStart(procfs.TaskPath(pid, pid, "syscall"), make([]byte, 256))
	return err == nil && len(b) > 0
}

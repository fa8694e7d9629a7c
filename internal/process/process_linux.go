package process

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"asyncrepl/internal/procfs"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes the kernel give us the orphans among our descendants, and reports whether
// it does.
func becomeSubreaper() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

// lingers reports whether something may be left of a session that is not among our descendants.
// That can't be here.
func lingers(int) bool { return false }

// ownChildren returns the pids of our children, zombies too.
func ownChildren() ([]int, error) { return procfs.Children(os.Getpid(), 0) }

// walk returns those of roots that are there still and all their descendants, parents before their
// children. A root that could not be inspected is there, with nothing known but its identity. (The
// session shows more only on systems where orphans do not come to us.)
func walk(_ int, roots []procfs.Process) (es []procfs.Stat, err error) {
	for _, p := range roots {
		switch e, inspectErr := procfs.Inspect(p.PID); {
		case inspectErr == nil && e.Start == p.Start:
			es = append(es, e)
		case inspectErr != nil && !errors.Is(inspectErr, procfs.ErrGone):
			es, err = append(es, procfs.Stat{Process: p}), cmp.Or(err, inspectErr)
		}
	}
	for i := 0; i < len(es); i++ {
		pids, listErr := procfs.Children(es[i].PID, es[i].Threads)
		if !errors.Is(listErr, procfs.ErrGone) {
			err = cmp.Or(err, listErr)
		}
		for _, pid := range pids {
			switch e, inspectErr := procfs.Inspect(pid); {
			case inspectErr == nil && e.Parent == es[i].PID:
				es = append(es, e)
			case inspectErr != nil && !errors.Is(inspectErr, procfs.ErrGone):
				err = cmp.Or(err, inspectErr)
			}
		}
	}
	return es, err
}

// childSignals returns a channel that receives when a child has died, and a function that stops
// that.
func childSignals() (dying <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1) // one is enough: a scan finds all
	signal.Notify(c, syscall.SIGCHLD)
	return c, func() { signal.Stop(c) }
}

// resetInheritance keeps our children from inheriting what we have inherited. Signals that we were
// started to ignore, as a shell's background job ignores SIGINT, are caught: a child starts with
// the default for what its parent catches. Descriptors that were left open for us are closed in
// children.
func resetInheritance() {
	unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11 they are inherited

	caught := make(chan os.Signal, 1) // never read: catching is all
	signals, _ := procfs.SignalsOf(os.Getpid())
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if signals.Ignored.Has(sig) {
			signal.Notify(caught, sig)
		}
	}
}

// withPidfd makes a start put a descriptor of the new process in fd; it stays -1 if the kernel has
// none.
func withPidfd(attr *syscall.SysProcAttr, fd *int) { attr.PidFD = fd }

// startDefault starts a process with no signal blocked, even if this program was started with some.
// (For ignored signals, see resetInheritance.)
func startDefault(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var none, before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, &before); err == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	}
	return os.StartProcess(path, argv, attr)
}

// A waiter waits for the end of one process without reaping it.
type waiter struct{ pidfd *os.File } // nil: the kernel has none

func newWaiter(pidfd int) waiter {
	if pidfd < 0 {
		return waiter{}
	}
	if err := unix.SetNonblock(pidfd, true); err != nil { // a blocking one is kept out of the poller
		unix.Close(pidfd)
		return waiter{}
	}
	return waiter{os.NewFile(uintptr(pidfd), "pidfd")}
}

// wait parks in the poller, or blocks a thread if there is no pidfd.
func (w waiter) wait(pid int) {
	if w.pidfd != nil {
		defer w.pidfd.Close()
		if conn, err := w.pidfd.SyscallConn(); err == nil && conn.Read(readable) == nil {
			return
		}
	}
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// close releases a waiter that is not waited for.
func (w waiter) close() {
	if w.pidfd != nil {
		w.pidfd.Close()
	}
}

func readable(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// oomKills returns how many processes of our own control group the kernel has killed because memory
// was short. Our children are in that group unless they were moved; the counts of other groups,
// also of groups within ours, are mostly of others. If our group does not count, it is the system's
// number.
func oomKills() (uint64, error) {
	file := oomFile()
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if name, value, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && name == "oom_kill" {
			return strconv.ParseUint(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no count of OOM kills", file)
}

// oomFile returns the file with the count. It is looked up each time, because a process can be
// moved.
func oomFile() string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err == nil {
		for line := range strings.Lines(string(groups)) {
			_, group, _ := strings.Cut(strings.TrimSpace(line), ":")
			controllers, dir, _ := strings.Cut(group, ":")
			var file string
			switch controllers {
			case "memory": // version 1
				file = filepath.Join("/sys/fs/cgroup/memory", dir, "memory.oom_control")
			case "": // version 2
				file = filepath.Join("/sys/fs/cgroup", dir, "memory.events.local")
			default:
				continue
			}
			if _, err := os.Stat(file); err == nil {
				return file
			}
		}
	}
	return "/proc/vmstat"
}

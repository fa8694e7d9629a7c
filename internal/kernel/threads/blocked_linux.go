package threads

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/sockdiag"
)

// maxChain is how many processes that wait for one another Blocked follows.
const maxChain = 5

// Blocked says why a process waits, in words that follow its name, and for how long the last
// process that they name has been waiting. It returns "" if the process is not blocked, or if the
// system does not show in what; the time is 0 if the system does not show it.
func Blocked(pid int) (words string, since time.Duration) {
	return blocked(pid, maxChain)
}

func blocked(pid, chain int) (words string, since time.Duration) {
	t, c, ok := representative(pid)
	if !ok {
		return "", 0
	}
	if child := t.awaitedChild(c); child != 0 {
		words = "waits for " + NameOf(child)
		if chain > 1 {
			if more, since := blocked(child, chain-1); more != "" {
				return words + ", which " + more, since
			}
		}
		return words, t.blockedFor()
	}
	if words = t.blockedOn(c); words == "" {
		return "", 0
	}
	return words, t.blockedFor()
}

// representative returns the thread whose call shows best what a process waits for, or the first of
// several, and its call. It returns false if a thread is not blocked.
func representative(pid int) (rep Thread, in Call, ok bool) {
	tids, err := procfs.Threads(pid)
	if err != nil {
		return Thread{}, Call{}, false
	}
	for _, tid := range tids {
		t := Thread{PID: pid, TID: tid}
		c, err := t.BlockedIn()
		if err != nil {
			if t.Ended() {
				continue
			}
			return Thread{}, Call{}, false
		}
		if !ok || informative(c) > informative(in) {
			rep, in, ok = t, c, true
		}
	}
	return rep, in, ok
}

// informative ranks calls by how much they show of why a process waits. The threads of a runtime
// wait for one another and for short times.
func informative(c Call) int {
	switch {
	case c.Parked():
		return 0
	case c.Sleeps():
		return 1
	}
	return 2
}

// awaitedChild returns the child that the thread, which is blocked in c, waits for. It returns 0 if
// the thread waits for something else, or for any of several children.
func (t Thread) awaitedChild(c Call) int {
	switch {
	case c.number == unix.SYS_WAIT4 && int32(c.args[0]) > 0:
		return int(int32(c.args[0]))
	case c.number == unix.SYS_WAITID && c.args[0] == unix.P_PID:
		return int(int32(c.args[1]))
	case !c.AwaitsChild() && c.number != unix.SYS_RT_SIGSUSPEND: // dash suspends itself
		return 0
	}
	if living := t.livingChildren(); len(living) == 1 {
		return living[0]
	}
	return 0
}

// livingChildren returns the children of the thread's process that have not ended, as far as they
// can be seen.
func (t Thread) livingChildren() []int {
	tids, err := procfs.Threads(t.PID)
	if err != nil {
		return nil
	}
	all, _ := procfs.Children(t.PID, len(tids)) // an error: those that could be read
	return slices.DeleteFunc(all, func(pid int) bool {
		s, err := procfs.Inspect(pid)
		return err != nil || s.Ended()
	})
}

// blockedOn says what the thread waits for, which is blocked in c.
func (t Thread) blockedOn(c Call) string {
	if s, err := procfs.InspectThread(t.PID, t.TID); err == nil && s.State == 'D' && c.number != unix.SYS_CLONE {
		return "waits for the disk"
	}
	switch {
	case c.AwaitsChild(), c.number == unix.SYS_RT_SIGSUSPEND && len(t.livingChildren()) > 1:
		return t.severalChildren()
	case c.Sleeps():
		return t.sleeping(c)
	case c.number == unix.SYS_FLOCK, c.number == unix.SYS_FCNTL:
		return "waits for a lock of " + t.nameOfFile(int(int32(c.args[0])))
	case c.number == unix.SYS_RT_SIGTIMEDWAIT, c.number == unix.SYS_RT_SIGSUSPEND, c.number == sysPause:
		return "waits for a signal"
	case c.Parked():
		return "waits for a lock"
	case c.number == unix.SYS_CONNECT:
		if to := t.address(c.args[1], c.args[2]); to != "" {
			return "tries to connect to " + to
		}
	}
	w, err := t.WaitOf(c)
	if err != nil {
		return ""
	}
	return t.blockedOnFiles(w)
}

// sleeping says how long the thread, which sleeps in c, still does so. A call that names a
// duration, not an end, shows only how long it takes in all.
func (t Thread) sleeping(c Call) string {
	left, err := t.SleepLeft(c)
	switch {
	case err != nil || left <= 0:
		return "sleeps"
	case c.sleepsUntil():
		return fmt.Sprintf("sleeps, for %s more", left.Round(time.Second))
	}
	return fmt.Sprintf("is in a sleep of %s", left.Round(time.Millisecond))
}

// severalChildren names the children that the thread waits for.
func (t Thread) severalChildren() string {
	const most = 3
	living := t.livingChildren()
	if len(living) == 0 {
		return "waits for a child"
	}
	var names []string
	for _, pid := range living[:min(most, len(living))] {
		names = append(names, NameOf(pid))
	}
	text := "waits for " + strings.Join(names, ", ")
	if more := len(living) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// blockedOnFiles says what the thread waits for in w: the first descriptor that can be described.
func (t Thread) blockedOnFiles(w Wait) string {
	for _, m := range w.Members {
		if words := t.blockedOnFile(m); words != "" {
			return words
		}
	}
	if w.Timeout >= 0 {
		return "waits for a timer"
	}
	return ""
}

// blockedOnFile is blockedOnFiles for one descriptor.
func (t Thread) blockedOnFile(m Member) string {
	link, err := t.LinkOf(m)
	if err != nil || link == "" {
		return ""
	}
	kind, inode, _ := strings.Cut(link, ":")
	var words string
	switch {
	case kind == "socket":
		n, err := strconv.ParseUint(strings.Trim(inode, "[]"), 10, 32)
		if err != nil {
			return ""
		}
		_, words, _ = new(Sockets).Peer(t.PID, uint32(n)) // an error: what is known of it
		if words == "" {
			words = "waits for a socket"
		}
	case kind == "pipe":
		words = "waits for a pipe"
	case link == TimerLink:
		words = "waits for a timer"
	case link == ProcessLink:
		words = "waits for the end of a process"
	case link == WatchLink:
		words = "waits for a change of files"
	case strings.HasPrefix(link, "/dev/pts/"), link == "/dev/tty":
		words = "waits for its terminal"
	case strings.HasPrefix(link, "/"):
		words = "waits for " + link
	default:
		return ""
	}
	if !m.Input {
		words += ", which takes no more of its output"
	}
	return words
}

// nameOfFile returns the path of one of the thread's descriptors.
func (t Thread) nameOfFile(fd int) string {
	if link, err := t.LinkOf(Member{FD: fd}); err == nil && link != "" {
		return link
	}
	return "a file"
}

// address reads the Internet address to which the thread connects, or returns "".
func (t Thread) address(at, size uint64) string {
	b := make([]byte, min(size, unix.SizeofSockaddrInet6))
	if t.peek(at, b) != nil {
		return ""
	}
	return sockdiag.Address(b)
}

// blockedFor returns how long the thread has not run, by the kernel's own clock. The calling thread
// runs, so its last run is the present. It returns 0 if the kernel does not show it.
func (t Thread) blockedFor() time.Duration {
	then, ok := lastRun(t.file("sched"))
	now, also := lastRun("/proc/thread-self/sched")
	if !ok || !also || now < then {
		return 0
	}
	return now - then
}

// lastRun reads when a thread ran last.
func lastRun(path string) (time.Duration, bool) {
	b, err := procfs.ReadAtMost(path, 4<<10)
	if err != nil {
		return 0, false
	}
	_, rest, found := bytes.Cut(b, []byte("se.exec_start"))
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	ms, err := strconv.ParseFloat(strings.Trim(string(value), " :"), 64)
	return time.Duration(ms * float64(time.Millisecond)), found && err == nil
}

package procfs

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pathOf returns the path of a file that /proc shows of a process.
func pathOf(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// TaskPath returns the path of a file that /proc shows of a thread.
func TaskPath(pid, tid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(tid) + "/" + name
}

// Inspect returns the kernel's entry for a process.
func Inspect(pid int) (Stat, error) { return inspect(pid, pathOf(pid, "stat"), true) }

// InspectThread returns the kernel's entry for one thread.
func InspectThread(pid, tid int) (Stat, error) {
	return inspect(tid, TaskPath(pid, tid, "stat"), true)
}

// inspect reads a stat file. reserved is false for a caller within WithReserve.
func inspect(id int, path string, reserved bool) (Stat, error) {
	var arr [1024]byte // a stat is a third of that
	var b []byte
	var err error
	if reserved {
		b, err = ReadStart(path, arr[:])
	} else {
		b, err = read(path, arr[:], once)
	}
	if err != nil {
		return Stat{}, err
	}
	s, ok := parseStat(id, b)
	if !ok {
		return Stat{}, &fs.PathError{Op: "parse", Path: path, Err: errors.New("unknown format")}
	}
	return s, nil
}

// tick is the unit of CPU times in /proc/PID/stat, the same on every machine.
const tick = time.Second / 100

// The kernel's flags PF_EXITING and PF_SIGNALED.
const (
	pfExiting  = 0x4
	pfSignaled = 0x400
)

// parseStat reads a line of /proc/PID/stat. The program's name can contain anything, even
// parentheses.
func parseStat(pid int, b []byte) (Stat, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return Stat{}, false
	}
	var field [50][]byte
	n := 0
	for f := range bytes.FieldsSeq(b[end+1:]) {
		field[n] = f
		if n++; n == len(field) || n == 22 && field[0][0] != 'T' { // all that is used
			break
		}
	}
	if n < 22 || n < len(field) && field[0][0] == 'T' {
		return Stat{}, false
	}
	ok := true
	number := func(i int) int64 {
		x, err := strconv.ParseInt(string(field[i]), 10, 64)
		ok = ok && err == nil
		return x
	}
	s := Stat{
		Process: Process{
			PID: pid, Program: string(b[open+1 : end]), Start: uint64(number(19)), Parent: int(number(1)), Group: int(number(2)),
		},
		State:    field[0][0],
		Session:  int(number(3)),
		Terminal: uint64(uint32(number(4))), // printed as a signed number
		exiting:  number(6)&pfExiting != 0,
		killed:   number(6)&pfSignaled != 0,
		// utime, stime, cutime and cstime
		CPU:     time.Duration(number(11)+number(12)+number(13)+number(14)) * tick,
		Threads: int(number(17)),
		Memory:  number(21) * int64(os.Getpagesize()),
	}
	if s.State == 'T' { // the status with which the stop would be reported to the parent
		s.StopSignal = syscall.Signal(number(49))
	}
	return s, ok
}

// All returns every process that this process is allowed to see.
func All() ([]Stat, error) {
	pids, err := numbers("/proc")
	if err == nil && !slices.Contains(pids, os.Getpid()) {
		err = &fs.PathError{Op: "list", Path: "/proc", Err: errNoProc}
	}
	all := make([]Stat, 0, len(pids))
	for _, pid := range pids {
		s, e := Inspect(pid)
		switch {
		case e == nil:
			all = append(all, s)
		// With hidepid, the pids of processes that can't be read are listed.
		case e != ErrGone && !errors.Is(e, fs.ErrPermission):
			err = cmp.Or(err, e)
		}
	}
	return all, err
}

// Children returns the pids of a process's children, zombies too. A list that changes while the
// kernel writes it can lack some. A caller that knows that the process has one thread passes 1 for
// threads, which saves listing them; any other number has no effect.
func Children(pid, threads int) ([]int, error) {
	if !childLists() {
		return childrenOf(pid)
	}
	tids := []int{pid}
	var err error
	if threads != 1 {
		if tids, err = numbers(pathOf(pid, "task")); err == ErrGone {
			return nil, err
		}
	}
	var arr [512]byte
	var pids []int
	// A thread that ends leaves its children to the first one.
	for _, tid := range slices.Backward(tids) {
		b, e := readFile(TaskPath(pid, tid, "children"), arr[:])
		if e != nil {
			if e != ErrGone || len(tids) == 1 { // one of several threads can end meanwhile
				err = cmp.Or(err, e)
			}
			continue
		}
		for f := range bytes.FieldsSeq(b) {
			if n, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, n)
			}
		}
	}
	if len(tids) > 1 { // and then they can be in both lists
		slices.Sort(pids)
		pids = slices.Compact(pids)
	}
	return pids, err
}

// childrenOf finds the children of a process among all processes.
func childrenOf(pid int) ([]int, error) {
	all, err := All()
	var pids []int
	for _, s := range all {
		if s.Parent == pid {
			pids = append(pids, s.PID)
		}
	}
	return pids, err
}

// A ChildList is the kernel's list of the children of a process, kept open: reading it again costs
// a tenth of a scan.
type ChildList struct {
	pid  int
	file *os.File // the list of the first thread
}

// OpenChildList opens the list of a process's children. The caller must close it.
func OpenChildList(pid int) (*ChildList, error) {
	f, err := os.Open(TaskPath(pid, pid, "children"))
	if err != nil {
		return nil, err
	}
	return &ChildList{pid, f}, nil
}

// Empty reports whether the process surely has no children. If it has several threads, or l is nil,
// that is not known. The answer for a process that has ended means nothing.
func (l *ChildList) Empty() bool {
	if l == nil {
		return false
	}
	var st unix.Stat_t
	// A directory has two links, and one more for each directory in it: one for each thread.
	if err := unix.Stat(pathOf(l.pid, "task"), &st); err != nil || st.Nlink != 2+1 {
		return false
	}
	var b [1]byte
	// The children of a thread that has ended are the first thread's by now.
	n, err := l.file.ReadAt(b[:], 0)
	return n == 0 && err == io.EOF
}

// Close closes the list. It does nothing if l is nil.
func (l *ChildList) Close() {
	if l != nil {
		l.file.Close()
	}
}

// childLists reports whether the kernel lists the children of each thread.
var childLists = sync.OnceValue(func() bool {
	return unix.Access("/proc/thread-self/children", unix.R_OK) == nil
})

// Threads returns the ids of a process's threads.
func Threads(pid int) ([]int, error) {
	dir := pathOf(pid, "task")
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, failed("stat", dir, err)
	}
	if st.Nlink == 3 { // itself, its parent and one thread: no need to list
		return []int{pid}, nil
	}
	return numbers(dir)
}

// Descriptors returns the numbers of the open files of a process, as one of its threads has them. A
// thread that has ended has none, even the first one.
func Descriptors(pid, tid int) ([]int, error) { return numbers(TaskPath(pid, tid, "fd")) }

// CountFiles returns how many open files a process has, or 0 if that is unknown: a kernel before 6.2
// does not count them.
func CountFiles(pid int) int {
	var st unix.Stat_t
	unix.Stat(pathOf(pid, "fd"), &st) // an error: 0
	return int(st.Size)
}

// Files returns the identities of the files that a process has open.
func Files(pid int) ([]FileID, error) {
	fds, err := Descriptors(pid, pid)
	var ids []FileID
	for _, fd := range fds {
		var st unix.Stat_t
		path := pathOf(pid, "fd/"+strconv.Itoa(fd))
		switch e := unix.Stat(path, &st); e {
		case nil:
			ids = append(ids, Identify(&st))
		case unix.ENOENT: // closed meanwhile
		default:
			err = cmp.Or(err, failed("stat", path, e))
		}
	}
	return ids, err
}

// numbers returns the names in a directory of /proc that are numbers.
func numbers(dir string) (ns []int, err error) {
	err = WithReserve(func() error {
		ns, err = list(dir)
		return err
	})
	return ns, err
}

func list(dir string) ([]int, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed("open", dir, err)
	}
	defer unix.Close(fd)
	var ns []int
	var names []string
	for buf := make([]byte, 8<<10); ; {
		n, err := unix.ReadDirent(fd, buf)
		switch {
		case err != nil:
			return ns, failed("list", dir, err)
		case n <= 0:
			return ns, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if i, err := strconv.Atoi(name); err == nil {
				ns = append(ns, i)
			}
		}
	}
}

// LookupEnv returns the value of a variable in the environment that a process's program was started
// with.
func LookupEnv(pid int, name string) (value string, found bool, err error) {
	b, err := readFile(pathOf(pid, "environ"), nil)
	if err != nil {
		return "", false, err
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if v, ok := strings.CutPrefix(string(kv), name+"="); ok {
			return v, true, nil
		}
	}
	return "", false, nil
}

// PrivateMemory returns how many bytes of its memory a process shares with no other.
func PrivateMemory(pid int) (int64, error) {
	b, err := readFile(pathOf(pid, "smaps_rollup"), make([]byte, 2048))
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 3 && (f[0] == "Private_Clean:" || f[0] == "Private_Dirty:") {
			kB, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, &fs.PathError{Op: "parse", Path: pathOf(pid, "smaps_rollup"), Err: err}
			}
			sum += kB << 10
		}
	}
	return sum, nil
}

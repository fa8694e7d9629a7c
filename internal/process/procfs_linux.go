package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// slurp reads a file of /proc into buf, grown if need be. It costs three system calls where os.ReadFile makes five.
func slurp(path string, buf []byte) ([]byte, error) {
	b, err := read(path, buf)
	if err == unix.EMFILE {
		return readApart(path)
	}
	return b, err
}

func readApart(path string) (b []byte, err error) {
	err = unix.EMFILE
	apart(func() { b, err = read(path, nil) })
	return b, err
}

func read(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, max(512, cap(buf)))...)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return buf, err
		}
		buf = buf[:len(buf)+n]
	}
}

// file is the path of a file that /proc shows of a process.
func file(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// inspect reads what the kernel's table says of a process.
func inspect(pid int) (entry, bool) {
	var arr [512]byte
	b, err := slurp(file(pid, "stat"), arr[:0])
	if err != nil {
		return entry{}, false
	}
	return parseStat(pid, b)
}

// tick is the unit of processor times in /proc/PID/stat, the same on every machine.
const tick = time.Second / 100

// exiting is the kernel's PF_EXITING: a thread that runs no more of its program.
const exiting = 0x4

// parseStat reads a line of /proc/PID/stat. The program's name may hold anything, parentheses too.
func parseStat(pid int, b []byte) (entry, bool) {
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || shut < open {
		return entry{}, false
	}
	e := entry{Process: Process{PID: pid, Program: string(b[open+1 : shut])}}
	i := 0
	for f := range bytes.FieldsSeq(b[shut+1:]) {
		switch i {
		case 0:
			e.state = f[0]
		case 1:
			e.Parent, _ = strconv.Atoi(string(f))
		case 2:
			e.Group, _ = strconv.Atoi(string(f))
		case 3:
			e.session, _ = strconv.Atoi(string(f))
		case 6:
			flags, _ := strconv.ParseUint(string(f), 10, 64)
			e.exiting = flags&exiting != 0
		case 11, 12, 13, 14: // in the program and for it, by itself and by its children
			n, _ := strconv.ParseInt(string(f), 10, 64)
			e.cpu += time.Duration(n) * tick
		case 17:
			e.threads, _ = strconv.Atoi(string(f))
		case 19:
			var err error
			if e.Start, err = strconv.ParseUint(string(f), 10, 64); err != nil {
				return entry{}, false
			}
		case 21:
			pages, err := strconv.ParseInt(string(f), 10, 64)
			e.memory = pages * int64(os.Getpagesize())
			return e, err == nil
		}
		i++
	}
	return entry{}, false
}

// walk returns those of roots that are there still and all their descendants, parents before their children. (The
// session tells more only where orphans do not come to us.)
func walk(_ int, roots []Process) []entry {
	var es []entry
	for _, r := range roots {
		if e, ok := inspect(r.PID); ok && e.Start == r.Start {
			es = append(es, e)
		}
	}
	for i := 0; i < len(es); i++ {
		for _, pid := range children(es[i].PID, es[i].threads) {
			if e, ok := inspect(pid); ok && e.Parent == es[i].PID {
				es = append(es, e)
			}
		}
	}
	return es
}

// everybody is every process that can be seen.
func everybody() []entry {
	var es []entry
	for _, pid := range numbers("/proc") {
		if e, ok := inspect(pid); ok {
			es = append(es, e)
		}
	}
	return es
}

// ownChildren is the numbers of this process's children, zombies too.
func ownChildren() []int { return children(os.Getpid(), 0) }

// childLists tells whether the kernel lists the children of each thread.
var childLists = sync.OnceValue(func() bool {
	return unix.Access("/proc/thread-self/children", unix.R_OK) == nil
})

// children is the numbers of a process's children. Threads 1 spares the look at which threads it has.
func children(pid, threads int) []int {
	if !childLists() {
		var pids []int
		for _, e := range everybody() {
			if e.Parent == pid {
				pids = append(pids, e.PID)
			}
		}
		return pids
	}
	tids := []int{pid}
	if threads != 1 {
		tids = numbers(file(pid, "task"))
	}
	var arr [512]byte
	var pids []int
	for _, tid := range tids {
		b, err := slurp(file(pid, "task/"+strconv.Itoa(tid)+"/children"), arr[:0])
		if err != nil {
			continue
		}
		for f := range bytes.FieldsSeq(b) {
			if n, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// numbers is the names in a directory that are numbers.
func numbers(dir string) []int {
	names, err := list(dir)
	if err == unix.EMFILE {
		apart(func() { names, _ = list(dir) })
	}
	var ns []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			ns = append(ns, n)
		}
	}
	return ns
}

// list is the names in a directory, as many as can be read.
func list(dir string) (names []string, err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for buf := make([]byte, 4096); ; {
		n, err := unix.ReadDirent(fd, buf)
		if n <= 0 || err != nil {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// variable is the value that a variable had in the environment a program was started with.
func variable(pid int, name string) (string, bool) {
	b, err := slurp(file(pid, "environ"), nil)
	if err != nil {
		return "", false
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if v, ok := strings.CutPrefix(string(kv), name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// openFiles are the files that a process holds open.
func openFiles(pid int) []fileID {
	var ids []fileID
	for _, fd := range numbers(file(pid, "fd")) {
		var st unix.Stat_t
		if unix.Stat(file(pid, "fd/"+strconv.Itoa(fd)), &st) == nil {
			ids = append(ids, identify(&st))
		}
	}
	return ids
}

// withstands tells whether a process ignores, catches or blocks sig, and whether it ignores it.
func withstands(pid int, sig syscall.Signal) (any, ignores bool) {
	b, _ := slurp(file(pid, "status"), nil)
	ignores = inSet(b, "SigIgn", sig)
	return ignores || inSet(b, "SigCgt", sig) || inSet(b, "SigBlk", sig), ignores
}

// inSet tells whether sig is in one of the sets of signals that a status file shows.
func inSet(status []byte, set string, sig syscall.Signal) bool {
	_, rest, _ := bytes.Cut(status, []byte("\n"+set+":\t"))
	hex, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, _ := strconv.ParseUint(string(hex), 16, 64)
	return mask>>(sig-1)&1 == 1
}

// SignalPID sends sig to p, and to no later process of the same number.
func SignalPID(p Process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ESRCH {
		return ErrGone
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if e, ok := inspect(p.PID); !ok || e.Start != p.Start {
		return ErrGone
	}
	if err != nil { // no pidfds here
		err = syscall.Kill(p.PID, sig)
	} else {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if err == unix.ESRCH {
		return ErrGone
	}
	return err
}

package pystack

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
)

// A process is the memory of a process.
type process int

// read reads all spans, in one system call if it can.
func (pid process) read(spans []span) error {
	local := make([]unix.Iovec, len(spans))
	remote := make([]unix.RemoteIovec, len(spans))
	want := 0
	for i, s := range spans {
		local[i].Base = &s.into[0]
		local[i].SetLen(len(s.into))
		remote[i] = unix.RemoteIovec{Base: uintptr(s.addr), Len: len(s.into)}
		want += len(s.into)
	}
	n, err := procfs.ReadMemory(int(pid), local, remote)
	switch {
	case err == unix.EFAULT || err == nil && n < want:
		return errTorn
	case err == unix.ESRCH:
		return procfs.ErrGone
	case err != nil:
		return &UnavailableError{fmt.Errorf("reading its memory: %w", err)}
	}
	return nil
}

// activity returns how long the main thread of a process has run, how often it has left a processor,
// whether it runs, and whether a signal has stopped it.
func activity(pid int) (ran time.Duration, switches int, runs, stopped bool) {
	var buf [2048]byte
	// If this fails, the process counts as idle.
	b, _ := procfs.ReadStart(procfs.TaskPath(pid, pid, "schedstat"), buf[:])
	text, _, _ := strings.Cut(string(b), " ")
	n, _ := strconv.ParseInt(text, 10, 64)
	// If this fails, the switches are unknown.
	b, _ = procfs.ReadStart(procfs.TaskPath(pid, pid, "status"), buf[:])
	for line := range strings.Lines(string(b)) {
		if name, count, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
			n, _ := strconv.Atoi(strings.TrimSpace(count))
			switches += n
		}
	}
	st, err := procfs.InspectThread(pid, pid)
	return time.Duration(n), switches, err == nil && st.State == 'R', err == nil && st.Stopped() && !st.Ended()
}

// probe is read to find out whether reading is allowed at all. As a variable of the package it does
// not move.
var probe = [1]byte{1}

// Available returns why no look can work on this system, or nil. A look needs the right to trace a
// child, which a container's rules or Yama
// (https://www.kernel.org/doc/html/latest/admin-guide/LSM/Yama.html) can deny.
func Available() error {
	var b [1]byte
	if err := process(os.Getpid()).read([]span{{uint64(uintptr(unsafe.Pointer(&probe))), b[:]}}); err != nil {
		return err
	}
	const setting = "kernel.yama.ptrace_scope"
	// An error means that there is no Yama.
	scope, err := procfs.ReadAtMost("/proc/sys/kernel/yama/ptrace_scope", 1)
	switch {
	case err != nil || scope[0] < '2' || scope[0] == '2' && tracesAll():
		return nil
	}
	return fmt.Errorf("reading its memory is forbidden by %s=%s", setting, scope)
}

// tracesAll reports whether this process has CAP_SYS_PTRACE.
func tracesAll() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}

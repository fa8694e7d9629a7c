package procfs

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// This system shows a table of processes, but neither their environment nor their files nor how
// they treat signals. Reading the table takes no descriptor.

// States in kern.proc.
const (
	stateStopped = 4 // SSTOP
	stateZombie  = 5 // SZOMB
)

func fromKinfo(k *unix.KinfoProc) Stat {
	name, _, _ := bytes.Cut(k.Proc.P_comm[:], []byte{0})
	s := Stat{Threads: 1, State: 'S', Terminal: uint64(uint32(k.Eproc.Tdev)), Process: Process{
		PID: int(k.Proc.P_pid), Program: string(name), Parent: int(k.Eproc.Ppid), Group: int(k.Eproc.Pgid),
		Start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
	}}
	switch k.Proc.P_stat {
	case stateZombie:
		s.State = 'Z'
	case stateStopped:
		s.State = 'T'
	}
	s.Session, _ = unix.Getsid(s.PID)
	return s
}

// Inspect returns the kernel's entry for a process.
func Inspect(pid int) (Stat, error) {
	ks, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	switch {
	case err != nil:
		return Stat{}, os.NewSyscallError("sysctl kern.proc.pid", err)
	case len(ks) == 0 || int(ks[0].Proc.P_pid) != pid:
		return Stat{}, ErrGone
	}
	return fromKinfo(&ks[0]), nil
}

// All returns every process.
func All() ([]Stat, error) {
	ks, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, os.NewSyscallError("sysctl kern.proc.all", err)
	}
	all := make([]Stat, len(ks))
	for i := range ks {
		all[i] = fromKinfo(&ks[i])
	}
	return all, nil
}

// A ChildList is a list that can't be kept open here.
type ChildList struct{}

// OpenChildList is not supported here.
func OpenChildList(int) (*ChildList, error) { return nil, errors.ErrUnsupported }

// Empty returns false: it is not known.
func (*ChildList) Empty() bool { return false }

// Close does nothing.
func (*ChildList) Close() {}

// LookupEnv is not supported here.
func LookupEnv(int, string) (value string, found bool, err error) {
	return "", false, errors.ErrUnsupported
}

// CountFiles returns 0: it is not known.
func CountFiles(int) int { return 0 }

// Files is not supported here.
func Files(int) ([]FileID, error) { return nil, errors.ErrUnsupported }

// DispositionOf is not supported here.
func DispositionOf(int, syscall.Signal) (Disposition, error) {
	return Disposition{}, errors.ErrUnsupported
}

// Doomed returns false: it is not known.
func (Stat) Doomed() bool { return false }

// PrivateMemory is not supported here.
func PrivateMemory(int) (int64, error) { return 0, errors.ErrUnsupported }

// CPUTime is not supported here.
func CPUTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// Signal sends sig to p, and to no later process with the same pid.
func (p Process) Signal(sig syscall.Signal) error {
	if err := p.verify(); err != nil {
		return err
	}
	err := syscall.Kill(p.PID, sig)
	if err == syscall.ESRCH {
		return ErrGone
	}
	return os.NewSyscallError("kill", err)
}

// Clocks save scans elsewhere. Here a scan costs next to nothing, because it only reads the
// terminal's mode.
type Clocks struct{}

// Moved reports true, because it is never known here that nothing ran.
func (*Clocks) Moved() bool { return true }

// Follow calls list.
func (*Clocks) Follow(list func() ([]int, error)) ([]int, error) { return list() }

// Used returns 0: this system shows no clocks.
func (*Clocks) Used() time.Duration { return 0 }

// Threads returns 0: unknown.
func (*Clocks) Threads() int { return 0 }

// Complete reports true.
func (*Clocks) Complete() bool { return true }

package procfs

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// DispositionOf returns how the process with this pid treats sig.
func DispositionOf(pid int, sig syscall.Signal) (Disposition, error) {
	b, err := readFile(pathOf(pid, "status"), make([]byte, 2048))
	if err != nil {
		return Disposition{}, err
	}
	has := func(set string) bool { return signalSet(b, set)>>(sig-1)&1 == 1 }
	return Disposition{
		Ignored: has("SigIgn"), Caught: has("SigCgt"), Blocked: has("SigBlk"), Pending: has("ShdPnd") || has("SigPnd"),
	}, nil
}

// survivable are the signals whose default effect does not end a process.
var survivable = func() (set uint64) {
	for _, sig := range []syscall.Signal{
		unix.SIGCHLD, unix.SIGCONT, unix.SIGURG, unix.SIGWINCH, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
	} {
		set |= 1 << (sig - 1)
	}
	return set
}()

// Doomed reports whether the process surely ends as soon as the kernel lets it run: a signal that
// ends it was sent, and has not been delivered. A stopped process can still be saved from every
// signal except SIGKILL.
func (s Stat) Doomed() bool {
	b, err := readFile(pathOf(s.PID, "status"), make([]byte, 2048))
	if err != nil || s.Ended() {
		return false
	}
	pending := signalSet(b, "SigPnd") | signalSet(b, "ShdPnd")
	if s.Stopped() {
		return pending>>(unix.SIGKILL-1)&1 == 1
	}
	return pending&^(survivable|signalSet(b, "SigIgn")|signalSet(b, "SigCgt")|signalSet(b, "SigBlk")) != 0
}

// OwnIgnored returns the signals that this process ignores.
func OwnIgnored() ([]syscall.Signal, error) {
	b, err := readFile(pathOf(os.Getpid(), "status"), make([]byte, 2048))
	if err != nil {
		return nil, err
	}
	var ignored []syscall.Signal
	for set, sig := signalSet(b, "SigIgn"), syscall.Signal(1); set != 0; set, sig = set>>1, sig+1 {
		if set&1 == 1 {
			ignored = append(ignored, sig)
		}
	}
	return ignored, nil
}

// signalSet reads one of the sets of signals that a status file shows. Its lowest bit is signal 1.
func signalSet(status []byte, name string) uint64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name+":\t"))
	hex, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, _ := strconv.ParseUint(string(hex), 16, 64)
	return mask
}

// Signal sends sig to p, and to no later process with the same pid.
func (p Process) Signal(sig syscall.Signal) error {
	return WithReserve(func() error {
		fd, openErr := unix.PidfdOpen(p.PID, 0)
		switch openErr {
		case nil:
			defer unix.Close(fd)
		case unix.ESRCH:
			return ErrGone
		case unix.EMFILE, unix.ENFILE:
			return os.NewSyscallError("pidfd_open", openErr)
		}
		s, err := inspect(p.PID, pathOf(p.PID, "stat"), false)
		switch {
		case err != nil:
			return err
		case s.Start != p.Start:
			return ErrGone
		case openErr != nil: // an old kernel has no pidfds
			err = syscall.Kill(p.PID, sig)
		default:
			err = unix.PidfdSendSignal(fd, sig, nil, 0)
		}
		if err == unix.ESRCH {
			return ErrGone
		}
		return os.NewSyscallError("sending "+unix.SignalName(sig), err)
	})
}

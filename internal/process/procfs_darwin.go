package process

import (
	"bytes"
	"syscall"

	"golang.org/x/sys/unix"
)

// Orphans do not come to us here, and a process shows neither its environment nor its files: a tree is what descends
// from its leader and what is in the leader's session.

const zombie = 5 // SZOMB

func fromKinfo(k *unix.KinfoProc) entry {
	name := k.Proc.P_comm[:]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	e := entry{threads: 1, state: 'S', Process: Process{
		PID: int(k.Proc.P_pid), Program: string(name), Parent: int(k.Eproc.Ppid), Group: int(k.Eproc.Pgid),
		Start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
	}}
	switch k.Proc.P_stat {
	case zombie:
		e.state = 'Z'
	case 4: // SSTOP
		e.state = 'T'
	}
	e.session, _ = unix.Getsid(e.PID)
	return e
}

func inspect(pid int) (entry, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return entry{}, false
	}
	return fromKinfo(k), true
}

func everybody() []entry {
	ks, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	es := make([]entry, len(ks))
	for i := range ks {
		es[i] = fromKinfo(&ks[i])
	}
	return es
}

// walk returns those of roots that are there still, all their descendants, and what is in the session.
func walk(session int, roots []Process) []entry {
	in := make(map[int]bool)
	start := make(map[int]uint64)
	for _, r := range roots {
		start[r.PID] = r.Start
	}
	var es []entry
	all := everybody()
	for grown := true; grown; {
		grown = false
		for _, e := range all {
			t, root := start[e.PID]
			if !in[e.PID] && (root && t == e.Start || in[e.Parent] || session > 1 && e.session == session) {
				in[e.PID], grown = true, true
				es = append(es, e)
			}
		}
	}
	return es
}

func ownChildren() []int { return nil }

func variable(int, string) (string, bool) { return "", false }

func openFiles(int) []fileID { return nil }

// withstands can't be told: nothing is said to.
func withstands(int, syscall.Signal) (any, ignores bool) { return false, false }

// SignalPID sends sig to p, and to no later process of the same number.
func SignalPID(p Process, sig syscall.Signal) error {
	if e, ok := inspect(p.PID); !ok || e.Start != p.Start {
		return ErrGone
	}
	if err := syscall.Kill(p.PID, sig); err != syscall.ESRCH {
		return err
	}
	return ErrGone
}

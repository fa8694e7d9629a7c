package process

import "syscall"

// Disposition tells what becomes of a signal that reaches p; ok is false where that can't be seen.
func (p Process) Disposition(sig syscall.Signal) (d Disposition, ok bool) {
	b, err := slurp(file(p.PID, "status"), nil)
	if err != nil {
		return d, false
	}
	d = Disposition{Ignored: inSet(b, "SigIgn", sig), Caught: inSet(b, "SigCgt", sig), Blocked: inSet(b, "SigBlk", sig)}
	e, ok := inspect(p.PID) // afterwards: the number was p's all the while
	return d, ok && e.Start == p.Start
}

// Rests tells whether p waits for something, is stopped or has ended. It is true where that can't be seen.
func (p Process) Rests() bool {
	e, ok := inspect(p.PID)
	return !ok || e.state != 'R'
}

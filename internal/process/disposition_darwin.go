package process

import "syscall"

// Disposition tells what becomes of a signal that reaches p; ok is false where that can't be seen.
func (Process) Disposition(syscall.Signal) (d Disposition, ok bool) { return d, false }

// Rests tells whether p waits for something, is stopped or has ended. It is true where that can't be seen.
func (Process) Rests() bool { return true }

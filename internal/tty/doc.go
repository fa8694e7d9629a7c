//go:build unix

// Package tty is one terminal seen from outside: a PTY pair, its size, modes and foreground group, what is typed
// into it, and the evidence that a program waits for it.
//
// Rules
//   - The master is non-blocking from Open on. Nobody may call Fd on it, nor hand it to a function that does: Fd puts
//     it back into blocking mode, where Close wakes no Read and deadlines are ignored. Every ioctl goes through
//     SyscallConn.
//   - That a program waits is said on what the kernel shows of it, never on what it printed or how long it was silent.
//     What can't be seen is not said.
//   - Nothing is said of a read that has been answered: see Send and Watch.
//
// A PTY belongs to whoever opened it; the bytes that come out of Master are read by one pump, which is not ours. The
// package starts no process, knows no job and signals nobody.
//
// Sizes are character cells, input is bytes, processes are the numbers of the kernel. What can be mended by who types is
// one of the errors beside Keyboard, each of which names its remedy. Begin with the example, then PTY (tty.go), Keyboard,
// and the evidence: evidence_linux.go says what counts, watch.go when it is looked for.
package tty

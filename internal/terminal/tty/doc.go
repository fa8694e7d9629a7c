//go:build unix

// Package tty is one terminal seen from outside: a PTY pair, its size, modes and foreground group,
// and the input typed into it.
//
// Rules
//   - The master is non-blocking from Open on. Never call Fd on it, nor pass it to a function that
//     does: Fd puts it back into blocking mode, in which Close wakes no Read and deadlines are
//     ignored. Every ioctl goes through SyscallConn.
//   - Input is typed by one Send at a time, complete and in order. A listener learns of each Send
//     before a program can see the input: see OnSend.
//   - A [Typist] types the keys of a call one at a time, and what is sent meanwhile behind them. What
//     is not typed in the end is never dropped without a word: see [Typist.Lost].
//
// A PTY belongs to its opener, which also runs the one pump that reads the master. The package
// starts no process, knows no job and signals nothing. Package waiting finds out whether a program
// waits for the terminal.
//
// Sizes are character cells, input is bytes. A caller can act on the errors beside [Keyboard]: they
// mean that nothing was typed.
//
// Begin with the example, then pty.go, keyboard.go and typist.go.
package tty

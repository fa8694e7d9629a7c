//go:build unix

// Package threads shows what a thread of another process waits for: the system call that it is
// blocked in, the files that this call waits for, and the other ends of those files.
//
// Rules
//   - The facts come from the kernel, one reading at a time. Between two readings the thread can
//     have moved on: a caller that needs them of one moment compares the thread's clock, as package
//     procfs says.
//   - [Hidden] distinguishes a fact that the kernel never shows from one that could not be read
//     just now.
//
// The package starts no process, remembers none, and knows neither terminals nor jobs. Only Linux
// shows these facts.
//
// Begin with calls_linux.go, which reads a system call and its arguments. members_linux.go finds
// the files that it waits for, sockets_linux.go the other ends of sockets. blocked_linux.go says in
// words what a process waits for.
package threads

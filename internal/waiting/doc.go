//go:build unix

// Package waiting finds out whether a program waits for input of its terminal.
//
// Rules
//   - Evidence is what the kernel shows of a process, never what the process printed or how long it
//     was silent. What can't be seen is not reported.
//   - What could not be read means nothing: the watcher keeps what it has reported and scans again.
//   - What was seen before input was sent is not reported after it: see Watcher.
//
// A [Watcher] belongs to the run of a job, which starts and stops it, and gives it the job's
// processes and the time of the newest output. It scans when there was output, input, or CPU time,
// and calls OnChange. The package starts no process, signals nothing, and knows neither jobs nor
// protocols.
//
// Processes are pids; how long something takes is wall time. On a system that does not show system
// calls, evidence is inferred from the terminal's mode and says so.
//
// Begin with the example, then evidence.go, which says what counts. probe_linux.go finds it,
// calls_linux.go reads system calls, peers_linux.go decides what else may wake a program;
// watcher.go says when all this happens. A new case of waiting is a fact in moment, a rule in
// rules, and a row in TestRules.
package waiting

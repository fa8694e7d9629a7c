//go:build unix

// Package waiting finds out whether a program waits for input: of its terminal, or of the pipe that
// is its standard input.
//
// Rules
//   - Evidence comes from the kernel, never from a program's output or from how long it was silent.
//     A wait that the kernel does not show is not reported. Only if the kernel refuses to show a
//     program, its wait for a secret is inferred from the terminal's mode, and says so.
//   - A failed reading is no evidence: the watcher keeps its last report and scans again.
//   - A process outside the job that has its terminal open counts as one of the job. It is found
//     if one of the job's processes waits for it, by a Unix socket: see outside_linux.go.
//   - Evidence from before input was sent is not reported after it: see Watcher.
//
// A [Watcher] belongs to the run of a job, which starts and stops it, and gives it the job's
// processes and the time of the newest output. It scans when there was output, input, or CPU time,
// and calls OnChange. The package starts no process, signals nothing, and knows neither jobs nor
// protocols.
//
// Processes are pids; how long something takes is wall time. On a system that does not show system
// calls, evidence is inferred from the terminal's mode and says so.
//
// Begin with the example, then evidence.go, which has the rules. probe_linux.go scans processes, by
// the facts that package threads reads, and ends_linux.go decides whether something else can wake a
// program. history.go has the rules that need several scans; watcher.go schedules them. A new case
// of waiting is a fact in moment, a rule in rules, and a row in TestRules.
package waiting

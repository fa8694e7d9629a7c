// Package worker starts and drives one Python process that holds a session's namespace. The Python
// files beside it are the program that the process runs.
//
// Go and a worker talk over one socketpair: JSON lines, and the pipes of each job as descriptors
// that travel along. Each event begins with the worker's random token, so nothing that a program
// writes to a descriptor can pass for one. The Python side has a single thread, which runs user
// code; while a job runs it reads only an answer that it asked for. What must be known of a busy
// worker is known here, and an interrupt is a signal.
//
// Who owns what: a [Worker] owns its process, terminal, channel, pipes and pumps, and [Worker.End]
// ends them all. A caller has the worker for one turn at a time: it runs a job ([Worker.Prepare],
// [Worker.Begin], [Worker.Exec], then [Worker.Events] until the job is done, [Worker.Rest]) or asks
// a question ([Worker.Variables]). The death of a worker is its wait status, never an end of file.
//
// Start-up errors name the settings that [Config] names.
//
// Begin with worker.go (the process and its output) and job.go (a job's turn). launch.go starts a
// worker, fork.go forks an idle one, ask.go asks an idle one questions, look.go reads the stack of
// a busy one. channel.go and messages.go define what Go and a worker send to each other; main.py is
// the other side.
//
// The package knows nothing of sessions and queues, and of processes only what internal/process and
// internal/kernel/procfs offer.
package worker

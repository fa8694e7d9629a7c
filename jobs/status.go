package jobs

import "slices"

// A Status is a stage in the life of a job.
type Status string

// The statuses of a job, in the order in which most jobs go through them.
const (
	Queued       Status = "queued"        // waiting for its turn
	Running      Status = "running"       // its runner works
	WaitingInput Status = "waiting_input" // the runner works, and a program waits for input
	Completed    Status = "completed"     // ran to its end, or exited 0
	Failed       Status = "failed"        // ended in any other way without a request
	Cancelled    Status = "cancelled"     // ended because of a request
)

// Statuses are all statuses of a job, in the same order.
var Statuses = []Status{Queued, Running, WaitingInput, Completed, Failed, Cancelled}

// moves is the full life of a job. A status without a successor is final.
var moves = map[Status][]Status{
	Queued:       {Running, Failed, Cancelled},
	Running:      {WaitingInput, Completed, Failed, Cancelled},
	WaitingInput: {Running, Completed, Failed, Cancelled},
}

// Final reports whether a job in s has ended.
func (s Status) Final() bool { return len(moves[s]) == 0 }

// mayBecome reports whether a job in s can move to t.
func (s Status) mayBecome(t Status) bool { return slices.Contains(moves[s], t) }

// A Kind is a kind of work.
type Kind string

// The kinds of job.
const (
	Python  Kind = "python"
	Shell   Kind = "shell"
	Package Kind = "package"
)

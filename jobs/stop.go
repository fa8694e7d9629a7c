package jobs

import (
	"time"

	"asyncrepl/internal/ladder"
)

// A Rung is one step of the ladder by which a job is ended.
type Rung = ladder.Rung

// The rungs, from the lowest.
const (
	Interrupt = ladder.Interrupt
	Terminate = ladder.Terminate
	Kill      = ladder.Kill
)

// A By says who or what ended a job.
type By string

// What can end a job.
const (
	Program  By = "program"
	Agent    By = "agent"
	Person   By = "person"
	Limit    By = "limit"
	Shutdown By = "shutdown"
	Unknown  By = "outside or unknown"
)

// Blame returns what ended a job that died although no stop was asked for: its program, if the
// death was its own doing, or else Unknown.
func Blame(own bool) By {
	if own {
		return Program
	}
	return Unknown
}

// defaultStep is the time between two rungs if a [Stop] names none.
const defaultStep = 5 * time.Second

// A Stop is a request that a job end. The job's context is cancelled with a pointer to it as the
// cause; what that points to never changes.
type Stop struct {
	By     By
	From   Rung          // the rung to start at; empty: Interrupt
	Step   time.Duration // the time between two rungs; 0: defaultStep
	Reason string        // what asked, unless it is a plain cancel: "restart_python_worker"
}

// Error makes a Stop the cause of a context.
func (s *Stop) Error() string {
	if s.Reason != "" {
		return "stop asked by " + string(s.By) + ": " + s.Reason
	}
	return "stop asked by " + string(s.By)
}

// withDefaults fills in the fields that a stop leaves empty.
func (s Stop) withDefaults() Stop {
	if s.From == "" {
		s.From = Interrupt
	}
	if s.Step == 0 {
		s.Step = defaultStep
	}
	return s
}

// raised returns s raised to what a later stop asks for: a higher rung, and steps that are never
// longer. The receipt names the first stop.
func (s Stop) raised(later Stop) Stop {
	s.From, s.Step = later.From, min(s.Step, later.Step)
	return s
}

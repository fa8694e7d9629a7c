package jobs

import "time"

// A Rung is one step of the ladder by which a job is ended.
type Rung string

// The rungs, from the mildest up.
const (
	Interrupt Rung = "interrupt"
	Terminate Rung = "terminate"
	Kill      Rung = "kill"
)

// height orders rungs; no rung is below all of them.
func (r Rung) height() int {
	switch r {
	case Interrupt:
		return 1
	case Terminate:
		return 2
	case Kill:
		return 3
	}
	return 0
}

// A By says who brought about the end of a job.
type By string

// Those who can end a job.
const (
	Program  By = "program"
	Agent    By = "agent"
	Person   By = "person"
	Limit    By = "limit"
	Shutdown By = "shutdown"
	Unknown  By = "outside or unknown"
)

// Blame returns who ended a job that died without being asked to: its program,
// if the death was its own doing, else somebody nobody knows.
func Blame(own bool) By {
	if own {
		return Program
	}
	return Unknown
}

// DefaultStep is the time between two rungs where a [Stop] names none.
const DefaultStep = 5 * time.Second

// A Stop is a wish that a job end. A pointer to it is the cause with which the
// job's context is cancelled; what it points to never changes.
type Stop struct {
	By     By
	From   Rung          // the rung to start at; none is Interrupt
	Step   time.Duration // the time between two rungs; 0 is DefaultStep
	Reason string        // what asked, where it is not a plain cancel: "restart_python_worker"
}

// Error makes a Stop the cause of a context.
func (s *Stop) Error() string {
	if s.Reason != "" {
		return "stop asked by " + string(s.By) + ": " + s.Reason
	}
	return "stop asked by " + string(s.By)
}

// withDefaults fills in what a stop leaves open.
func (s Stop) withDefaults() Stop {
	if s.From == "" {
		s.From = Interrupt
	}
	if s.Step == 0 {
		s.Step = DefaultStep
	}
	return s
}

// raised returns s raised to what a later stop asks for. Who asked first is
// what the receipt tells; a later stop only makes the climb higher and faster.
func (s Stop) raised(later Stop) Stop {
	s.From, s.Step = later.From, min(s.Step, later.Step)
	return s
}

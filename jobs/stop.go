package jobs

import (
	"time"

	"asyncrepl/internal/process/ladder"
)

// A Rung is one step of the ladder by which a job is ended.
type Rung = ladder.Rung

// The rungs, from the lowest.
const (
	Interrupt = ladder.Interrupt
	Terminate = ladder.Terminate
	Kill      = ladder.Kill
)

// A By is the cause of a job's end.
type By string

// The causes of an end.
const (
	Program  By = "program"  // the job's own code
	Agent    By = "agent"    // a request of the client
	Person   By = "person"   // a request of a person who watches the agent
	Limit    By = "limit"    // the job's timeout
	Shutdown By = "shutdown" // the end of the server
	// ClientGone is the end of a server whose client was lost and did not come back.
	ClientGone By = "client gone"
	Unknown    By = "outside or unknown"
)

// EndsServer reports whether everything else ends with the job.
func (b By) EndsServer() bool { return b == Shutdown || b == ClientGone }

// Blame returns the cause if a job's process ended without a stop: Program if the process caused its
// own end, and Unknown otherwise.
func Blame(own bool) By {
	if own {
		return Program
	}
	return Unknown
}

// defaultStep is the time between two rungs if a [Stop] names none.
const defaultStep = 5 * time.Second

// A Stop is a request that a job end. The job's context is cancelled with a pointer to a Stop as
// the cause; that Stop never changes.
type Stop struct {
	By     By            `json:"by"`
	From   Rung          `json:"from"`             // the rung to start at; empty: Interrupt
	Step   time.Duration `json:"step_ns"`          // the time between two rungs; 0: defaultStep
	Reason string        `json:"reason,omitempty"` // the request, unless it is a plain cancel: "restart_python_worker"

	// Spare keeps the variables of a Python session that has any: its runner tries no rung above From
	// until a later stop is without Spare. Without it a cancel of code that can't be interrupted would
	// cost hours of work that its caller wanted to keep. Other runners ignore it.
	Spare bool `json:"spare,omitempty"`

	again int // see Again
}

// Again returns how often the client has repeated the stop. A runner that stays at a rung tries
// that rung again.
func (s *Stop) Again() int { return s.again }

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

// raises reports whether a later stop asks for more than s.
func (s Stop) raises(later Stop) bool {
	return later.From.Above(s.From) || s.Spare && !later.Spare
}

// raised returns s with the higher rung of a later stop and the shorter of their steps. The other
// fields stay as in the first stop, which the receipt names, unless only the later one costs the
// variables.
func (s Stop) raised(later Stop) Stop {
	if s.Spare && !later.Spare {
		s.By, s.Reason, s.Spare = later.By, later.Reason, false
	}
	if later.From.Above(s.From) {
		s.From = later.From
	}
	s.Step = min(s.Step, later.Step)
	return s
}

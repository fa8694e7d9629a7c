package jobs

import (
	"context"
	"errors"
	"time"
)

// Errors of a job and of the registry that a client can act on.
var (
	ErrEnded      = errors.New("job has ended")
	ErrNotReading = errors.New("job is not reading input")
	ErrShutdown   = errors.New("server is shutting down")
)

// A Spec says what a job is. Timeout counts the time in [Running] only.
type Spec struct {
	Kind    Kind
	Tenant  string        // who may see it
	Session string        // empty: none
	Title   string        // one line for lists
	Timeout time.Duration // 0: none
}

// A Question is what a job waits for.
type Question struct {
	Kind   string // line, secret or key
	Prompt string
	By     string // who asks: "input() in session default", "read by bash (pid 812)"
}

// Input is what a client sends to a job.
type Input struct {
	Text   string
	Line   bool // an answer: one line, its final newline added if missing
	EOF    bool // end of file after Text
	Secret bool // Text must be kept, logged and echoed nowhere
}

// A Delivery says what became of input.
type Delivery struct {
	Waiting bool   // a program was waiting for it
	Note    string // what else the sender should know
}

// An InputFunc takes input for a job.
type InputFunc func(ctx context.Context, in Input) (Delivery, error)

// An Outcome is what a runner hands back.
type Outcome struct {
	Receipt   Receipt
	Result    string // repr of the last expression
	HasResult bool
}

// An Info is a snapshot of a job.
type Info struct {
	ID string
	Spec
	Status     Status
	Question   *Question // set while WaitingInput
	Cancelling Rung      // set while a stop is under way
	Receipt    Receipt   // set once Status is final
	Result     string
	HasResult  bool
	PID        int // the process in front, if the runner showed one

	Created, Started, Ended time.Time
	LastOutput              time.Time
	Output                  LogStat
}

// A Job is one execution, as its clients see it.
type Job struct {
}

// ID returns the job's ULID.
func (j *Job) ID() string { panic("skeleton") }

// Info returns a snapshot of the job.
func (j *Job) Info() Info { panic("skeleton") }

// Done is closed when the job has ended.
func (j *Job) Done() <-chan struct{} { panic("skeleton") }

// Read returns a snapshot and the output from cursor on.
func (j *Job) Read(cursor int64, limit int) (Info, Chunk) { panic("skeleton") }

// Log returns the job's output.
func (j *Job) Log() *Log { panic("skeleton") }

// Await blocks until the job has ended or asks, or ctx is done.
func (j *Job) Await(ctx context.Context) error { panic("skeleton") }

// Changed returns a channel that is closed at the next change of the job.
func (j *Job) Changed() <-chan struct{} { panic("skeleton") }

// Send gives input to the job.
func (j *Job) Send(ctx context.Context, in Input) (Delivery, error) { panic("skeleton") }

// Stop asks the job to end, and does not wait.
func (j *Job) Stop(st Stop) { panic("skeleton") }

// EndRemains ends what the ended job left running.
func (j *Job) EndRemains(ctx context.Context, st Stop) (ended, survivors []Process, any bool) {
	panic("skeleton")
}

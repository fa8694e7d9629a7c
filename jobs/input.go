package jobs

import "context"

// A Question is the input that a job waits for.
type Question struct {
	Kind   string // line, secret or key
	Prompt string
	By     string // the program that asks: "input() in session default", "read by bash (pid 812)"
}

// Input is a message of a client to a program of a job.
type Input struct {
	Text   string
	Line   bool // an answer: one line; a final newline is added if missing
	EOF    bool // end of file after Text
	Secret bool // Text must not be kept, logged or echoed
}

// A Delivery is the result of sending input.
type Delivery struct {
	Waiting bool   // a program was waiting for it
	Untaken bool   // a program is waiting for it, and has not taken it yet
	Unseen  bool   // whether one was is unknown, because the input went into a pipe
	Note    string // more that the sender should know
}

// An InputFunc takes input for a job, in the goroutine of its sender. The job can end meanwhile;
// the function then returns [ErrEnded].
//
// If the input answers the open question, the function calls [Port.SetRunning] before it returns:
// an Await after the Send would otherwise return with the answered question. It does so before it
// hands the input over if the next question can come at once.
type InputFunc func(ctx context.Context, in Input) (Delivery, error)

// Send gives input to the job; deliveries are made one at a time. It returns [ErrEnded] if the job
// has ended, [ErrNotReading] if it takes no input, the cause of ctx if ctx is done before other
// deliveries are, and otherwise the result of the runner's InputFunc.
func (j *Job) Send(ctx context.Context, in Input) (Delivery, error) {
	select {
	case j.delivering <- struct{}{}:
		defer func() { <-j.delivering }()
	case <-j.done:
		return Delivery{}, ErrEnded
	case <-ctx.Done():
		return Delivery{}, context.Cause(ctx)
	}
	j.mu.Lock()
	takeInput, ended := j.takeInput, j.info.Status.Final()
	j.mu.Unlock()
	switch {
	case ended:
		return Delivery{}, ErrEnded
	case takeInput == nil:
		return Delivery{}, ErrNotReading
	}
	return takeInput(ctx, in)
}

package jobs

import "context"

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
	Unseen  bool   // it went into a pipe: whether a program waits there is not looked at
	Note    string // what else the sender should know
}

// An InputFunc takes input for a job, in the goroutine of its sender. The job
// may end meanwhile; it returns [ErrEnded] then. Where the input answers the open
// question it calls [Port.SetRunning]: before it returns, or an Await after the Send
// would return with the question just answered; and before it hands the input
// over, where the next question may come at once.
type InputFunc func(ctx context.Context, in Input) (Delivery, error)

// Send gives input to the job, one at a time. It returns [ErrEnded] if the job
// has ended, [ErrNotReading] if it takes no input, ctx's cause if another
// delivery takes too long, and else what the runner says.
func (j *Job) Send(ctx context.Context, in Input) (Delivery, error) {
	select {
	case j.input <- struct{}{}:
		defer func() { <-j.input }()
	case <-j.done:
		return Delivery{}, ErrEnded
	case <-ctx.Done():
		return Delivery{}, context.Cause(ctx)
	}
	j.mu.Lock()
	accept, ended := j.accept, j.info.Status.Final()
	j.mu.Unlock()
	switch {
	case ended:
		return Delivery{}, ErrEnded
	case accept == nil:
		return Delivery{}, ErrNotReading
	}
	d, err := accept(ctx, in)
	if err == nil {
		// Whoever saw a program wait before this saw it wait for what it has now.
		j.mu.Lock()
		j.generation++
		j.mu.Unlock()
	}
	return d, err
}

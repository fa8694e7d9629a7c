package jobs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"asyncrepl/internal/terminal/keys"
)

// A Reader is a program that takes input and waits for something else as well.
type Reader struct {
	Kind  string    `json:"kind"` // a Question's Kind
	By    string    `json:"by"`   // names the program, and the other things that it waits for
	Since time.Time `json:"since"`
}

// A Question is the input that a job waits for.
type Question struct {
	Kind   string `json:"kind"` // line, secret or key
	Prompt string `json:"prompt"`
	By     string `json:"by"` // the program that asks: "input() in session default", "read by bash (pid 812)"
}

// Input is a message to a program of a job. It takes effect in this order: size, signal, text, keys,
// end of file.
type Input struct {
	// By is the sender, Agent or Person. Without it the receipt of a job that a signal ends would
	// blame the agent for the person's ^C. Empty: Agent.
	By     By
	Size   Size   // the new size of the terminal; zero: it stays as it is
	Signal string // the programs in the foreground get this signal, such as SIGUSR1; empty: none
	Text   string
	Line   bool          // Text is an answer: one line; a final newline is added if missing
	Paste  bool          // Text is pasted: in brackets if the program asked for them
	Keys   keys.Sequence // the keys are pressed after Text
	EOF    bool          // end of file
	Secret bool          // Text and Keys must not be kept, logged or echoed
}

// A Size is the size of a terminal, in character cells.
type Size struct {
	Rows int `json:"rows"`
	Cols int `json:"columns"`
}

// Types reports whether in sends something to be read, besides a size and a signal.
func (in Input) Types() bool {
	return in.Text != "" || in.Line || len(in.Keys) > 0 || in.EOF
}

// A Delivery is the result of sending input.
type Delivery struct {
	Waiting bool   // a program was waiting for it
	Unsure  bool   // Waiting is unknown, because other input was sent shortly before
	Untaken bool   // a program is waiting for it, and has not taken it yet
	Unseen  bool   // Waiting is unknown, because the input went into a pipe
	Outside bool   // it is unknown whether a program outside the job was waiting
	Note    string // one more fact for the sender

	Typing Typing // types it one key at a time; nil: it is all sent
	Behind bool   // Typing was queued behind an earlier one

	Signalled string // the programs that got the signal: "sleep (pid 812)"
	Made      string // the last signal that the terminal made of the input: SIGINT; empty: none
	Rest      bool   // some of the input follows Made and is to be read

	// Closed is the number of the newest question that is not open any more, in the order of Record.Asked.
	// [Job.Send] sets it. One input can answer a question that its sender has not seen.
	Closed int
}

// A Typing is input that is typed one key at a time, after the call that sent it if need be.
type Typing interface {
	// Done is closed when all is typed, or no more will be.
	Done() <-chan struct{}

	// Behind reports whether nothing is typed yet, because earlier input is not.
	Behind() bool

	// Progress returns how many of the keys are typed, and why the others will not be.
	Progress() (typed, keys int, err error)
}

// An Answer is a line that was sent to a program that asked for one.
type Answer struct {
	At   int64 // the cursor at the end of the output when it was sent, after the question
	Text string
}

// answersMax bounds the memory that the answers of a job take, in bytes: a program that asks in a
// loop would otherwise fill it. answerSize counts for each answer besides its text.
const (
	answersMax = 1 << 20
	answerSize = 64
)

// Answers returns the answers to questions that were no secrets, in order: the first 1 MiB of them.
func (j *Job) Answers() []Answer {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.answers)
}

// setAnswered sets when a person last typed something, and returns what it was before.
func (j *Job) setAnswered(at time.Time) (before time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before, j.record.Answered = j.record.Answered, at
	return before
}

// keepAnswer keeps an answer, if there is room for it.
func (j *Job) keepAnswer(a Answer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.answered += len(a.Text) + answerSize; j.answered <= answersMax {
		j.answers = append(j.answers, a)
	}
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
// deliveries are, and otherwise the result of the runner's InputFunc. If that is a Typing, Send waits
// for it, until ctx is done.
func (j *Job) Send(ctx context.Context, in Input) (Delivery, error) {
	in.By = cmp.Or(in.By, Agent)
	d, err := j.deliver(ctx, in)
	if d.Typing != nil { // other input, such as a signal, need not wait for it
		select {
		case <-d.Typing.Done():
		case <-ctx.Done():
		}
	}
	d.Closed = j.closed()
	return d, err
}

// closed returns the number of the newest question that is not open any more.
func (j *Job) closed() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.record.Status == WaitingInput {
		return j.record.Asked - 1
	}
	return j.record.Asked
}

// deliver is Send without the wait for a Typing.
func (j *Job) deliver(ctx context.Context, in Input) (d Delivery, err error) {
	select {
	case j.delivering <- struct{}{}:
	default:
		select {
		case j.delivering <- struct{}{}:
		case <-j.done:
			return Delivery{}, ErrEnded
		case <-ctx.Done():
			return Delivery{}, context.Cause(ctx)
		}
	}
	defer func() { <-j.delivering }()
	j.mu.Lock()
	takeInput, ended, question := j.takeInput, j.record.Status.Final(), j.record.Question
	j.mu.Unlock()
	switch {
	case ended:
		return Delivery{}, ErrEnded
	case takeInput == nil:
		return Delivery{}, ErrNotReading
	}
	if in.Types() {
		j.errors.Restart()
	}
	asked := Answer{At: j.log.Stat().End, Text: in.Text}
	if in.By == Person && in.Types() { // before the input: a reply to what it causes says so already
		before := j.setAnswered(time.Now())
		defer func() {
			if err != nil {
				j.setAnswered(before)
			}
		}()
	}
	d, err = takeInput(ctx, in)
	if in.Size != (Size{}) { // it has taken effect even if what follows it failed
		j.saveSize()
	}
	if err == nil && question != nil && question.Kind == "line" && in.Text != "" && !in.Secret && in.By != Person {
		j.keepAnswer(asked)
	}
	return d, err
}

package pyrepl

import (
	"context"
	"errors"
	"slices"
	"strings"

	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/waiting"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// A job can wait for input in two ways: its code asks over the channel, or a program reads the
// worker's terminal. A question over the channel comes first.

// errOneLine refuses an answer that holds more than one line.
var errOneLine = errors.New("an answer is one line: send the lines one by one, each when the job asks for it")

// ask takes a question from the worker. First it reads what the code printed before the question,
// which is buffered in the pipes. Threads can ask while another question is open; their questions
// wait.
func (r *run) ask(ev worker.QuestionEvent) {
	r.w.Drain()
	if r.mute {
		r.refuse()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.eofNext {
		r.eofNext = false
		r.w.Answer(ev.N, "", true)
		return
	}
	r.questions = append(r.questions, ev)
	if len(r.questions) == 1 {
		r.showQuestion()
	}
}

// showQuestion has the job wait for the oldest open question, if there is one. The caller holds mu.
func (r *run) showQuestion() {
	if len(r.questions) == 0 {
		return
	}
	ev := r.questions[0]
	prompt := ev.Prompt
	if prompt == "" {
		prompt = runner.Prompt(r.p)
	}
	r.p.SetWaiting(jobs.Question{Kind: ev.Kind, Prompt: prompt, By: ev.By + r.place()})
}

// place is added to the name of whatever asks.
func (r *run) place() string { return " in session " + r.s.name }

// resume removes question n, which was withdrawn.
func (r *run) resume(n int) {
	r.settle(n, jobs.ErrNotReading)
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.questions, func(ev worker.QuestionEvent) bool { return ev.N == n })
	if i < 0 {
		return
	}
	r.questions = slices.Delete(r.questions, i, i+1)
	if i == 0 {
		r.p.SetRunning()
		r.showQuestion()
	}
}

// onTerminal reports what the watcher has seen, unless a question over the channel is open.
func (r *run) onTerminal(ev waiting.Evidence, waits bool) {
	if waits {
		r.w.Drain() // the prompt can be in the pipes
	}
	if waits && r.mute {
		r.refuse()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.questions) > 0 {
		return
	}
	r.reading = ev.Reads()
	runner.SetInput(r.p, ev, waits, r.place())
}

// input answers the oldest open question over the channel, or else types the text for a program
// that reads the terminal. It refuses input that nothing waits for.
func (r *run) input(ctx context.Context, in jobs.Input) (jobs.Delivery, error) {
	text, err := answerText(in)
	if err != nil {
		return jobs.Delivery{}, err
	}
	r.mu.Lock()
	if len(r.questions) > 0 {
		sent, err := r.answer(text, in.EOF)
		r.mu.Unlock()
		if err != nil {
			return jobs.Delivery{}, err
		}
		return r.awaitTaken(ctx, sent)
	}
	reading := r.reading
	r.mu.Unlock() // the watcher retracts its report when something is typed
	if !reading {
		return jobs.Delivery{}, jobs.ErrNotReading
	}
	return jobs.Delivery{Waiting: true}, r.w.Type(ctx, text, in.EOF, in.Secret)
}

// answerText returns the text of in, as a line if it is meant as one.
func answerText(in jobs.Input) (string, error) {
	if !in.Line || in.EOF && in.Text == "" {
		return in.Text, nil
	}
	line := strings.TrimSuffix(in.Text, "\n")
	if strings.Contains(line, "\n") {
		return "", errOneLine
	}
	return line + "\n", nil
}

// A sentAnswer is an answer that the worker may not have taken yet.
type sentAnswer struct {
	n      int        // the number of the question
	result chan error // receives nil when the worker takes the answer, or why it never will
}

// answer sends text to the oldest open question, and the end of file if eof is set: to the next
// question if there is text as well. The caller holds mu.
func (r *run) answer(text string, eof bool) (sentAnswer, error) {
	n := r.questions[0].N
	if text != "" {
		r.eofNext = eof
	}
	r.sent = sentAnswer{n, make(chan error, 1)} // buffered: the caller may have stopped waiting
	if err := r.w.Answer(n, text, eof && text == ""); err != nil {
		return sentAnswer{}, err
	}
	r.questions = r.questions[1:]
	r.p.SetRunning()
	r.showQuestion()
	return r.sent, nil
}

// settle reports to its sender what became of the answer to question n, if it was the last answer.
func (r *run) settle(n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent.n == n && r.sent.result != nil {
		r.sent.result <- err
		r.sent.result = nil
	}
}

// awaitTaken waits until the worker has taken an answer, or the job has ended. It can take long: a
// thread that asks gets no turn while other code computes.
func (r *run) awaitTaken(ctx context.Context, sent sentAnswer) (jobs.Delivery, error) {
	err := jobs.ErrEnded
	select {
	case err = <-sent.result:
	case <-r.over:
		select { // the worker may have taken it before the end
		case err = <-sent.result:
		default:
		}
	case <-ctx.Done():
		return jobs.Delivery{Untaken: true}, nil
	}
	return jobs.Delivery{Waiting: err == nil}, err
}

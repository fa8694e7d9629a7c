package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"asyncrepl/internal/runner"
	"asyncrepl/internal/waiting"
	"asyncrepl/jobs"
)

// errOneLine is the refusal of an answer that holds more than one.
var errOneLine = errors.New("an answer is one line: send the lines one by one, each when the job asks for it")

// ask takes a question of the worker's. All that was printed before it is in
// the pipes already, and is read first. Threads may ask while another question
// is open: they are asked in turn.
func (r *run) ask(ev questionEvent) {
	r.w.drain()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.eofNext {
		r.eofNext = false
		r.w.ch.send(inputCommand{N: ev.N, EOF: true})
		return
	}
	r.questions = append(r.questions, ev)
	if len(r.questions) == 1 {
		r.show()
	}
}

// show tells the job's first question, if there is one. The caller holds mu.
func (r *run) show() {
	if len(r.questions) == 0 {
		return
	}
	ev := r.questions[0]
	prompt := ev.Prompt
	if prompt == "" {
		prompt = runner.Prompt(r.p)
	}
	r.p.SetWaiting(jobs.Question{Kind: ev.Kind, Prompt: prompt, By: fmt.Sprintf("%s in session %s", ev.By, r.s.name)})
}

// resume takes the news that a question was given up.
func (r *run) resume(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.questions, func(ev questionEvent) bool { return ev.N == n })
	if i < 0 {
		return
	}
	r.questions = slices.Delete(r.questions, i, i+1)
	if i == 0 {
		r.p.SetRunning()
		r.show()
	}
}

// onTerminal takes the kernel's evidence of a program that reads the terminal.
func (r *run) onTerminal(ev waiting.Evidence, waits bool) {
	if waits {
		r.flush()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.questions) > 0 {
		return
	}
	r.atTTY = ev != waiting.Evidence{} // it may wait for other things as well
	runner.SetTerminal(r.p, ev, waits, " in session "+r.s.name)
}

// flushTime is how long a worker may take to flush what it holds. If it takes
// longer, the output that comes then makes the watch look again.
const flushTime = 100 * time.Millisecond

// flush has the worker write what was printed without a newline, where a prompt
// may stand, and reads it.
func (r *run) flush() {
	r.w.drain()
	if runner.Prompt(r.p) != "" {
		return
	}
	r.w.handle.Signal(syscall.SIGIO) // an error: it is dead, and the run hears of that
	for end := time.Now().Add(flushTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.w.drain()
		if runner.Prompt(r.p) != "" {
			return
		}
	}
}

// input answers the first question that is open: over the channel, or at the terminal
// where a program reads that. Where nothing waits it is refused and kept
// nowhere.
func (r *run) input(ctx context.Context, in jobs.Input) (jobs.Delivery, error) {
	text := in.Text
	if in.Line && !(in.EOF && text == "") {
		text = strings.TrimSuffix(text, "\n")
		if strings.Contains(text, "\n") {
			return jobs.Delivery{}, errOneLine
		}
		text += "\n"
	}
	r.mu.Lock()
	if len(r.questions) > 0 {
		defer r.mu.Unlock()
		if err := r.answer(text, in.EOF); err != nil {
			return jobs.Delivery{}, err
		}
		r.questions = r.questions[1:]
		r.p.SetRunning()
		r.show()
		return jobs.Delivery{Waiting: true}, nil
	}
	reading := r.atTTY
	r.mu.Unlock() // the watch takes its news back when something is typed
	if !reading {
		return jobs.Delivery{}, jobs.ErrNotReading
	}
	if err := r.w.keys.Type(ctx, text, in.EOF, in.Secret); err != nil {
		return jobs.Delivery{}, err
	}
	return jobs.Delivery{Waiting: true}, nil
}

// answer sends text, then the end of file if it is asked for: where both are,
// the next question gets the end of file. The caller holds mu.
func (r *run) answer(text string, eof bool) error {
	cmd := inputCommand{N: r.questions[0].N, Line: text}
	if text == "" {
		cmd.EOF = eof
	} else {
		r.eofNext = eof
	}
	return r.w.ch.send(cmd)
}

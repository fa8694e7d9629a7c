package report

import (
	"fmt"
	"strings"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// An inputContext says what the lines about a job's input depend on besides the job's record. Its
// zero value has no answered question, no prompt and no hold.
type inputContext struct {
	answered *jobs.Question // the question that the call answered; nil if it answered no question
	prompt   bool           // the output that the reply shows ends with the new prompt
	line     string         // the cursor's line, if a program of the running job takes input
	hold     *jobs.Hold     // why a stop has not ended the job; nil while it escalates
}

// newInputContext returns the context for the reply that shows w. Only the reply to an answer
// leaves out what the caller knows from the answered question. Other replies repeat everything,
// because the same call gives the same answer.
func newInputContext(j *jobs.Job, record jobs.Record, live jobs.Live, w Window) inputContext {
	q := record.Question
	if w.Answered == nil || q == nil {
		return inputContext{line: cursorLine(j, record), hold: hold(live)}
	}
	return inputContext{hold: hold(live), answered: w.Answered, prompt: q.Prompt != "" && endsWith(j.Log(), w.From, q.Prompt)}
}

// hold returns why the stop of a job has not ended it, or nil.
func hold(live jobs.Live) *jobs.Hold {
	if live.Hold == nil {
		return nil
	}
	h, ok := live.Hold()
	if !ok {
		return nil
	}
	return &h
}

// cursorLine returns the line that the cursor is in, if a program of the running job takes input.
// It is probably a prompt.
func cursorLine(j *jobs.Job, record jobs.Record) string {
	if record.Accepts == (jobs.Reader{}) {
		return ""
	}
	return view.Prompt(output.Tail(j.Log(), view.PromptBytes))
}

// promptBytes is how many bytes at the end of the output are searched for a prompt.
const promptBytes = 4 << 10

// endsWith reports whether the standard output from a cursor on ends with a line.
func endsWith(log output.Reader, from int64, line string) bool {
	end := log.Stat().End
	var b []byte
	for _, s := range read(log, max(from, end-promptBytes), end).Spans {
		if s.Section == stdout {
			b = append(b, s.Data...)
		}
	}
	before, found := strings.CutSuffix(view.Text(b), line)
	return found && (before == "" || strings.HasSuffix(before, "\n"))
}

// writeQuestion writes the lines about the question of a job that waits for input.
func writeQuestion(r *Reply, record jobs.Record, in inputContext) {
	q := record.Question
	if q == nil || record.Status != jobs.WaitingInput {
		return
	}
	if q.Prompt != "" && !in.prompt {
		r.Line("Prompt", q.Prompt)
	}
	if in.answered == nil || in.answered.Kind != q.Kind || in.answered.By != q.By {
		r.Line("Waiting", strings.TrimSuffix(q.Kind+", "+q.By, ", "))
	}
}

// writeReader writes the lines about a program of a running job that takes input and waits for
// something else as well.
func writeReader(r *Reply, record jobs.Record, in inputContext) {
	a := record.Accepts
	if a == (jobs.Reader{}) {
		return
	}
	if in.line != "" {
		r.Line("Prompt", in.line)
	}
	r.Line("Accepts input", strings.TrimSuffix(a.Kind+", "+a.By, ", "))
}

// buffered ends the text about input that no program was waiting for. Delivered cuts it off if the
// job has ended, because then no program will read the input.
const buffered = "; it is buffered until one reads"

// Delivered says what became of input that was sent to a job, which may have ended since.
func Delivered(d jobs.Delivery, in jobs.Input, ended bool) string {
	var parts []string
	if in.Size != (jobs.Size{}) {
		parts = append(parts, fmt.Sprintf("terminal resized to %dx%d", in.Size.Rows, in.Size.Cols))
	}
	if in.Signal != "" {
		parts = append(parts, in.Signal+" sent to "+d.Signalled)
	}
	if in.Types() || parts == nil {
		it := "it"
		if parts != nil {
			it = "the rest"
		}
		text := typed(d, in, it)
		if ended {
			text = strings.TrimSuffix(text, buffered)
		}
		parts = append(parts, text)
	}
	if d.Note != "" {
		parts = append(parts, d.Note)
	}
	return strings.Join(parts, "; ")
}

// typed says what became of text, keys and the end of file. it is the word for them in the text.
func typed(d jobs.Delivery, in jobs.Input, it string) string {
	if d.Typing != nil {
		if text := typing(d, it); text != "" {
			return text
		}
	}
	switch {
	case d.Made != "" && d.Rest:
		return d.Made + " sent by the terminal; " + forReader(d, in, "the rest")
	case d.Made != "":
		return d.Made + " sent by the terminal"
	}
	return forReader(d, in, it)
}

// forReader says what became of input that a program must read. it is the word for the input.
func forReader(d jobs.Delivery, in jobs.Input, it string) string {
	switch {
	case d.Waiting:
		return "delivered"
	case d.Untaken:
		return "sent; the program that waits for it is busy and has not taken it yet"
	case d.Outside:
		return "sent; whether a program outside the job reads it can't be seen"
	case d.Unseen && in.EOF:
		return "the command's standard input is closed"
	case d.Unseen:
		return "written to the command's standard input; whether a program reads a pipe can't be seen"
	case d.Unsure:
		return "sent; a program gets it when it reads"
	}
	return "no program was waiting for " + it + buffered
}

// typing says how much is typed of input that is typed one key at a time. It returns "" if all is
// typed, and the text is the same as for other input. it is the word for the input.
func typing(d jobs.Delivery, it string) string {
	done := false
	select {
	case <-d.Typing.Done():
		done = true
	default:
	}
	typed, keys, err := d.Typing.Progress()
	switch {
	case err != nil && keys > 0:
		return fmt.Sprintf("%d of %d keys typed; the rest was not: %v", typed, keys, err)
	case err != nil:
		return fmt.Sprintf("not typed: %v", err)
	case done && d.Behind:
		return "typed after earlier keys"
	case done:
		return ""
	case d.Typing.Behind():
		return it + " follows when earlier keys are typed"
	case keys == 0:
		return it + " follows; what comes after esc is held back"
	}
	return fmt.Sprintf("%d of %d keys typed; the rest follows", typed, keys)
}

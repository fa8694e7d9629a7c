package report

import (
	"fmt"
	"strings"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// known is what the reader of a reply knows of a job's question without the lines about it.
type known struct {
	answered *jobs.Question // the question that the call answered; nil if it answered no question
	prompt   bool           // the output that the reply shows ends with the new prompt
	line     string         // the cursor's line, if a program of the running job takes input
	hold     *jobs.Hold     // why a stop has not ended the job; nil without a stop, or while it escalates
}

// whatIsKnown returns what a caller that has just answered a question knows of the next one. Other
// replies repeat everything, because the same call gives the same answer.
func whatIsKnown(j *jobs.Job, record jobs.Record, live jobs.Live, w Window) known {
	q := record.Question
	if w.Answered == nil || q == nil {
		return known{line: readerLine(j, record), hold: hold(live)}
	}
	return known{hold: hold(live), answered: w.Answered, prompt: q.Prompt != "" && endsWith(j.Log(), w.From, q.Prompt)}
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

// readerLine returns the line that the cursor is in, if a program of the running job takes input.
// It is probably a prompt.
func readerLine(j *jobs.Job, record jobs.Record) string {
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

// question writes the lines about the question of a job that waits for input.
func question(r *Reply, record jobs.Record, known known) {
	q := record.Question
	if q == nil || record.Status != jobs.WaitingInput {
		return
	}
	if q.Prompt != "" && !known.prompt {
		r.Line("Prompt", q.Prompt)
	}
	if known.answered == nil || known.answered.Kind != q.Kind || known.answered.By != q.By {
		r.Line("Waiting", strings.TrimSuffix(q.Kind+", "+q.By, ", "))
	}
}

// reader writes the lines about a program of a running job that takes input and waits for something
// else as well.
func reader(r *Reply, record jobs.Record, known known) {
	a := record.Accepts
	if a == (jobs.Reader{}) {
		return
	}
	if known.line != "" {
		r.Line("Prompt", known.line)
	}
	r.Line("Accepts input", strings.TrimSuffix(a.Kind+", "+a.By, ", "))
}

// buffered ends what is said of input that no program was waiting for. If the job has ended, none
// will read it.
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

// typed says what became of text, keys and the end of file. it is what to call them.
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

// forReader says what became of input that a program must read. it is what to call the input.
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

// typing says how far input is that is typed one key at a time. It returns "" if all is typed, and
// nothing more is to be said of it than of other input. it is what to call the input.
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

package report

import (
	"fmt"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A Next line names the call that a job needs next. Every such text is in the table nexts, and
// names no tool except the NextTools; a Note can name any.

// NextTools are the tools that a Next line can name. Clients that search for tools load these from
// the start, so that a model can follow the line at once: they have anthropic/alwaysLoad, and
// Claude Code 2.1.330 puts only such tools into the prompt.
var NextTools = []string{
	"cancel_job", "check_job_status", "execute_command_async", "execute_python", "restart_python_worker",
	"send_command_input", "send_python_input", "wait_for_jobs",
}

// Keys in nexts. pythonLine is for a question of Python that one line answers. untaken and reached
// are for a stop that has not ended Python because the variables would be lost: before and after
// the code has received its interrupt. restorable is for variables that were lost while a checkpoint
// lives. The other keys are the kinds of questions at a terminal.
const (
	pythonLine = "python"
	untaken    = "untaken"
	reached    = "reached"
	restorable = "restorable"
)

var nexts = map[string]string{
	pythonLine: "send_python_input(text=…) or cancel_job",
	"line":     `send_command_input(text="…\n") or cancel_job`,
	"secret":   `send_command_input(text="…\n", secret=true) or cancel_job`,
	"key":      "send_command_input(keys=[…] or text=…) or cancel_job",
	untaken:    "wait_for_jobs; or cancel_job(force=true), which ends Python and loses %s and those of this job",
	restorable: `restart_python_worker(session="%s", checkpoint="%s"), which continues with the variables after that job`,
	reached:    "wait_for_jobs; or cancel_job, which interrupts it again; or cancel_job(force=true), which ends Python and loses %s and those of this job",
}

// writeNext writes the Next line if the job waits for input, or for a choice between its end and
// the variables, or has lost variables that a checkpoint has. After an answer it does so only if the
// new question is of another kind.
func (rp *Reporter) writeNext(r *Reply, record jobs.Record, in inputContext) {
	if h := in.hold; h != nil {
		key := untaken
		if h.Reached {
			key = reached
		}
		r.Line("Next", fmt.Sprintf(nexts[key], view.CountOf(h.Variables, "variable")))
		return
	}
	if record.Receipt.State == jobs.Lost && rp.Restorable != nil {
		if of := rp.Restorable(record); of != "" {
			r.Line("Next", fmt.Sprintf(nexts[restorable], record.Session, of))
		}
		return
	}
	q := record.Question
	if !record.Asks() || q == nil || in.answered != nil && in.answered.Kind == q.Kind {
		return
	}
	key := q.Kind
	if record.Kind == jobs.Python && key != "key" { // send_python_input sends a line
		key = pythonLine
	}
	if text := nexts[key]; text != "" { // else a newer program at a place has asked
		r.b.WriteString("Next: " + text + "\n") // not Line, which would escape the backslash
	}
}

//go:build unix

package runner

import (
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/view"
	"asyncrepl/internal/waiting"
	"asyncrepl/jobs"
)

// Rows and Cols are the size of a job's terminal, in character cells.
const (
	Rows = 40
	Cols = 120
)

// Prompt returns the last line of the output of p's job, which is the prompt if a program has just
// asked for input. A program that draws a full screen has none.
func Prompt(p *jobs.Port) string {
	return view.Prompt(p.Tail(view.PromptBytes))
}

// PIDs returns a function that lists the living processes of the tree of h. They can read its
// terminal.
func PIDs(h *process.Handle) func() ([]int, error) {
	return func() ([]int, error) {
		ps, err := h.Tree()
		pids := make([]int, len(ps))
		for i, p := range ps {
			pids[i] = p.PID
		}
		return pids, err
	}
}

// NewWatcher returns a watcher of what the tree of h reads, for one job that begins now; printed
// returns the time of the newest output. A job that is soon over is never scanned.
func NewWatcher(from waiting.Source, h *process.Handle, printed func() time.Time, onChange func(waiting.Evidence, bool)) *waiting.Watcher {
	begin := time.Now()
	return &waiting.Watcher{Source: from, Tree: PIDs(h), OnChange: onChange, LastOutput: func() time.Time {
		if last := printed(); last.After(begin) {
			return last
		}
		return begin
	}}
}

// SetInput reports to p's job what a Watcher has seen; place, if not empty, is added to the name of
// the program that asks. If a program waits, the caller has drained the output, so that the prompt
// is complete.
func SetInput(p *jobs.Port, ev waiting.Evidence, waits bool, place string) {
	if !waits {
		p.SetRunning()
		accepts := jobs.Reader{}
		if ev.Reads() {
			accepts.Kind, accepts.By = ev.Kind, ev.By()+place
		}
		p.SetAccepts(accepts)
		p.SetStopped(ev.Stopped())
		return
	}
	p.SetWaiting(jobs.Question{Kind: ev.Kind, Prompt: Prompt(p), By: ev.By() + place})
}

//go:build unix

package runner

import (
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/queries"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/waiting"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// Rows and Cols are the size of a job's terminal, in character cells.
const (
	Rows = 40
	Cols = 120
)

// A Terminal is the terminal of one process tree: its keyboard, the pump that reads its output, and
// the answers to the queries in that output. OpenTerminal sets the PTY, and Connect the rest.
type Terminal struct {
	*tty.PTY
	Keyboard *tty.Keyboard
	Screen   *pump.Pump
	queries  *queries.Responder
}

// OpenTerminal opens a terminal on which no process runs yet.
func OpenTerminal() (*Terminal, error) {
	pty, err := tty.Open(Rows, Cols)
	if err != nil {
		return nil, err
	}
	return &Terminal{PTY: pty}, nil
}

// Connect makes the keyboard for the tree of h, which runs on the terminal, and begins to read the
// output. The output goes to the job whose port current returns at that moment. After each write
// Connect calls written with that port.
func (t *Terminal) Connect(h *process.Handle, current func() *jobs.Port, written func(*jobs.Port)) {
	t.Keyboard = tty.NewKeyboard(t.PTY, PIDs(h))
	t.queries = queries.New(t.PTY, PIDs(h))
	t.Screen = pump.Shared(t.Master(), func(b []byte) {
		p := current()
		t.queries.Printed(p.Output(), p.Write(output.TTY, b), b)
		written(p)
	})
}

// Close reads the rest of the output and closes the terminal. If no process could be started on
// it, Close is called without Connect.
func (t *Terminal) Close() {
	if t.Screen != nil {
		t.Screen.Close()
		t.queries.Close()
	}
	t.PTY.Close()
}

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

// NewWatcher returns a watcher of the input that the tree of h reads, for one job that begins now.
// printed returns the time of the newest output. A job that is soon over is never scanned.
func NewWatcher(from waiting.Source, h *process.Handle, printed func() time.Time, onChange func(waiting.Evidence, bool)) *waiting.Watcher {
	begin := time.Now()
	return &waiting.Watcher{Source: from, Tree: PIDs(h), OnChange: onChange, LastOutput: func() time.Time {
		if last := printed(); last.After(begin) {
			return last
		}
		return begin
	}}
}

// SetInput reports the evidence of a Watcher to p's job. It adds place, such as a session, to the
// name of the program that asks. If a program waits, the caller has drained the output, so that the
// prompt is complete.
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

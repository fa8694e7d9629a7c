package worker

import (
	"context"
	"errors"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/waiting"
	"asyncrepl/jobs"
)

// eofGrace is how long a worker whose channel has ended can take to begin to exit, and exitLimit how
// long it can take to exit then: the kernel frees the memory that it shared after it has closed the
// channel.
const (
	eofGrace  = 200 * time.Millisecond
	exitLimit = 10 * time.Second
)

// Reasons why a worker is of no more use.
var (
	ErrDied          = errors.New("the worker died")
	ErrChannelClosed = errors.New("the code closed the session's channel")
)

// Prepare opens the pipes of the next job, if that has not been done.
func (w *Worker) Prepare() (err error) {
	if w.made == nil {
		w.made, err = newJobPipes()
	}
	return err
}

// Begin makes p's job the running one, until Rest. Its output calls printed.
func (w *Worker) Begin(p *jobs.Port, printed func()) {
	w.earlier = w.descendants()
	w.mu.Lock()
	pools := w.pools
	w.mu.Unlock()
	for _, p := range pools { // their bytes so far belong to the job before
		p.Drain()
	}
	w.mu.Lock()
	w.port, w.kick = p, printed
	sockets := w.sockets
	w.mu.Unlock()
	w.ports.Follow(runner.ReportPorts(p), len(w.earlier) > 0 || sockets && w.opened())
}

// opened reports whether the worker can have opened a file or a socket since opened was last
// called: the number of its files is another, or unknown. Reading the kernel's table of listening
// sockets takes much longer. A worker that has closed as many as it has opened is overlooked; a port
// that it opened last can then be taken for the next job's.
func (w *Worker) opened() bool {
	before := w.files
	w.files = procfs.CountFiles(w.handle.PID())
	return w.files == 0 || w.files != before
}

// Rest ends the turn of the running job. What its processes print later is still its output.
func (w *Worker) Rest() {
	w.ports.Rest()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kick = func() {}
}

// A Request is something that a job asks of the namespace. Get and inspect are about the value of
// the job's code, which is an expression. requests.py answers.
type Request struct {
	Do     string   `json:"do"`               // get, set, delete, inspect or complete
	Format string   `json:"format,omitempty"` // of the value to get: text, json or image
	Name   string   `json:"name,omitempty"`   // to set
	Value  string   `json:"value,omitempty"`  // to set it to, in JSON
	Names  []string `json:"names,omitempty"`  // to delete
	All    bool     `json:"all,omitempty"`    // delete everything
	At     int      `json:"at"`               // the number of characters of the code before the place to complete
}

// Work is what a job does: it runs code, or a file, or answers a request.
type Work struct {
	Code    string   `json:"code"`
	Path    string   `json:"path,omitempty"` // of a file; empty: none
	Args    []string `json:"args,omitempty"` // of the file
	Request *Request `json:"request,omitempty"`
}

// Changes reports whether the work is meant to change variables. A request can only read them.
func (w *Work) Changes() bool {
	return w.Request == nil || w.Request.Do == "set" || w.Request.Do == "delete"
}

// Exec sends the work of the running job, with the pipes that Prepare opened. Events and tracebacks
// name the job by id. After an error the worker does not begin with it: a command must arrive
// whole.
func (w *Worker) Exec(id string, work Work) error {
	pipes := w.made
	w.made = nil
	w.read(w.port, pipes) // first: what the code prints comes before what it shows then
	defer pipes.closeWriters()
	return w.ch.send(execCommand{ID: id, Fds: 2, Work: work}, pipes.out.w, pipes.errs.w)
}

// Events returns the worker's events, for the holder of the turn. Those about jobs that are over
// can be among them.
func (w *Worker) Events() <-chan Event { return w.events }

// Closed returns a channel that is closed when the worker's events have ended. A process that a job
// left behind can keep them open after the worker's death.
func (w *Worker) Closed() <-chan struct{} { return w.eof }

// Unread reports whether a worker whose events have ended had not read all that it was sent. The
// system may not know.
func (w *Worker) Unread() bool { return w.unread }

// AwaitDeath waits for a worker whose events have ended to exit, and reports whether it did. If
// not, user code has closed the channel.
func (w *Worker) AwaitDeath() (died bool) {
	for begin := time.Now(); time.Since(begin) < exitLimit; {
		select {
		case <-w.handle.Done():
			return true
		case <-time.After(eofGrace):
		}
		if st, err := procfs.Inspect(w.handle.PID()); err == nil && !st.Ending() {
			return false
		}
	}
	return false
}

// Answer answers the question n of the running job with a line, or with the end of file.
func (w *Worker) Answer(n int, line string, eof bool) error {
	return w.ch.send(inputCommand{N: n, Line: line, EOF: eof})
}

// Type types text, and then the end of file if eof is set, at the worker's terminal.
func (w *Worker) Type(ctx context.Context, text string, eof, secret bool) error {
	return w.terminal.Keyboard.Type(ctx, tty.Input{Text: text, EOF: eof, Secret: secret})
}

// NewWatcher returns a watcher of the worker's terminal for one job.
func (w *Worker) NewWatcher(onChange func(ev waiting.Evidence, waits bool)) *waiting.Watcher {
	return runner.NewWatcher(w.terminal.PTY, w.handle, w.terminal.Screen.Last, onChange)
}

// A processKey identifies a process: it differs from that of a later process with the same pid.
type processKey struct {
	pid   int
	start uint64
}

func keyOf(p procfs.Process) processKey { return processKey{p.PID, p.Start} }

// descendants returns the worker's descendants. If there are none, which is usual, it needs two
// system calls and no scan.
func (w *Worker) descendants() map[processKey]bool {
	if w.children.Empty() {
		return nil
	}
	ps, _ := w.handle.Descendants() // an error: an interrupt can reach a child of an earlier job
	keys := make(map[processKey]bool, len(ps))
	for _, p := range ps {
		keys[keyOf(p)] = true
	}
	return keys
}

// EventsPending reports whether events of the worker have arrived that were not read yet.
func (w *Worker) EventsPending() bool { return w.ch.unread() }

// Foreground returns the processes of the terminal's foreground group that were started after the
// running job began. It leaves out children of earlier jobs, and their children.
func (w *Worker) Foreground() (own []procfs.Process) {
	group, err := w.terminal.Foreground()
	if err != nil || w.children.Empty() {
		return nil
	}
	earlier := make(map[int]bool)
	descendants, _ := w.handle.Descendants() // an error: those that were found are interrupted
	for _, p := range descendants {          // parents come before their children
		switch {
		case w.earlier[keyOf(p)] || earlier[p.Parent]:
			earlier[p.PID] = true
		case p.Group == group:
			own = append(own, p)
		}
	}
	return own
}

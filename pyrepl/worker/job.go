package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"time"

	"asyncrepl/internal/kernel/listening"
	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/waiting"
	"asyncrepl/jobs"
)

// A worker whose channel has ended must begin to exit within eofGrace, and must then exit within
// exitLimit. exitLimit is long, because the kernel closes the channel before it frees the memory
// that the worker shared.
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
	for _, p := range pools { // their output so far belongs to the last job
		p.Drain()
	}
	w.mu.Lock()
	w.port, w.kick = p, printed
	sockets := w.sockets
	w.mu.Unlock()
	w.ports.Follow(runner.ReportPorts(p), len(w.earlier) > 0 || sockets && w.opened())
}

// OnLoop returns the addresses that the session's event loop serves now.
func (w *Worker) OnLoop() []string { return addresses(w.onLoop(), nil) }

// addresses returns the addresses of sockets that are not in before.
func addresses(sockets, before map[uint64]netip.AddrPort) (texts []string) {
	for inode, addr := range sockets {
		if !before[inode].IsValid() {
			texts = append(texts, addr.String())
		}
	}
	slices.Sort(texts)
	return texts
}

// onLoop returns the listening sockets, by inode, that the session's event loop serves.
func (w *Worker) onLoop() map[uint64]netip.AddrPort {
	w.mu.Lock()
	loop := w.loop
	w.mu.Unlock()
	if loop == 0 {
		return nil
	}
	sockets, _ := listening.Watched(w.handle.PID(), loop) // an error: they count as others do
	return sockets
}

// LoopServers returns the addresses of the servers on the session's event loop that have come since
// the last call. The holder of the turn calls it after a job.
func (w *Worker) LoopServers() []string {
	before := w.left
	w.left = w.onLoop()
	return addresses(w.left, before)
}

// opened reports whether the worker can have opened a file or a socket since the last call of
// opened: the number of its files has changed or is unknown. Reading the kernel's table of
// listening sockets would take much longer. opened overlooks a worker that has closed as many files
// as it has opened; a port that it opened last can then be reported for the next job.
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

// A Request reads or changes the namespace. For get and inspect, the job's code is an expression,
// and the request is about its value. requests.py answers.
type Request struct {
	Do     string   `json:"do"`               // get, set, delete, inspect or complete
	Format string   `json:"format,omitempty"` // get returns the value as text, json or image
	Source bool     `json:"source,omitempty"` // inspect returns the source in place of the documentation
	Name   string   `json:"name,omitempty"`   // set changes this variable
	Value  string   `json:"value,omitempty"`  // the variable's new value, in JSON
	Names  []string `json:"names,omitempty"`  // delete removes these variables
	All    bool     `json:"all,omitempty"`    // delete removes everything
	At     int      `json:"at"`               // complete works after so many characters of the code
}

// Work is what a job does: it runs code, or a file, or answers a request.
type Work struct {
	Code    string   `json:"code"`
	Path    string   `json:"path,omitempty"` // the file to run; empty: run Code
	Args    []string `json:"args,omitempty"` // the file finds them in sys.argv[1:]
	Request *Request `json:"request,omitempty"`
}

// Changes reports whether the work is meant to change variables. A request can only read them.
func (w *Work) Changes() bool {
	return w.Request == nil || w.Request.Do == "set" || w.Request.Do == "delete"
}

// codePrefix begins the file name of each job's code, and of nothing else.
const codePrefix = "<code "

// File returns the file name that Python gives to the code. It is the same for the same code in every
// session: a cache such as joblib.Memory, which has it in its keys, finds what an earlier job or an
// earlier server has computed.
func (w *Work) File() string {
	hash := sha256.Sum256([]byte(w.Code))
	return codePrefix + hex.EncodeToString(hash[:8]) + ">"
}

// Exec sends the work of the running job, with the pipes that Prepare opened. Events and tracebacks
// name the job by id. After an error the worker does not begin with it: a command must arrive
// whole.
func (w *Worker) Exec(id string, work Work) error {
	pipes := w.made
	w.made = nil
	w.read(w.port, pipes) // before the code runs, so that text printed before a display comes before it
	defer pipes.closeWriters()
	return w.ch.send(execCommand{ID: id, File: work.File(), Fds: 2, Work: work}, pipes.out.w, pipes.errs.w)
}

// Events returns the worker's events, for the holder of the turn. Some can be about jobs that are
// over.
func (w *Worker) Events() <-chan Event { return w.events }

// Closed returns a channel that is closed when the worker's events have ended. A process that a job
// left behind can keep them open after the worker's death.
func (w *Worker) Closed() <-chan struct{} { return w.eof }

// Unread reports whether a worker whose events have ended left commands unread. macOS does not
// report this.
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

// A processKey identifies a process. A later process with the same pid has another key.
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

// Raised returns how many interrupts the worker has reported since its start. On a busy machine the
// last report can have been read and not be received from Events yet.
func (w *Worker) Raised() int64 { return w.raised.Load() }

// Foreground returns the processes of the terminal's foreground group that were started after the
// running job began. It leaves out children of earlier jobs, and their children.
func (w *Worker) Foreground() (own []procfs.Process) {
	group, err := w.terminal.Foreground()
	if err != nil || w.children.Empty() {
		return nil
	}
	earlier := make(map[int]bool)
	// After an error the processes that were found are interrupted.
	descendants, _ := w.handle.Descendants()
	for _, p := range descendants { // parents come before their children
		switch {
		case w.earlier[keyOf(p)] || earlier[p.Parent]:
			earlier[p.PID] = true
		case p.Group == group:
			own = append(own, p)
		}
	}
	return own
}

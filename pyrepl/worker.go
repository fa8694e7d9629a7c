package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"asyncrepl/internal/listening"
	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/procfs"
	"asyncrepl/internal/pump"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/tty"
	"asyncrepl/jobs"
)

// The limits of the wait for an idle worker's answer to a numbered command.
const (
	syncTime = 10 * time.Second // a worker that misses it is ended
	askTime  = time.Second      // a caller's question, who can do without the answer
)

// errSilent is the error of a wait for an answer that did not come in time.
var errSilent = errors.New("the worker did not answer")

// A worker is a Python process that holds a session's namespace.
type worker struct {
	handle   *process.Handle
	ports    *listening.Tree
	pty      *tty.PTY
	keyboard *tty.Keyboard
	screen   *pump.Pump // of the terminal
	ch       *channel
	events   chan event    // from the channel's reader to the holder of the turn
	eof      chan struct{} // closed when the channel has ended
	unread   bool          // the worker had not read all that it was sent; set before eof is closed
	ending   chan struct{} // closed by end: no caller takes events any more
	once     sync.Once     // closes ending

	// Used by the holder of the turn.
	asked    int               // numbered commands so far
	children *procfs.ChildList // nil: it could not be opened
	made     *jobPipes         // for the next job; nil: none
	sockets  bool              // a job can have opened some

	// Guarded by mu.
	mu    sync.Mutex
	port  *jobs.Port                // of the running job, or of the last one: output of no known job goes there
	kick  func()                    // notifies the watcher of the running job of output
	pumps []*pump.Pump              // of jobs whose pipes some process still holds open
	wrote [output.TTY + 1]time.Time // when there was output last, of any job
}

// descendants returns the worker's descendants. If there are none, which is usual, it needs two
// system calls and no scan.
func (w *worker) descendants() map[processKey]bool {
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

// takePipes returns the pipes of the next job.
func (w *worker) takePipes() (*jobPipes, error) {
	if p := w.made; p != nil {
		w.made = nil
		return p, nil
	}
	return newJobPipes()
}

// makePipes makes the pipes of the next job ahead.
func (w *worker) makePipes() {
	if w.made == nil {
		w.made, _ = newJobPipes() // an error: the next job tries again
	}
}

// read reads pipes into the output of p, for as long as any process holds their write ends.
func (w *worker) read(p *jobs.Port, pipes *jobPipes) {
	into := func(s output.Stream) func([]byte) {
		return func(b []byte) {
			p.Write(s, b)
			w.printed(p, s)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	open := w.pumps[:0]
	for _, old := range w.pumps {
		select {
		case <-old.Done():
		default:
			open = append(open, old)
		}
	}
	w.pumps = append(open, pump.New(pipes.out.r, into(output.Stdout)), pump.New(pipes.errs.r, into(output.Stderr)))
}

// writeScreen adds output of the terminal to the running job, or to the last one.
func (w *worker) writeScreen(b []byte) {
	w.mu.Lock()
	p := w.port
	w.mu.Unlock()
	p.Write(output.TTY, b)
	w.printed(p, output.TTY)
}

// printed notes output of p's job, and notifies the job's watcher if it is running.
func (w *worker) printed(p *jobs.Port, s output.Stream) {
	now := time.Now()
	w.mu.Lock()
	w.wrote[s] = now
	kick := w.kick
	running := w.port == p
	w.mu.Unlock()
	if running {
		kick()
	}
}

// serve makes p's job the running one; its output calls kick.
func (w *worker) serve(p *jobs.Port, kick func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.port, w.kick = p, kick
}

// drain reads what the pipes and the terminal hold now.
func (w *worker) drain() {
	w.mu.Lock()
	pumps := append([]*pump.Pump{w.screen}, w.pumps...)
	w.mu.Unlock()
	for _, p := range pumps {
		p.Drain()
	}
}

// sync waits until the worker has taken every signal that was sent to it so far.
func (w *worker) sync() error {
	w.asked++
	if err := w.ch.send(syncCommand{N: w.asked}); err != nil {
		return err
	}
	_, err := w.await(context.Background(), w.asked, syncTime)
	return err
}

// awaitDeath waits for a worker whose channel has ended to exit, and reports whether it did.
func (w *worker) awaitDeath() (died bool) {
	timer := time.NewTimer(eofGrace)
	defer timer.Stop()
	select {
	case <-w.handle.Done():
		return true
	case <-timer.C:
		return false
	}
}

// await returns the answer to command n, if it comes within limit. It drops other events: they are
// about a job that is over.
func (w *worker) await(ctx context.Context, n int, limit time.Duration) (event, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case ev := <-w.events:
			if a, ok := ev.(interface{ to() int }); !ok || a.to() != n {
				continue
			}
			if ev, ok := ev.(unsupportedEvent); ok {
				return nil, fmt.Errorf("the worker does not support %q", ev.Op)
			}
			return ev, nil
		case <-w.handle.Done():
			return nil, fmt.Errorf("the worker %s", exitText(w.handle.Exit()))
		case <-w.eof:
			if w.awaitDeath() {
				return nil, errDied
			}
			return nil, errChannelClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			return nil, fmt.Errorf("%w for %v", errSilent, limit)
		}
	}
}

// end ends the worker and everything that its jobs left behind as l says, and closes what belongs
// to it. It reports which rungs were needed and what could not be ended.
func (w *worker) end(l process.Ladder) process.StopResult {
	w.once.Do(func() { close(w.ending) })
	result := w.handle.Stop(l)
	w.ch.close()
	<-w.eof
	w.pty.CloseSlave()
	w.drain()
	w.closePipes()
	w.screen.Close()
	w.pty.Close()
	w.children.Close()
	w.handle.Forget()
	return result
}

// closePipes closes the pipes of all jobs. It does not hold mu meanwhile: a pump that is reading,
// because a process still writes, needs mu to end.
func (w *worker) closePipes() {
	w.mu.Lock()
	pumps, made := w.pumps, w.made
	w.pumps, w.made = nil, nil
	w.mu.Unlock()
	for _, p := range pumps {
		p.Close()
	}
	if made != nil {
		made.close()
	}
}

// exitText says how a process ended: "was killed by SIGSEGV", "exited 7".
func exitText(x process.Exit) string {
	if x.Signal != 0 {
		return "was killed by " + runner.SignalName(x.Signal)
	}
	return fmt.Sprintf("exited %d", x.Code)
}

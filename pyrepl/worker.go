package pyrepl

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/pump"
	"asyncrepl/internal/tty"
	"asyncrepl/jobs"
)

// syncTime bounds the answer of an idle worker to a sync: it has nothing else
// to do.
const syncTime = 10 * time.Second

// A worker is a Python process that holds a session's namespace.
type worker struct {
	handle *process.Handle
	pty    *tty.PTY
	keys   *tty.Keyboard
	screen *pump.Pump // of the terminal
	ch     *channel
	events chan event    // from the channel reader to whoever has the turn
	eof    chan struct{} // closed when the channel ended
	unread bool          // the worker had not read all that it was sent; set before eof is closed
	gone   chan struct{} // closed when nobody takes events any more
	once   sync.Once     // closes gone
	asked  int           // numbered commands so far; only the holder of the turn sends them

	// Guarded by mu.
	mu    sync.Mutex
	port  *jobs.Port   // of the job that runs, else of the last one: what cannot be told goes there
	kick  func()       // tells the watch of the running job that there was output
	pumps []*pump.Pump // of the jobs whose pipes are still open somewhere
}

// pipes makes a fresh pair for the stdout and stderr of p and reads their other
// ends into its log, for as long as anybody holds them.
func (w *worker) pipes(p *jobs.Port) (out, errs *os.File, err error) {
	outR, out, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("opening pipes: %w", err)
	}
	errR, errs, err := os.Pipe()
	if err != nil {
		outR.Close()
		out.Close()
		return nil, nil, fmt.Errorf("opening pipes: %w", err)
	}
	into := func(s output.Stream) func([]byte) {
		return func(b []byte) {
			p.Write(s, b)
			w.output(p)
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
	w.pumps = append(open, pump.New(outR, into(output.Stdout)), pump.New(errR, into(output.Stderr)))
	return out, errs, nil
}

// write appends what came over the terminal to the job that runs, else to the
// last one.
func (w *worker) write(s output.Stream, b []byte) {
	w.mu.Lock()
	p := w.port
	w.mu.Unlock()
	p.Write(s, b)
	w.output(p)
}

// output tells the watch of p, if it still runs, that there was some.
func (w *worker) output(p *jobs.Port) {
	w.mu.Lock()
	kick := w.kick
	if w.port != p {
		kick = func() {}
	}
	w.mu.Unlock()
	kick()
}

// serve makes p the job that the worker is at; kick is told of its output.
func (w *worker) serve(p *jobs.Port, kick func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.port, w.kick = p, kick
}

// drain reads what lies in the pipes and the terminal now.
func (w *worker) drain() {
	w.mu.Lock()
	pumps := append([]*pump.Pump{w.screen}, w.pumps...)
	w.mu.Unlock()
	for _, p := range pumps {
		p.Drain()
	}
}

// sync waits until the worker has taken every signal sent to it so far.
func (w *worker) sync() error {
	w.asked++
	if err := w.ch.send(syncCommand{N: w.asked}); err != nil {
		return err
	}
	_, err := w.await(context.Background(), w.asked)
	return err
}

// await returns the answer to the command of the given number; other events are late news of a job
// that is over.
func (w *worker) await(ctx context.Context, n int) (event, error) {
	timer := time.NewTimer(syncTime)
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
			return nil, fmt.Errorf("the worker %s", manner(w.handle.Exit()))
		case <-w.eof:
			return nil, errChannelClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			return nil, fmt.Errorf("the worker did not answer for %v", syncTime)
		}
	}
}

// end ends the worker and everything that its jobs left behind, from the given
// rung on, and says what that took and what could not be ended.
func (w *worker) end(from jobs.Rung, step time.Duration) process.StopResult {
	w.once.Do(func() { close(w.gone) })
	result := w.handle.Stop(process.Ladder{From: from, Step: step})
	w.ch.close()
	<-w.eof
	w.pty.CloseSlave()
	w.drain()
	w.closePumps()
	w.screen.Close()
	w.pty.Close()
	w.handle.Forget()
	return result
}

// closePumps closes the pipes of all jobs. It does not hold mu meanwhile: a pump
// that is at work, because somebody writes to it still, needs that to end.
func (w *worker) closePumps() {
	w.mu.Lock()
	pumps := w.pumps
	w.pumps = nil
	w.mu.Unlock()
	for _, p := range pumps {
		p.Close()
	}
}

// manner says how a process ended: "was killed by SIGSEGV", "exited 7".
func manner(x process.Exit) string {
	if x.Signal != 0 {
		return "was killed by " + process.SignalName(x.Signal)
	}
	return fmt.Sprintf("exited %d", x.Code)
}

package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"asyncrepl/internal/pump"
	"asyncrepl/internal/view"
	"asyncrepl/internal/waiting"
	"asyncrepl/jobs"
)

// promptWindow is how much of the newest output is looked at for the prompt.
const promptWindow = 4096

// tree names the processes that may be waiting for the terminal.
func (r *run) tree() ([]int, error) {
	ps, err := r.handle.Tree()
	pids := make([]int, len(ps))
	for i, p := range ps {
		pids[i] = p.PID
	}
	return pids, err
}

// quiet is since when the terminal has been quiet: a job that is over soon is
// not looked at.
func (r *run) quiet() time.Time {
	if last := r.pumps[0].Last(); last.After(r.begin) {
		return last
	}
	return r.begin
}

// news takes what the watch saw. A prompt is read only after the terminal has
// been drained, so that all of it is there.
func (r *run) news(ev waiting.Evidence, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = ev != waiting.Evidence{}
	if !waits {
		r.port.SetRunning()
		r.port.SetAccepts(r.reading)
		return
	}
	r.pumps[0].Drain()
	r.port.SetWaiting(jobs.Question{
		Kind:   ev.Kind,
		Prompt: view.LastLine(r.port.Tail(promptWindow)),
		By:     ev.By(),
	})
}

// input types what a client sent. Whether a program was waiting is told, and is
// no condition: a terminal keeps what is typed ahead. The watch takes its news
// back itself when something is typed, so mu is not held here.
func (r *run) input(ctx context.Context, in jobs.Input) (jobs.Delivery, error) {
	select {
	case <-r.handle.Done():
		return jobs.Delivery{}, jobs.ErrEnded
	default:
	}
	r.mu.Lock()
	was := r.reading
	r.mu.Unlock()
	if err := r.keys.Type(ctx, in.Text, in.EOF, in.Secret); err != nil {
		return jobs.Delivery{}, err
	}
	_, piped := r.keys.(*pipe)
	return jobs.Delivery{Waiting: was, Unseen: piped}, nil
}

// errStdinClosed is the answer to input after the end of file.
var errStdinClosed = errors.New("the command's standard input was closed by an earlier eof")

// A pipe is the standard input of a command without a terminal.
type pipe struct {
	w      *os.File
	mu     sync.Mutex // held by the one that writes
	closed atomic.Bool
}

// Type writes text and, on eof, closes the pipe.
func (p *pipe) Type(ctx context.Context, text string, eof, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return errStdinClosed
	}
	if text != "" {
		n, err := pump.WriteBounded(ctx, p.w, []byte(text))
		if err != nil {
			return fmt.Errorf("writing to the command's standard input: only %d of %d bytes were taken, for %s", n, len(text), p.reason(err))
		}
	}
	if eof {
		p.close()
	}
	return nil
}

// reason says why a write failed, and what helps.
func (p *pipe) reason(err error) string {
	switch {
	case errors.Is(err, syscall.EPIPE):
		return "every program that could read it has closed it"
	case p.closed.Load():
		return "the command has ended"
	}
	return "the program does not read: send the rest when it does"
}

// close closes the pipe, also under a write, which fails then.
func (p *pipe) close() {
	if !p.closed.Swap(true) {
		p.w.Close()
	}
}

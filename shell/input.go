package shell

import (
	"context"
	"errors"
	"strings"
	"time"

	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/keys"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/waiting"
	"asyncrepl/jobs"
)

// onInput reports the evidence of the watcher. The prompt is read after the output has been
// drained, so that it is complete.
func (r *run) onInput(ev waiting.Evidence, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = ev.Reads()
	if r.reading && r.readsAgain != nil {
		close(r.readsAgain)
		r.readsAgain = nil
	}
	if waits {
		for _, p := range r.pumps {
			p.Drain()
		}
	}
	runner.SetInput(r.port, ev, waits, "")
}

// input hands the input of a client to the command. It reports whether a program was waiting, and
// does not require it: terminal and pipe keep input that is sent ahead. The watcher retracts its
// report when input is sent, so mu is not held meanwhile.
func (r *run) input(ctx context.Context, in jobs.Input) (d jobs.Delivery, err error) {
	if runner.Ended(r.handle) {
		return d, jobs.ErrEnded
	}
	r.mu.Lock()
	d.Waiting = r.reading
	r.mu.Unlock()
	d.Unsure = !d.Waiting && r.watcher.Unsure()
	if r.stdin != nil {
		d.Unseen = !waiting.SeesPipes
		err = r.inputToPipe(ctx, in, &d)
	} else {
		if !d.Waiting && in.Types() {
			d.Waiting, d.Outside = waiting.ReadOutside(ctx, r.terminal.PTY, runner.PIDs(r.handle))
		}
		err = r.inputToTerminal(ctx, in, &d)
	}
	return d, err
}

// inputToTerminal is input for a command with a terminal.
func (r *run) inputToTerminal(ctx context.Context, in jobs.Input, d *jobs.Delivery) error {
	strokes, err := r.strokes(in)
	if err == nil && in.Types() {
		err = r.typist.Check(strokes) // neither the size nor the signal has taken effect yet
	}
	if err != nil {
		return err
	}
	if in.Size != (jobs.Size{}) {
		r.noteSent("", in.By)
		if err := r.terminal.Resize(uint16(in.Size.Rows), uint16(in.Size.Cols)); err != nil {
			return err
		}
	}
	if in.Signal != "" {
		err := r.terminal.During(func() (err error) { d.Signalled, err = r.signal(in.Signal, in.By); return err })
		if err != nil {
			return err
		}
	}
	if !in.Types() {
		return nil
	}
	if d.Waiting && (in.Size != (jobs.Size{}) || in.Signal != "") {
		r.awaitReader(ctx)
	}
	d.Made, d.Rest = r.madeOf(strokes)
	typing, err := r.typist.Type(ctx, strokes)
	if errors.Is(err, errEnded) {
		return jobs.ErrEnded
	}
	if typing != nil {
		d.Typing, d.Behind = typing, typing.Behind()
	}
	if lost := r.typist.Lost(); lost != nil {
		d.Note = "before that, " + strings.Join(lost, "; ")
	}
	return err
}

// The reasons why keys are not typed.
var (
	errEnded    = errors.New("the job ended first")
	errStopping = errors.New("the job was asked to end")
)

// awaitReader waits until a program that was reading reads again: one that reacts to a new size or
// a signal often drops what was typed meanwhile. It waits for half of the time that ctx leaves.
func (r *run) awaitReader(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok {
		half, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = half
	}
	again := make(chan struct{})
	r.mu.Lock()
	if r.reading {
		r.mu.Unlock()
		return
	}
	r.readsAgain = again
	r.mu.Unlock()
	select {
	case <-again:
	case <-r.handle.Done():
	case <-ctx.Done():
	}
}

// inputToPipe is input for a command without a terminal.
func (r *run) inputToPipe(ctx context.Context, in jobs.Input, d *jobs.Delivery) error {
	if in.Paste || in.Size != (jobs.Size{}) || len(in.Keys) > 0 {
		return jobs.ErrNoTerminal
	}
	if in.Types() {
		if err := r.stdin.Check(); err != nil { // the signal has not taken effect yet
			return err
		}
	}
	if in.Signal != "" {
		err := r.stdin.During(func() (err error) { d.Signalled, err = r.signal(in.Signal, in.By); return err })
		if err != nil {
			return err
		}
	}
	if in.Types() {
		r.noteSent("", in.By)
		return r.stdin.Send(ctx, in.Text, in.EOF)
	}
	return nil
}

// strokes returns the strokes that type in. The output so far has set the modes of the terminal; it
// is read only if the modes matter.
func (r *run) strokes(in jobs.Input) (tty.Strokes, error) {
	if in.Paste || in.Keys.NeedsModes() {
		r.pumps[0].Drain()
		log := r.port.Output()
		r.modes.Follow(log, log.Stat().End)
	}
	modes := keys.ModesOf(&r.modes.Modes)
	s := tty.Strokes{Text: in.Text, Keys: in.Keys.Bytes(modes), EOF: in.EOF, Secret: in.Secret, Raw: in.By == jobs.Person, By: string(in.By)}
	if in.Paste {
		pasted, err := keys.Paste(in.Text, modes)
		if err != nil {
			return tty.Strokes{}, err
		}
		s.Text, s.Paste = "", pasted
	}
	return s, nil
}

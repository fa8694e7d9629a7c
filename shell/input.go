package shell

import (
	"context"

	"asyncrepl/internal/runner"
	"asyncrepl/internal/waiting"
	"asyncrepl/jobs"
)

// onInput reports what the watcher has seen. The prompt is read after the output has been drained,
// so that it is complete.
func (r *run) onInput(ev waiting.Evidence, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = ev != waiting.Evidence{}
	if waits {
		for _, p := range r.pumps {
			p.Drain()
		}
	}
	runner.SetInput(r.port, ev, waits, "")
}

// input hands what a client sent to the command. It reports whether a program was waiting, and does
// not require it: terminal and pipe keep what is sent ahead. The watcher retracts its report when
// something is typed, so mu is not held meanwhile.
func (r *run) input(ctx context.Context, in jobs.Input) (jobs.Delivery, error) {
	if runner.Ended(r.handle) {
		return jobs.Delivery{}, jobs.ErrEnded
	}
	r.mu.Lock()
	waited := r.reading
	r.mu.Unlock()
	if r.stdin != nil {
		return jobs.Delivery{Waiting: waited, Unseen: !waiting.SeesPipes}, r.stdin.Send(ctx, in.Text, in.EOF)
	}
	return jobs.Delivery{Waiting: waited}, r.keyboard.Type(ctx, in.Text, in.EOF, in.Secret)
}

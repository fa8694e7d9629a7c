package place

import (
	"context"
	"errors"
	"time"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/text/callstack"
	"asyncrepl/jobs"
)

// What a running job does now is asked of its engine, when a reply shows it.

const (
	lookTime = 300 * time.Millisecond // how long a reply waits for the answer
	lookKept = 100 * time.Millisecond // how long an answer serves the other questions of the same reply
)

var (
	errNoAnswer = errors.New("its place has not answered")
	errNoProbe  = errors.New("the engine there can't measure it")
)

// ask returns what the engine says of the running job, or nil if it does not answer in time. It is not
// asked again until it has answered: a lost link costs one reply its time, and no more.
func (m *mirror) ask(look, busy bool) *far.Live {
	m.mu.Lock()
	last, asking := m.live, m.asking
	fresh := last != nil && time.Since(m.lookedAt) < lookKept && (!look || last.Looked != nil) &&
		(!busy || last.Probe == nil || last.Probe.Watched)
	l := m.host.connected()
	if fresh || asking || l == nil || !m.known {
		m.mu.Unlock()
		if fresh {
			return last
		}
		return nil
	}
	m.asking = true
	m.mu.Unlock()
	answered := make(chan *far.Live, 1) // it can come later
	m.do(func() {
		live, err := l.client.Live(m.run, m.port.ID(), look, busy)
		if err != nil {
			live = nil
		}
		m.mu.Lock()
		m.asking, m.live, m.lookedAt = false, live, time.Now()
		m.mu.Unlock()
		answered <- live
	})
	select {
	case live := <-answered:
		return live
	case <-time.After(lookTime):
	case <-m.run.Done():
	}
	return nil
}

// A probe asks the engine what the job's processes do.
type probe struct{ m *mirror }

func (p probe) answer(busy bool) (jobs.Probe, error) {
	switch live := p.m.ask(false, busy); {
	case live == nil:
		return nil, errNoAnswer
	case live.Probe == nil:
		return nil, errNoProbe
	default:
		return live.Probe, nil
	}
}

// Usage implements jobs.Probe.
func (p probe) Usage() (u jobs.ProcessUsage, err error) {
	a, err := p.answer(false)
	if err != nil {
		return u, err
	}
	return a.Usage()
}

// Busiest implements jobs.Probe.
func (p probe) Busiest() (who jobs.Process, percent float64, err error) {
	a, err := p.answer(true)
	if err != nil {
		return who, 0, err
	}
	return a.Busiest()
}

// Waits implements jobs.Probe.
func (p probe) Waits(pid int) (jobs.Process, string, time.Duration) {
	a, err := p.answer(true)
	if err != nil {
		return jobs.Process{PID: pid}, "", 0
	}
	return a.Waits(pid)
}

// Stopped implements jobs.Probe.
func (p probe) Stopped() ([]jobs.StoppedProcess, error) {
	a, err := p.answer(false)
	if err != nil {
		return nil, err
	}
	return a.Stopped()
}

// A looker asks the engine where the job's code is.
type looker struct{ m *mirror }

// Look implements callstack.Looker.
func (l looker) Look() (callstack.Stack, error) {
	live := l.m.ask(true, false)
	if live == nil {
		return callstack.Stack{}, errNoAnswer
	}
	if live.Looked == nil {
		return callstack.Stack{}, callstack.ErrSaid
	}
	return live.Looked.Look()
}

// hold says why a stop has not ended the job.
func (m *mirror) hold() (jobs.Hold, bool) {
	live := m.ask(false, false)
	if live == nil || live.Hold == nil {
		return jobs.Hold{}, false
	}
	return *live.Hold, true
}

// onLoop returns the addresses that only an awaiting event loop serves.
func (m *mirror) onLoop() []string {
	if live := m.ask(false, false); live != nil {
		return live.OnLoop
	}
	return nil
}

// cleanup ends what the ended job has left there.
func (m *mirror) cleanup(ctx context.Context, st jobs.Stop) jobs.Remains {
	l := m.host.current()
	if l == nil {
		return jobs.Remains{Err: errors.New(m.host.place.Name + " is out of reach")}
	}
	r, err := l.client.Cleanup(ctx, m.port.ID(), st)
	switch {
	case err != nil && ctx.Err() != nil:
		return jobs.Remains{Pending: true}
	case err != nil:
		return jobs.Remains{Err: errors.New(line(err.Error()))}
	}
	return r
}

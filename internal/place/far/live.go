package far

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/text/callstack"
	"asyncrepl/jobs"
)

// Live has the answers of a running job to the questions of [jobs.Live], all asked at one moment.
type Live struct {
	Probe  *Probe     `json:"probe,omitempty"`   // nil: it has no probe
	Looked *Look      `json:"looked,omitempty"`  // nil: its code has no stack to show, or the stack was not asked for
	Hold   *jobs.Hold `json:"hold,omitempty"`    // nil: nothing holds it
	OnLoop []string   `json:"on_loop,omitempty"` // nil: no listener
}

// Probe has the answers of a [jobs.Probe], and implements it.
type Probe struct {
	Used      jobs.ProcessUsage     `json:"used"`
	UsedErr   string                `json:"used_error,omitempty"`
	Watched   bool                  `json:"watched,omitempty"` // Busy and Waiters were asked for
	Busy      jobs.Process          `json:"busy"`
	Percent   float64               `json:"percent"`
	BusyErr   string                `json:"busy_error,omitempty"`
	Waiters   []Waiter              `json:"waiters,omitempty"`
	Halted    []jobs.StoppedProcess `json:"halted,omitempty"`
	HaltedErr string                `json:"halted_error,omitempty"`
}

// A Waiter says what a process waits for.
type Waiter struct {
	Asked   int           `json:"asked,omitempty"` // the pid in the question; 0 stands for the leading process
	Process jobs.Process  `json:"process"`
	Words   string        `json:"words,omitempty"`
	Since   time.Duration `json:"since_ns,omitempty"`
}

// Look has the answer of a [callstack.Looker], and implements it.
type Look struct {
	Stack callstack.Stack `json:"stack"`
	Error string          `json:"error,omitempty"`
	Said  bool            `json:"said,omitempty"` // the error is callstack.ErrSaid
}

func (s *server) live(w http.ResponseWriter, r *http.Request) {
	if j := s.job(w, r); j != nil {
		q := r.URL.Query()
		answerJSON(w, liveOf(j.Live(), q.Get("look") != "", q.Get("busy") != ""))
	}
}

// liveOf asks a job about itself, and with look where its code is: that answer depends on the look before. With busy
// it watches the processes for a moment, which takes longer than all the rest, and few replies need it.
func liveOf(l jobs.Live, look, busy bool) (a Live) {
	if l.Probe != nil {
		a.Probe = probeOf(l.Probe, busy)
	}
	if l.Looker != nil && look {
		stack, err := l.Looker.Look()
		a.Looked = &Look{Stack: stack, Error: textOf(err), Said: errors.Is(err, callstack.ErrSaid)}
	}
	if l.Hold != nil {
		if h, held := l.Hold(); held {
			a.Hold = &h
		}
	}
	if l.OnLoop != nil {
		a.OnLoop = l.OnLoop()
	}
	return a
}

func probeOf(p jobs.Probe, busy bool) *Probe {
	a := Probe{Watched: busy}
	var err error
	a.Used, err = p.Usage()
	a.UsedErr = textOf(err)
	a.Halted, err = p.Stopped()
	a.HaltedErr = textOf(err)
	if !busy {
		return &a
	}
	a.Busy, a.Percent, err = p.Busiest()
	a.BusyErr = textOf(err)
	pids := []int{0}
	if a.Busy.PID != 0 {
		pids = append(pids, a.Busy.PID)
	}
	for _, pid := range pids {
		w := Waiter{Asked: pid}
		w.Process, w.Words, w.Since = p.Waits(pid)
		a.Waiters = append(a.Waiters, w)
	}
	return &a
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// Usage returns the use by the processes.
func (p *Probe) Usage() (jobs.ProcessUsage, error) { return p.Used, errorOf(p.UsedErr) }

// Busiest returns the process that used most CPU time.
func (p *Probe) Busiest() (jobs.Process, float64, error) {
	return p.Busy, p.Percent, errorOf(p.BusyErr)
}

// Waits says what a process waited for, if it was the leading or the busiest one.
func (p *Probe) Waits(pid int) (jobs.Process, string, time.Duration) {
	for _, w := range p.Waiters {
		if w.Asked == pid {
			return w.Process, w.Words, w.Since
		}
	}
	return jobs.Process{PID: pid}, "", 0
}

// Stopped returns the processes that a signal had stopped.
func (p *Probe) Stopped() ([]jobs.StoppedProcess, error) { return p.Halted, errorOf(p.HaltedErr) }

// Look returns the stack.
func (l *Look) Look() (callstack.Stack, error) {
	if l.Said {
		return l.Stack, callstack.ErrSaid
	}
	return l.Stack, errorOf(l.Error)
}

// Live asks a running job about itself, with look where its code is, and with busy what its processes do: without
// it, Busiest and Waits of the probe have no answer. The answers of a job that does not run are zero.
func (c *Client) Live(ctx context.Context, job string, look, busy bool) (*Live, error) {
	q := make(url.Values)
	if look {
		q.Set("look", "1")
	}
	if busy {
		q.Set("busy", "1")
	}
	path := jobPath(job) + "/live?" + q.Encode()
	var l Live
	if err := c.ask(ctx, http.MethodGet, path, nil, &l); err != nil {
		return nil, err
	}
	if err := stream.Tidy(&l); err != nil {
		return nil, err
	}
	if l.Looked != nil {
		s := &l.Looked.Stack
		s.Outer = max(0, s.Outer)
		if s.Since < callstack.First || s.Since > callstack.Worked {
			s.Since = callstack.First
		}
	}
	return &l, nil
}

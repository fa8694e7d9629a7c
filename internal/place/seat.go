package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/kubernetes"
	"asyncrepl/internal/place/slurm"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/text/view"
)

// With Slurm and Kubernetes, a session has an allocation of its own, and so has a shell job without a
// session. The engine there is the allocation: it begins and ends with it.

// An allocator gets allocations from a scheduler.
type allocator interface {
	Allocate(ctx context.Context, name string, e allocation.Engine) (id string, err error)
	States(ctx context.Context, ids []string) (map[string]allocation.State, error)
	Carrier(id string) []string
	Release(ctx context.Context, id, name string) error
}

// newAllocator returns the allocator of a place, or nil if it has none.
func newAllocator(conf config.Place, key string) (allocator, error) {
	var run allocation.Run = allocation.Local
	if conf.SSH != nil {
		run = allocation.Over(carry.SSH(conf.SSH))
	}
	switch conf.Kind {
	case config.Slurm:
		return slurm.New(conf.Slurm, key, run)
	case config.Kubernetes:
		return kubernetes.New(conf.Pod, key, run)
	}
	return nil, nil
}

// The scheduler is asked about all allocations of a place at once: soon after one was asked for, then less often.
const (
	firstPoll = time.Second
	mostPoll  = 10 * time.Second
)

// releaseTime bounds how long an allocation is given back. scancel takes 18 s if slurmctld does not answer.
const releaseTime = 20 * time.Second

// A seat is the allocation of one host.
type seat struct {
	place *place
	host  *host
	job   string // the job that it is for; empty: it is for a session

	before <-chan struct{} // closed when the last allocation of the same name is given back; nil: there was none
	// deciding is held while the scheduler is asked for the allocation, or to take it back. Replies don't wait for it.
	deciding sync.Mutex

	// Guarded by mu.
	mu     sync.Mutex
	id     string           // the scheduler's name for it; empty: there is none yet
	asked  bool             // one was asked for, and its id may not be known
	served bool             // it has been used: its end is none of the jobs that were not sent yet
	state  allocation.State // the scheduler's last answer
	ran    string           // what its state said when it was seen to run; empty: it was not
	since  time.Time        // when the allocation was asked for; zero: an earlier server did
}

// open opens a link to the engine of the allocation. It asks for one if there is none, and waits until it runs.
func (s *seat) open(ctx context.Context, known far.Greeting) (*link, far.Greeting, error) {
	if err := s.allocate(ctx); err != nil {
		return nil, far.Greeting{}, err
	}
	if err := s.awaitRunning(ctx, known.Start != ""); err != nil {
		return nil, far.Greeting{}, err
	}
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	l, g, err := s.place.dial(ctx, s.place.allocator.Carrier(id), s.host.name, known, "-join")
	if err == nil {
		s.mu.Lock()
		s.served = true
		s.mu.Unlock()
		return l, g, nil
	}
	// A carrier that has failed says nothing about the allocation: srun exits 0 after a lost node.
	if s.poll(ctx, firstPoll) == nil {
		if lost := s.over(); lost != nil {
			return nil, far.Greeting{}, lost
		}
	}
	return nil, g, err
}

// allocate asks for an allocation, unless there is one.
func (s *seat) allocate(ctx context.Context) error {
	if s.before != nil {
		select {
		case <-s.before:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.deciding.Lock()
	defer s.deciding.Unlock()
	s.mu.Lock()
	id, asked := s.id, s.asked
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil: // it was given back
		return context.Cause(ctx)
	case id != "":
		return nil
	case asked: // it is not known whether there is one
		if err := s.place.allocator.Release(ctx, "", s.host.name); err != nil {
			return err
		}
	}
	find, err := carry.Find(s.place.Binary, s.place.set.Version)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.asked, s.since, s.state = true, time.Now(), allocation.State{}
	s.mu.Unlock()
	s.host.renote() // before the allocation exists: a later server must find it
	id, err = s.place.allocator.Allocate(ctx, s.host.name, allocation.Engine{
		Workspace: s.place.Workspace, Setup: s.place.Setup, Find: find, Idle: s.place.Idle,
		Args: []string{"placed", "-settings", s.place.settings(s.host.name)},
	})
	_, refused := errors.AsType[*allocation.Refused](err)
	s.mu.Lock()
	s.id, s.asked = id, !refused
	s.mu.Unlock()
	s.host.renote()
	return err
}

// noted returns what a later server must know of the seat.
func (s *seat) noted() (id, job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.job
}

// held reports whether there is an allocation, or can be.
func (s *seat) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// awaitRunning returns once the allocation runs. If it is known to have run, that the scheduler does not answer is no
// reason to wait, and that nothing reaches it now is an error. If not, it is waited for. The error is an *engineLost if
// the allocation has ended.
func (s *seat) awaitRunning(ctx context.Context, ran bool) error {
	for wait := firstPoll; ; wait = min(2*wait, mostPoll) {
		err := s.poll(ctx, wait/2)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.mu.Lock()
		state := s.state
		s.mu.Unlock()
		if err == nil {
			switch state.Phase {
			case allocation.Running:
				return nil
			case allocation.Ended, allocation.Unknown:
				return s.over()
			case allocation.Cut:
				if ran {
					return errors.New(state.Text)
				}
			}
		} else if ran {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// over returns how the allocation has ended, or nil if it has not. The seat is free then. What the scheduler keeps of
// it, as Kubernetes keeps a pod, is removed.
func (s *seat) over() *engineLost {
	s.mu.Lock()
	id, served, state := s.id, s.served, s.state
	if state.Phase != allocation.Ended && state.Phase != allocation.Unknown {
		s.mu.Unlock()
		return nil
	}
	s.id, s.asked, s.served, s.state, s.ran = "", false, false, allocation.State{}, ""
	s.mu.Unlock()
	if state.Remains {
		s.host.launch(func() {
			ctx, cancel := s.place.releasing()
			defer cancel()
			s.giveBack(ctx, id)
		})
	}
	return &engineLost{why: state.End, served: served, where: state.Text}
}

// poll brings the state of the seat up to date, unless it is newer than age. All seats of the place are asked for
// at once.
func (s *seat) poll(ctx context.Context, age time.Duration) error {
	p := s.place
	select {
	case p.polling <- struct{}{}:
		defer func() { <-p.polling }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	newer := s.state.Phase != 0 && time.Since(p.polled) < age
	s.mu.Unlock()
	if newer {
		return nil
	}
	var ids []string
	var seats []*seat
	for _, h := range p.all() {
		h.seat.mu.Lock()
		if h.seat.id != "" {
			ids, seats = append(ids, h.seat.id), append(seats, h.seat)
		}
		h.seat.mu.Unlock()
	}
	states, err := p.allocator.States(ctx, ids)
	if err != nil {
		return err
	}
	p.polled = time.Now()
	for i, other := range seats {
		state, ok := states[ids[i]]
		if !ok {
			continue
		}
		other.mu.Lock()
		changed := other.id == ids[i] && other.state != state
		if changed {
			other.state = state
			if state.Phase == allocation.Running {
				other.ran = state.Text
			}
		}
		other.mu.Unlock()
		if changed {
			other.host.changed()
		}
	}
	return nil
}

// release gives the allocation of a closed host back. The engine there has ended, or ends with it.
func (s *seat) release(ctx context.Context) {
	s.deciding.Lock()
	defer s.deciding.Unlock()
	s.mu.Lock()
	id, asked := s.id, s.asked
	s.id, s.asked, s.state = "", false, allocation.State{}
	s.mu.Unlock()
	if asked {
		s.giveBack(ctx, id)
	}
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.host.forgetEngine()
}

// giveBack gives an allocation back, also one that has ended.
func (s *seat) giveBack(ctx context.Context, id string) {
	if err := s.place.allocator.Release(ctx, id, s.host.name); err != nil {
		s.place.set.Log.Warn("an allocation may not have been given back", "place", s.place.Name, "allocation", id, "error", line(err.Error()))
	}
}

// words says where the allocation is, or why it waits.
func (s *seat) words() (where, queued string) {
	linked := s.host.connected() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state.Phase == allocation.Pending, s.state.Phase == allocation.Cut && !s.served:
		return "", s.state.Text
	case s.state.Phase == allocation.Cut && linked: // it was cut when another allocation was asked about
		return s.ran, ""
	case s.state.Phase == allocation.Running, s.state.Phase == allocation.Cut:
		return s.state.Text, ""
	case !s.asked:
		return "", ""
	case s.since.IsZero(): // and its scheduler was not asked about it yet
		return "", "an allocation of an earlier server"
	}
	return "", fmt.Sprintf("an allocation was asked for %s ago", time.Since(s.since).Round(time.Second))
}

// after gives the allocation back when a job has ended: at once if it was for that job alone, and if it was still
// waited for and nothing else needs it.
func (s *seat) after(session string) {
	h := s.host
	h.mu.Lock()
	known := h.engine.Start != ""
	h.mu.Unlock()
	if known && session != "" || !h.idle() {
		return
	}
	h.launch(func() { // the job does not wait for the scheduler
		if l := h.connected(); l != nil {
			ctx, cancel := context.WithTimeout(h.ctx, stopTime)
			defer cancel()
			l.client.End(ctx) // an error: releasing the allocation ends it, too
		}
		s.place.drop(h)
	})
}

// describe returns what is shown of the allocation, if there is one. state is that of its engine; nil: it has not
// answered.
func (s *seat) describe(state *far.State) (a overview.Allocation, ok bool) {
	where, queued := s.words()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked {
		return a, false
	}
	a.Where = cmp.Or(where, queued)
	if end := s.state.Deadline; !end.IsZero() {
		a.TimeLeft = time.Until(end)
	}
	if state != nil && state.Unused {
		a.Back = s.place.Idle - state.Since
	} else {
		a.Holds = s.heldBy(state)
	}
	return a, true
}

// heldBy says what keeps the allocation.
func (s *seat) heldBy(state *far.State) string {
	kind, name, _ := strings.Cut(strings.TrimPrefix(s.host.name, s.place.Name+"/"), "/") // see place.nameOf
	switch {
	case kind == "job":
		return "job " + name
	case state == nil, state.Jobs > 0:
		return "session " + line(name)
	}
	for _, p := range state.Python {
		if p.Variables > 0 {
			return fmt.Sprintf("%s of session %s", view.CountOf(int64(p.Variables), "variable"), line(p.Name))
		}
	}
	for _, p := range state.Python {
		if p.Made {
			return "session " + line(p.Name)
		}
	}
	if len(state.Names) > len(state.Python) {
		return "a shell session"
	}
	return "a process that a job has left"
}

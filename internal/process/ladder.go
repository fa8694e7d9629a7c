//go:build unix

package process

import (
	"slices"
	"syscall"
	"time"
)

// A Rung is one step of the ladder by which a process is ended.
type Rung string

// The rungs, from the lowest.
const (
	Interrupt Rung = "interrupt"
	Terminate Rung = "terminate"
	Kill      Rung = "kill"
)

var rungs = []Rung{Interrupt, Terminate, Kill}

// Ladder says how to climb.
type Ladder struct {
	Over      <-chan struct{}                // closed when what is to end has ended; nil: Handle.Done
	From      Rung                           // where to begin; empty: Interrupt
	Step      time.Duration                  // from one rung to the next; 0: 5 s
	Interrupt func() error                   // nil: Handle.Interrupt
	Raised    func() (Rung, <-chan struct{}) // the lowest rung that is wanted now, and what is closed when it is raised
	Report    func(Rung)                     // told of each rung before it is tried
	Keep      bool                           // leave the rest of the tree alone when it is over below Kill
}

const defaultStep = 5 * time.Second

// A Climbed is how a climb went.
type Climbed struct {
	Needed    []Rung    // by what was to end, from the lowest
	Rest      []Rung    // above those, by the rest of the tree once that was over
	Survivors []Process // what could not be ended
}

// Climb ends h: it is interrupted, after a step its tree is terminated, after another it is killed. It returns when
// nothing is left of the tree, or names what could not be ended, and says which rungs were needed. Once it is over, the
// rest of the tree is terminated, and killed after a second. The last rung takes two seconds at most.
func (h *Handle) Climb(l Ladder) (c Climbed) {
	if l.Over == nil {
		l.Over = h.done
	}
	if l.Step == 0 {
		l.Step = defaultStep
	}
	if l.Interrupt == nil {
		l.Interrupt = h.Interrupt
	}
	if l.Report == nil {
		l.Report = func(Rung) {}
	}
	if !l.Keep {
		kin.mu.Lock()
		h.climbed = true
		kin.mu.Unlock()
	}
	rung := slices.Index(rungs, l.From) // of none: -1, below the first
	for rung = max(rung, l.asked(), 0); !over(l.Over); rung = h.next(&l, rung) {
		c.Needed = append(c.Needed, rungs[rung])
		l.Report(rungs[rung])
		switch rungs[rung] {
		case Interrupt:
			l.Interrupt() // an error: it is over, or the next rung will tell
		case Terminate:
			terminate(h.look())
		case Kill:
			c.Survivors = h.kill()
			return c
		}
	}
	if !l.Keep {
		h.endRest(&c, rungs[rung], l.Report)
	}
	return c
}

// endRest ends what is left of the tree, beginning with the given rung, and not below terminate. What may still die of
// what it has been sent is given a moment to: it needs no higher rung then.
func (h *Handle) endRest(c *Climbed, from Rung, report func(Rung)) {
	if h.fades(c.Needed) {
		return
	}
	try := func(r Rung) {
		if !slices.Contains(c.Needed, r) {
			c.Rest = append(c.Rest, r)
			report(r)
		}
	}
	if from == Kill {
		try(Kill)
		c.Survivors = h.kill()
		return
	}
	c.Survivors = wind(h.look, restTime, try)
}

// fades waits, 50 ms at most, for those of the tree that may still die of those rungs or of the hangup that came with the
// leader's end, and tells whether nothing is left.
func (h *Handle) fades(tried []Rung) bool {
	dying := func(e entry) bool {
		switch {
		case h.undecided(e):
			return true
		case slices.Contains(tried, Terminate): // the whole tree was
			safe, _ := withstands(e.PID, syscall.SIGTERM)
			return !safe
		case slices.Contains(tried, Interrupt) && e.Group == h.self.PID: // its group was, as a rule
			safe, _ := withstands(e.PID, syscall.SIGINT)
			return !safe
		}
		return false
	}
	until := time.Now().Add(h.owner.settle)
	for p := pause(0); !empty(h.look); p.sleep() {
		if !slices.ContainsFunc(h.members(), dying) || time.Now().After(until) {
			return false
		}
	}
	return true
}

// asked is the rung that is wanted now, -1 if none.
func (l *Ladder) asked() int {
	if l.Raised == nil {
		return -1
	}
	r, _ := l.Raised()
	return slices.Index(rungs, r)
}

// next waits until it is over, or for the time of the next rung. Over is asked again by who calls.
func (h *Handle) next(l *Ladder, rung int) int {
	timer := time.NewTimer(l.Step)
	defer timer.Stop()
	var again reminder
	if rungs[rung] == Terminate {
		again.set()
	}
	for {
		var raised <-chan struct{}
		if l.Raised != nil {
			var r Rung
			r, raised = l.Raised()
			if i := slices.Index(rungs, r); i > rung {
				return i
			}
		}
		select {
		case <-l.Over:
			return rung
		case <-timer.C:
			return rung + 1
		case <-again.due:
			again.remind(h.look())
		case <-raised:
		}
	}
}

func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

//go:build unix

package proc

import (
	"slices"
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

// Climb ends h: it is interrupted, after a step its tree is terminated, after another it is killed. It returns when
// nothing is left of the tree, or names what could not be ended, and says which rungs were needed. Once it is over, the
// rest of the tree has a second. The last rung takes two seconds at most.
func (h *Handle) Climb(l Ladder) (needed []Rung, survivors []Process) {
	if l.Over == nil {
		l.Over = h.done
	}
	if l.Step == 0 {
		l.Step = defaultStep
	}
	if l.Interrupt == nil {
		l.Interrupt = h.Interrupt
	}
	if !l.Keep {
		kin.mu.Lock()
		h.climbed = true
		kin.mu.Unlock()
	}
	rung := slices.Index(rungs, l.From) // of none: -1, below the first
	for rung = max(rung, l.asked(), 0); !over(l.Over); rung = l.next(rung) {
		needed = append(needed, rungs[rung])
		if l.Report != nil {
			l.Report(rungs[rung])
		}
		switch rungs[rung] {
		case Interrupt:
			l.Interrupt() // an error: it is over, or the next rung will tell
		case Terminate:
			terminate(h.look())
		case Kill:
			return needed, h.kill()
		}
	}
	if l.Keep {
		return needed, nil
	}
	survivors = wind(h.look, restTime)
	return needed, survivors
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
func (l *Ladder) next(rung int) int {
	timer := time.NewTimer(l.Step)
	defer timer.Stop()
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

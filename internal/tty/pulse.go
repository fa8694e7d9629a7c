//go:build unix

package tty

import (
	"slices"
	"sync"
	"time"
)

// pulse asks the clocks of all watches that rest, of all jobs in one goroutine: a timer and a wake-up for each of 500
// idle jobs would cost six times what asking their clocks does. It runs while somebody rests.
type pulse struct {
	mu      sync.Mutex
	resting []*Watch
	beating bool
}

// beats is the one pulse of the process.
var beats pulse

// nowhere is the place of a Watch that does not rest.
const nowhere = -1

// join hands w's clocks to the pulse, which kicks w when one of them has moved, and asks first in due time.
func (p *pulse) join(w *Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.due, w.place = time.Now().Add(w.pace), len(p.resting)
	p.resting = append(p.resting, w)
	if !p.beating {
		p.beating = true
		go p.beat() // the process's; ends at the first beat that finds nobody resting
	}
}

// leave takes w's clocks back. It need not rest any more.
func (p *pulse) leave(w *Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.place != nowhere {
		p.remove(w)
	}
}

// remove puts the last one in w's place. The caller holds mu.
func (p *pulse) remove(w *Watch) {
	last := len(p.resting) - 1
	p.resting[w.place], p.resting[last].place = p.resting[last], w.place
	p.resting[last], w.place = nil, nowhere
	p.resting = p.resting[:last]
}

func (p *pulse) beat() {
	t := time.NewTicker(tickTime)
	defer t.Stop()
	for now := range t.C {
		if !p.ask(now) {
			return
		}
	}
}

// ask asks those whose time has come: at each beat those that rest for a tick only, however short they have rested, and
// to the nearest beat the others. It returns false, and the pulse has stopped, if nobody rests.
func (p *pulse) ask(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range slices.Backward(p.resting) { // so that a removal moves none that is still to be asked
		if w.pace > tickTime && w.due.Sub(now) > tickTime/2 {
			continue
		}
		if w.clocks.moved() || w.clocks.blind && now.Sub(w.rested) >= restTime {
			p.remove(w)
			w.Kick()
			continue
		}
		if w.pace > tickTime {
			w.due = now.Add(w.pace)
		}
	}
	p.beating = len(p.resting) > 0
	return p.beating
}

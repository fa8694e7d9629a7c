//go:build unix

package waiting

import (
	"slices"
	"sync"
	"time"
)

// A poller reads the clocks of all watchers that sleep, of all jobs, in one goroutine: a timer and
// a wake-up for each of 500 idle jobs would cost six times as much as reading their clocks. It runs
// while a watcher sleeps.
type poller struct {
	mu       sync.Mutex
	sleeping []*Watcher
	running  bool
}

// watchers is the one poller of the process.
var watchers poller

// awake is the place of a Watcher that does not sleep.
const awake = -1

// join adds w to the watchers that sleep. The poller wakes w when one of its clocks has moved; the
// first reading is due after w.pace.
func (p *poller) join(w *Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.due, w.place = time.Now().Add(w.pace), len(p.sleeping)
	p.sleeping = append(p.sleeping, w)
	if !p.running {
		p.running = true
		go p.run() // the process's; ends at the first tick that finds no watcher asleep
	}
}

// leave removes w from the poller, which may have removed it already.
func (p *poller) leave(w *Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.place != awake {
		p.remove(w)
	}
}

// remove puts the last watcher in w's place. The caller holds mu.
func (p *poller) remove(w *Watcher) {
	last := len(p.sleeping) - 1
	p.sleeping[w.place], p.sleeping[last].place = p.sleeping[last], w.place
	p.sleeping[last], w.place = nil, awake
	p.sleeping = p.sleeping[:last]
}

func (p *poller) run() {
	t := time.NewTicker(tickTime)
	defer t.Stop()
	for now := range t.C {
		if !p.poll(now) {
			return
		}
	}
}

// poll reads the clocks that are due: at each tick the clocks of a watcher that sleeps for one
// tick, however short it has slept, and at the nearest tick the others. It returns false, and the
// poller has stopped, if no watcher sleeps.
func (p *poller) poll(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Backward, so that a removal moves no watcher that is still to come.
	for _, w := range slices.Backward(p.sleeping) {
		if w.pace > tickTime && w.due.Sub(now) > tickTime/2 {
			continue
		}
		if w.clocks.Moved() || !w.clocks.Complete() && now.Sub(w.slept) >= restTime {
			p.remove(w)
			w.Kick()
			continue
		}
		if w.pace > tickTime {
			w.due = now.Add(w.pace)
		}
	}
	p.running = len(p.sleeping) > 0
	return p.running
}

//go:build unix

package process

import (
	"syscall"
	"time"
)

const (
	killLimit   = 2 * time.Second // then survivors are named
	restTime    = time.Second     // from terminate to kill where the leader has ended
	freezeLimit = 50 * time.Millisecond
	remindTime  = 100 * time.Millisecond // from terminate to the first reminder

	firstPause = 200 * time.Microsecond
	lastPause  = 10 * time.Millisecond
)

// A pause is the time between two looks: each one twice as long as the one before.
type pause time.Duration

func (p *pause) sleep() {
	if *p == 0 {
		*p = pause(firstPause)
	}
	time.Sleep(time.Duration(*p))
	*p = min(*p*2, pause(lastPause))
}

// look looks at the tree of h with the orphans that have come to us meanwhile.
func (h *Handle) look() []entry {
	kin.look()
	return h.members()
}

// A proof that nothing is left takes two looks in a row that find nothing and bury nothing: what a look buries may leave
// children that only the next one sees, and a list of children may leave some out if it changes while it is read.
type proof int

// next takes the next look, and tells whether the proof is complete.
func (p *proof) next(look func() []entry) (es []entry, gone bool) {
	before := kin.buried.Load()
	es = look()
	if len(es) > 0 || kin.buried.Load() != before {
		*p = 0
	} else {
		*p++
	}
	return es, *p == 2
}

// empty tells whether look finds nothing, proven.
func empty(look func() []entry) bool {
	for p := proof(0); ; {
		if es, gone := p.next(look); gone || len(es) > 0 {
			return gone
		}
	}
}

// terminate asks es to end. What is stopped is woken to hear it; what ignores SIGTERM, as an interactive shell does,
// is told that its terminal is gone.
func terminate(es []entry) {
	deaf := ignorers(es) // as they are before: a shell may execute another program when its child ends
	signalGroups(es, syscall.SIGTERM, syscall.SIGCONT)
	hangUp(deaf)
}

// ignorers are those of es who ignore SIGTERM.
func ignorers(es []entry) (deaf []entry) {
	for _, e := range es {
		if _, ignores := withstands(e.PID, syscall.SIGTERM); ignores {
			deaf = append(deaf, e)
		}
	}
	return deaf
}

// hangUp tells es that their terminal is gone.
func hangUp(es []entry) {
	for _, e := range es {
		SignalPID(e.Process, syscall.SIGHUP)
	}
}

// A reminder tells those who ignore SIGTERM again that their terminal is gone: what a shell was told in the moment in
// which it executes another program is forgotten. It is due remindTime after it was set, and each next time after twice
// as long.
type reminder struct {
	due <-chan time.Time // nil: never
	gap time.Duration
}

func (r *reminder) set() {
	r.gap = max(2*r.gap, remindTime)
	r.due = time.After(r.gap)
}

func (r *reminder) remind(es []entry) {
	hangUp(ignorers(es))
	r.set()
}

// kill ends what look finds, and returns when that is nothing, or names those who live on after killLimit. They are all
// stopped before the first of them dies: what has stopped forks no more, and its children are seen with their parent,
// which tells whose they are.
func kill(look func() []entry) (survivors []Process) {
	freeze(look, time.Now().Add(freezeLimit))
	return slay(look, time.Now().Add(killLimit))
}

// slay is kill without a freeze, until then.
func slay(look func() []entry, until time.Time) (survivors []Process) {
	var p pause
	for left := proof(0); ; {
		es, gone := left.next(look)
		if gone || time.Now().After(until) {
			return living(es)
		}
		if len(es) > 0 {
			signalGroups(es, syscall.SIGKILL)
			p.sleep()
		}
	}
}

// freeze stops what look finds until it finds nothing that runs, or until then.
func freeze(look func() []entry, until time.Time) {
	var p pause
	for time.Now().Before(until) {
		var running []entry
		for _, e := range look() {
			if !e.stopped() {
				running = append(running, e)
			}
		}
		if len(running) == 0 {
			return
		}
		signalGroups(running, syscall.SIGSTOP)
		p.sleep()
	}
}

// wind ends what look finds: it is asked to, and killed if it has not ended within grace. Each rung is reported before it
// is tried.
func wind(look func() []entry, grace time.Duration, report func(Rung)) (survivors []Process) {
	es := look()
	if len(es) == 0 {
		return nil
	}
	report(Terminate)
	terminate(es)
	begin := time.Now()
	var again reminder
	again.set()
	for p := pause(0); time.Since(begin) < grace; p.sleep() {
		if empty(look) {
			return nil
		}
		select {
		case <-again.due:
			again.remind(look())
		default:
		}
	}
	report(Kill)
	return kill(look)
}

// kill ends the whole tree of h.
func (h *Handle) kill() (survivors []Process) {
	h.slain.Store(true)
	survivors = kill(h.look)
	if len(survivors) == 0 {
		<-h.done // it has been reaped
	}
	return survivors
}

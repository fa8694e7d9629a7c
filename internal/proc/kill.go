//go:build unix

package proc

import (
	"syscall"
	"time"
)

const (
	killLimit   = 2 * time.Second // then survivors are named
	restTime    = time.Second     // from terminate to kill where the leader has ended
	freezeLimit = 50 * time.Millisecond

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

// empty tells whether look finds nothing. What a look buries may leave children that only the next one sees, and a
// list of children may leave some out if it changes while it is read: it takes two quiet looks to prove it.
func empty(look func() []entry) bool {
	for quiet := 0; quiet < 2; quiet++ {
		before := kin.buried.Load()
		if len(look()) > 0 {
			return false
		}
		if kin.buried.Load() != before {
			quiet = 0
		}
	}
	return true
}

// terminate asks es to end. What is stopped is woken to hear it; what ignores SIGTERM, as an interactive shell does,
// is told that its terminal is gone.
func terminate(es []entry) {
	signalGroups(es, syscall.SIGTERM, syscall.SIGCONT)
	for _, e := range es {
		if _, deaf := withstands(e.PID, syscall.SIGTERM); deaf {
			SignalPID(e.Process, syscall.SIGHUP)
		}
	}
}

// kill ends what look finds, and returns when that is nothing, or names those who live on at limit. They are all
// stopped before the first of them dies: what has stopped forks no more, and its children are seen with their parent,
// which tells whose they are.
func kill(look func() []entry, limit time.Duration) (survivors []Process) {
	until := time.Now().Add(limit)
	freeze(look, time.Now().Add(min(limit, freezeLimit)))
	var p pause
	for !empty(look) {
		es := look()
		signalGroups(es, syscall.SIGKILL)
		if time.Now().After(until) {
			return living(es)
		}
		p.sleep()
	}
	return nil
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

// wind ends what look finds: it is asked to, and killed if it has not ended within grace.
func wind(look func() []entry, grace time.Duration) (survivors []Process) {
	es := look()
	if len(es) == 0 {
		return nil
	}
	terminate(es)
	until := time.Now().Add(grace)
	for p := pause(0); time.Now().Before(until); p.sleep() {
		if empty(look) {
			return nil
		}
	}
	return kill(look, killLimit)
}

// kill ends the whole tree of h.
func (h *Handle) kill() (survivors []Process) {
	h.slain.Store(true)
	survivors = kill(h.look, killLimit)
	if len(survivors) == 0 {
		<-h.done // it has been reaped
	}
	return survivors
}

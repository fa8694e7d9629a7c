//go:build unix

package process

import (
	"fmt"
	"syscall"
	"time"

	"asyncrepl/internal/ladder"
	"asyncrepl/internal/procfs"
	"asyncrepl/internal/signals"
)

const (
	killLimit      = 2 * time.Second       // after that, kill returns the survivors
	checkLimit     = 2 * time.Second       // how long a failing scan is repeated
	remainingGrace = time.Second           // from terminate to kill for a tree whose leader has ended
	freezeLimit    = 50 * time.Millisecond // how long kill tries to stop all processes before it kills

	firstPause = 200 * time.Microsecond
	lastPause  = 10 * time.Millisecond
)

// A scanner returns the remaining processes, zombies included. If it returns an error, there can be
// others, so an empty result proves nothing.
type scanner func() ([]procfs.Stat, error)

// A pause is the time between two scans. Each one is twice as long as the one before.
type pause time.Duration

func (p *pause) sleep() {
	if *p == 0 {
		*p = pause(firstPause)
	}
	time.Sleep(time.Duration(*p))
	*p = min(*p*2, pause(lastPause))
}

// A proof counts the scans in a row that found nothing, reaped nothing and did not fail. Two of
// them prove that no process is left. One is not enough: an orphan that a scan reaps can have
// children that only the next scan sees, and a list of children that changes while it is read can
// lack some.
type proof int

// next makes the next scan and reports whether the proof is complete.
func (p *proof) next(scan scanner) (es []procfs.Stat, gone bool, err error) {
	before := reaper.reaped.Load()
	es, err = scan()
	if err != nil || len(es) > 0 || reaper.reaped.Load() != before {
		*p = 0
	} else {
		*p++
	}
	return es, *p == 2, err
}

// empty reports whether two scans in a row found nothing.
func empty(scan scanner) bool {
	for p := proof(0); ; {
		if es, gone, err := p.next(scan); gone || err != nil || len(es) > 0 {
			return gone
		}
	}
}

// repeat scans until a scan succeeds or finds something, or until checkLimit has passed.
func repeat(scan scanner) (es []procfs.Stat, err error) {
	until := time.Now().Add(checkLimit)
	for p := pause(0); ; p.sleep() {
		if es, err = scan(); err == nil || len(es) > 0 || time.Now().After(until) {
			return es, err
		}
	}
}

// kill stops and then kills every process that scan returns. It returns when none is left, or
// returns the survivors after killLimit. All are stopped before the first one dies: a stopped
// process can't fork, and while a parent lives a scan finds its children through it.
func kill(scan scanner) (survivors []procfs.Process, err error) {
	freeze(scan, time.Now().Add(freezeLimit))
	return killUntilGone(scan, time.Now().Add(killLimit))
}

// killUntilGone kills every process that scan returns, and scans again until none is left or until
// the given time. If the last scan fails, it returns the scan's error and no survivors.
func killUntilGone(scan scanner, until time.Time) (survivors []procfs.Process, err error) {
	var p pause
	for left := proof(0); ; {
		es, gone, err := left.next(scan)
		switch {
		case gone:
			return nil, nil
		case time.Now().After(until) && err != nil:
			return nil, unchecked(err)
		case time.Now().After(until):
			return living(es), nil
		case len(es) > 0 || err != nil:
			signals.SendGroups(es, syscall.SIGKILL)
			p.sleep()
		}
	}
}

// freeze stops the processes that scan returns, and scans again until none of them runs or until
// the given time.
func freeze(scan scanner, until time.Time) {
	var p pause
	for time.Now().Before(until) {
		es, err := scan()
		var running []procfs.Stat
		for _, e := range es {
			if !e.Stopped() {
				running = append(running, e)
			}
		}
		if len(running) == 0 && err == nil {
			return
		}
		signals.SendGroups(running, syscall.SIGSTOP)
		p.sleep()
	}
}

// terminateThenKill sends SIGTERM to every process that scan returns, and SIGKILL to those still
// alive after grace. It reports each rung before it tries it, and returns as kill does.
func terminateThenKill(scan scanner, grace time.Duration, report func(ladder.Rung)) (survivors []procfs.Process, err error) {
	es, err := repeat(scan)
	switch {
	case len(es) == 0 && err != nil:
		return nil, unchecked(err)
	case len(es) == 0:
		return nil, nil
	}
	report(ladder.Terminate)
	signals.Terminate(es)
	begin := time.Now()
	again := signals.NewReminder()
	for p := pause(0); time.Since(begin) < grace; p.sleep() {
		if empty(scan) {
			return nil, nil
		}
		select {
		case <-again.Due():
			es, _ := scan() // an error: the next reminder reaches the processes that it missed
			again.Remind(es)
		default:
		}
	}
	report(ladder.Kill)
	return kill(scan)
}

// kill ends the whole tree of h.
func (h *Handle) kill() (survivors []procfs.Process, err error) {
	h.killedByUs.Store(true)
	survivors, err = kill(h.scan)
	if len(survivors) == 0 && err == nil {
		<-h.done // it has been reaped
	}
	return survivors, err
}

// unchecked returns the error that says that whether a process survives is unknown.
func unchecked(err error) error {
	return fmt.Errorf("the remaining processes could not be checked: %w", err)
}

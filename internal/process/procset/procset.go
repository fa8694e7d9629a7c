//go:build unix

// Package procset ends a set of processes that only a scan can find, and proves that none is left.
//
// The members change while they are ended: they fork, exec, and leave children to others. So
// nothing here relies on one list. Every step scans again, and a set counts as empty only if two
// scans in a row have found nothing. All processes are stopped before the first one is killed,
// because a stopped process can't fork, and while a parent lives a scan finds its children.
//
// An error of a scan never means that a process is gone: the scan is repeated, for 2 s if need be.
// Then the result is an error, and no survivors are named.
//
// The package does not know which processes belong together; its user's scan says that. How signals
// reach them is in signals.go. Begin with [Set].
package procset

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
)

const (
	killLimit   = 2 * time.Second       // Kill returns the processes that survive so long
	freezeLimit = 50 * time.Millisecond // how long Kill tries to stop all processes before it kills

	// lateScans is how many scans KillUntil makes after its time: one that finds, one that reaps, two
	// that prove that none is left.
	lateScans = 4

	// dyingScans is how many scans KillUntil makes after its time if none of them fails and the last
	// one finds no living process. On a busy machine a killed process takes a while to be gone.
	dyingScans = 16

	firstPause = 200 * time.Microsecond
	lastPause  = 10 * time.Millisecond

	// CheckLimit is how long a failing scan is repeated: long enough for an error that passes, and
	// bounded so that a stop returns even if the processes can't be listed.
	CheckLimit = 2 * time.Second
)

// errRestless is the error of a set in which each scan still found signs of life, but no process.
var errRestless = errors.New("processes start and end faster than they can be listed")

// A Set is the processes that a scan finds.
type Set struct {
	// Scan returns the remaining processes, zombies included. If it returns an error, there can be
	// others, so an empty result proves nothing.
	Scan func() ([]procfs.Stat, error)

	// Reaped returns how many orphans the program has reaped so far. An orphan that a scan reaps
	// can have children that only the next scan sees.
	Reaped func() int64
}

// Sparing returns the set without the processes whose pid is in leaders. The other members of their
// groups become processes without a group, so that a signal to them does not reach the leaders.
func (s Set) Sparing(leaders map[int]bool) Set {
	scan := s.Scan
	s.Scan = func() ([]procfs.Stat, error) {
		all, err := scan()
		var es []procfs.Stat
		for _, e := range all {
			if leaders[e.PID] {
				continue
			}
			if leaders[e.Group] {
				e.Group = 0
			}
			es = append(es, e)
		}
		return es, err
	}
	return s
}

// A Pause is the time between two scans. Each one is twice as long as the one before.
type Pause time.Duration

// Sleep sleeps for the pause, and doubles it for the next time, up to 10 ms. The zero Pause begins
// with 200 µs.
func (p *Pause) Sleep() {
	if *p == 0 {
		*p = Pause(firstPause)
	}
	time.Sleep(time.Duration(*p))
	*p = min(*p*2, Pause(lastPause))
}

// A proof counts the scans in a row that found nothing, reaped nothing and did not fail. Two of
// them prove that no process is left. One is not enough: an orphan that a scan reaps can have
// children that only the next scan sees, and a list of children that changes while it is read can
// lack some.
type proof int

// next makes the next scan of s and reports whether the proof is complete.
func (p *proof) next(s Set) (es []procfs.Stat, gone bool, err error) {
	before := s.Reaped()
	es, err = s.Scan()
	if err != nil || len(es) > 0 || s.Reaped() != before {
		*p = 0
	} else {
		*p++
	}
	return es, *p == 2, err
}

// Empty reports whether two scans in a row found nothing.
func (s Set) Empty() bool {
	for p := proof(0); ; {
		if es, gone, err := p.next(s); gone || err != nil || len(es) > 0 {
			return gone
		}
	}
}

// repeat scans until a scan succeeds or finds something, or until CheckLimit has passed.
func (s Set) repeat() (es []procfs.Stat, err error) {
	until := time.Now().Add(CheckLimit)
	for p := Pause(0); ; p.Sleep() {
		if es, err = s.Scan(); err == nil || len(es) > 0 || time.Now().After(until) {
			return es, err
		}
	}
}

// Kill stops and then kills every process of the set. It returns when none is left, or returns the
// survivors after 2 s. If the last scan failed, it returns an error and no survivors.
func (s Set) Kill() (survivors []procfs.Process, err error) {
	s.freeze(time.Now().Add(freezeLimit))
	return s.KillUntil(time.Now().Add(killLimit))
}

// KillUntil kills every process of the set without stopping it first, and scans again until none is
// left or until the given time. It returns as Kill does. On a slow machine the first scan can last
// until that time, so a few more follow it: what they find is killed, too.
func (s Set) KillUntil(until time.Time) (survivors []procfs.Process, err error) {
	var p Pause
	left, late := proof(0), 0
	for {
		es, gone, err := left.next(s)
		if gone {
			return nil, nil
		}
		if time.Now().After(until) {
			late++
		}
		if survivors = Living(es); late > lateScans && err == nil && len(survivors) > 0 {
			return survivors, nil
		}
		if late > dyingScans || late > lateScans && err != nil {
			return nil, Unchecked(cmp.Or(err, errRestless))
		}
		SendGroups(es, syscall.SIGKILL)
		if len(es) > 0 || err != nil {
			p.Sleep()
		}
	}
}

// freeze stops the processes of the set, and scans again until none of them runs or until the given
// time.
func (s Set) freeze(until time.Time) {
	var p Pause
	for time.Now().Before(until) {
		es, err := s.Scan()
		var running []procfs.Stat
		for _, e := range es {
			if !e.Stopped() {
				running = append(running, e)
			}
		}
		if len(running) == 0 && err == nil {
			return
		}
		SendGroups(running, syscall.SIGSTOP)
		p.Sleep()
	}
}

// TerminateThenKill sends SIGTERM to every process of the set, and kills those still alive after
// grace. It calls report with each rung before it tries it, and with none if the set is empty. It
// returns as Kill does.
func (s Set) TerminateThenKill(grace time.Duration, report func(ladder.Rung)) (survivors []procfs.Process, err error) {
	es, err := s.repeat()
	switch {
	case len(es) == 0 && err != nil:
		return nil, Unchecked(err)
	case len(es) == 0:
		return nil, nil
	}
	report(ladder.Terminate)
	Terminate(es)
	begin := time.Now()
	again := NewReminder()
	for p := Pause(0); time.Since(begin) < grace; p.Sleep() {
		if s.Empty() {
			return nil, nil
		}
		select {
		case <-again.Due():
			es, _ := s.Scan() // an error: the next reminder reaches the processes that it missed
			again.Remind(es)
		default:
		}
	}
	report(ladder.Kill)
	return s.Kill()
}

// Living returns the processes among es that have not ended.
func Living(es []procfs.Stat) []procfs.Process {
	var ps []procfs.Process
	for _, e := range es {
		if !e.Ended() {
			ps = append(ps, e.Process)
		}
	}
	return ps
}

// Unchecked returns the error for processes that no scan could check: it says that whether one
// survives is unknown. It wraps err, the error of the scan.
func Unchecked(err error) error {
	return fmt.Errorf("the remaining processes could not be checked: %w", err)
}

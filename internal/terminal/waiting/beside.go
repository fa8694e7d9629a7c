//go:build unix

package waiting

import "time"

// A program that reads in one thread can work in another. Working threads rest once they have used no
// more than stirTime of a processor for stillTime: the threads of a runtime hand work to each other and
// are all parked at times, so that erl, which reads from its start on, seemed to wait before it had
// printed its prompt. The threads of node use a tenth of a millisecond for each line that it runs, which
// does not count. The watcher gives a working thread restTimeout to come to rest. After that the program
// waits only as long as it uses less than workShare of a processor in each evidenceTime. Another thread
// has printed if output comes more than lagTime after the reader began to read and after the last input.
// Earlier output can be the reader's own, or the echo.
const (
	stillTime   = 200 * time.Millisecond
	stirTime    = 2 * time.Millisecond
	restTimeout = 500 * time.Millisecond
	workShare   = 0.05
	lagTime     = 100 * time.Millisecond
)

// Why a program takes input and does not wait for it alone, in words that follow its name.
const (
	threadWorks  = "has a thread at work"
	threadPrints = "has a thread that prints"
)

// otherThreads records what the other threads of a program have done while one is blocked in a read.
type otherThreads struct {
	pid     int // pid and tid name the reader
	tid     int
	ran     bool      // the reader has run, and no scan has been judged since
	since   time.Time // the first scan that saw the reader read
	last    facts     // the facts at the last scan
	from    facts     // the facts at the scan from which the program's CPU time counts
	moved   time.Time // the last scan at which the others had used more than stirTime since window
	window  facts     // the facts at that scan, or at a later one
	working facts     // the facts since which every scan saw another thread at work; zero: the last did not
	also    string    // why it does not wait for input alone; empty: it does, as far as is known
}

// judge is history.judge for a program that nothing but input can wake, except its own threads. due is
// history.due.
func (b *otherThreads) judge(ev Evidence, v verdict, f facts, enough time.Duration) (_ Evidence, _ verdict, due time.Time) {
	if b.pid != ev.pid || b.tid != ev.tid {
		*b = otherThreads{pid: ev.pid, tid: ev.tid, ran: true}
	}
	stirs := (f.others - b.window.others).Abs() > stirTime
	if stirs {
		b.moved = f.now
	}
	if stirs || f.now.Sub(b.window.now) >= stillTime {
		b.window = f
	}
	if b.ran {
		*b = otherThreads{pid: ev.pid, tid: ev.tid, since: f.now, last: f, from: f, moved: b.moved, window: b.window, working: b.working}
	}
	worked := f.now
	if v != crowded {
		worked = b.moved
	}
	works := f.now.Sub(worked) < stillTime
	if !works {
		b.working = facts{}
	} else if b.working.now.IsZero() {
		b.working = f
	}
	long := worked.Sub(b.working.now)
	resting := works && long < restTimeout
	unsettled := !b.checkOutput(f, resting)
	b.checkTime(f, v == crowded && resting, enough)
	b.last = f
	switch {
	case b.also != "":
		ev.also = b.also
		return ev, accepts, due
	case resting || unsettled:
		return ev, uncertain, due
	case v == crowded:
		ev.also = threadWorks
		return ev, accepts, due
	case works && float64(f.others-b.working.others) > workShare*float64(long):
		ev.also = threadWorks
		return ev, accepts, b.moved.Add(stillTime)
	}
	return ev, v, due
}

// checkOutput finds out whether another thread prints. It returns false if that is not known yet:
// there was output just now, and it may be the reader's. Output before the program comes to rest does
// not count: it is what erl prints as it starts.
func (b *otherThreads) checkOutput(f facts, resting bool) (known bool) {
	since := b.since
	if f.typed.After(since) {
		since = f.typed
	}
	if f.printed.Sub(since) <= lagTime {
		return f.now.Sub(f.printed) >= settleTime
	}
	if !resting && f.printed.After(b.last.printed) && f.others != b.last.others {
		b.also = threadPrints
	}
	return true
}

// checkTime compares the CPU time that the others have used with the most that those of a waiting
// program use. Time before the program comes to rest does not count.
func (b *otherThreads) checkTime(f facts, resting bool, enough time.Duration) {
	long := f.now.Sub(b.from.now)
	if !resting && long < enough {
		return
	}
	if !resting && float64(f.others-b.from.others) > workShare*float64(long) {
		b.also = threadWorks
	}
	b.from = f
}

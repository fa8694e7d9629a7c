//go:build unix

package waiting

import "time"

// A program that reads in one thread can work in another. The watcher gives a working thread
// restTimeout to come to rest. After that the program waits only as long as it uses less than
// workShare of a processor in each evidenceTime. Another thread has printed if output comes
// more than lagTime after the reader began to read and after the last input. Earlier output can be
// the reader's own, or the echo.
const (
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
	working time.Time // every scan since then saw another thread at work; zero: the last did not
	also    string    // why it does not wait for input alone; empty: it does, as far as is known
}

// judge is history.judge for a program that nothing but input can wake, except its own threads.
func (b *otherThreads) judge(ev Evidence, v verdict, f facts, enough time.Duration) (Evidence, verdict) {
	if b.ran || b.pid != ev.pid || b.tid != ev.tid {
		*b = otherThreads{pid: ev.pid, tid: ev.tid, since: f.now, last: f, from: f}
	}
	unsettled := !b.checkOutput(f)
	if v == waits {
		b.working = time.Time{}
	} else if b.working.IsZero() {
		b.working = f.now
	}
	resting := v == crowded && f.now.Sub(b.working) < restTimeout
	b.checkTime(f, resting, enough)
	b.last = f
	switch {
	case b.also != "":
		ev.also = b.also
		return ev, accepts
	case resting || unsettled:
		return ev, uncertain
	case v == crowded:
		ev.also = threadWorks
		return ev, accepts
	}
	return ev, v
}

// checkOutput finds out whether another thread prints. It returns false if that is not known yet:
// there was output just now, and it may be the reader's.
func (b *otherThreads) checkOutput(f facts) (known bool) {
	since := b.since
	if f.typed.After(since) {
		since = f.typed
	}
	if f.printed.Sub(since) <= lagTime {
		return f.now.Sub(f.printed) >= settleTime
	}
	if f.printed.After(b.last.printed) && f.program != b.last.program {
		b.also = threadPrints
	}
	return true
}

// checkTime compares the CPU time that the program has used with the most that a waiting program
// uses. Time before the program comes to rest does not count.
func (b *otherThreads) checkTime(f facts, resting bool, enough time.Duration) {
	long := f.now.Sub(b.from.now)
	if !resting && long < enough {
		return
	}
	if !resting && float64(f.program-b.from.program) > workShare*float64(long) {
		b.also = threadWorks
	}
	b.from = f
}

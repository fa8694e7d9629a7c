//go:build unix

package waiting

import (
	"cmp"
	"time"
)

// hushTime is how long the terminal must be quiet, and a program must refuse inspection, before a
// wait is inferred from the terminal's mode. A program that is about to exit refuses it, too.
const hushTime = 300 * time.Millisecond

// lapseTime is how long a program is taken to wait for something else as well after the last scan
// that saw it. Its threads can be between two waits.
const lapseTime = 300 * time.Millisecond

// evidenceTime is how long a program must show that it does nothing but wait, if one scan can't show
// it. A program that asks again and again waits if its job prints nothing for that long and uses
// less than idleShare of a processor. Otherwise it works and only checks for a key meanwhile.
const (
	evidenceTime = time.Second
	idleShare    = 0.03
)

// facts are those about a job that a scan of its threads does not show.
type facts struct {
	now     time.Time
	printed time.Time     // the time of its newest output
	typed   time.Time     // the time of the newest input
	used    time.Duration // CPU time of all of its processes; its differences count
	all     bool          // they are all known

	// About the thread that was seen to read.
	ran    bool          // it has run since the last scan, as far as is known
	others time.Duration // CPU time of the other threads of its program
}

// A history decides what one scan can't, from the results of earlier scans.
type history struct {
	enough time.Duration // tests set a shorter time than evidenceTime, which zero stands for

	loop         Evidence     // names the program that was last seen to ask again and again
	asked        time.Time    // the last scan that saw loop ask
	idle         span         // begins when loop was first seen, and again when the job has worked
	hidden       Evidence     // names the program that was last seen to refuse inspection
	refused      time.Time    // the first scan that saw hidden refuse
	due          time.Time    // time alone can change the verdict then; zero: it can't
	otherThreads otherThreads // judges the other threads of the reader's program
	taker        Evidence     // the program that was last seen to wait for something else as well
	took         time.Time    // the last scan that saw taker do so
}

// answered returns the history after input was sent. It keeps what the reader's program does: the
// reader's clock shows whether it has run since.
func (h history) answered() history {
	h.otherThreads.working = facts{} // they have time to come to rest again
	return history{enough: h.enough, otherThreads: h.otherThreads}
}

// judge returns the verdict of the newest scan in the light of those before it.
func (h *history) judge(ev Evidence, v verdict, f facts) (Evidence, verdict) {
	h.due = time.Time{}
	h.enough = cmp.Or(h.enough, evidenceTime)
	h.otherThreads.ran = h.otherThreads.ran || f.ran
	if v == accepts {
		h.taker, h.took = ev, f.now
	}
	switch lapsed := f.now.Sub(h.took) >= lapseTime; {
	case !lapsed && (v == busy || ev.pid == h.taker.pid && (v == looping || v.alone())):
		return ev, uncertain
	case v == looping:
		return h.judgeLoop(ev, f)
	case v == refused:
		return h.judgeHidden(ev, f)
	case v == busy && f.now.Sub(h.asked) < h.enough: // it is between two questions
		return ev, uncertain
	case v != uncertain:
		h.loop, h.hidden = Evidence{}, Evidence{}
	}
	if v.alone() {
		ev, v, h.due = h.otherThreads.judge(ev, v, f, h.enough)
		return ev, v
	}
	if v != uncertain {
		h.otherThreads.working = facts{}
	}
	return ev, v
}

// judgeHidden is judge for a program that can't be inspected. Input begins a new history.
func (h *history) judgeHidden(ev Evidence, f facts) (Evidence, verdict) {
	if ev != h.hidden {
		h.hidden, h.refused = ev, f.now
	}
	quiet := h.refused
	if f.printed.After(quiet) {
		quiet = f.printed
	}
	if f.now.Sub(quiet) < hushTime {
		h.due = quiet.Add(hushTime)
		return ev, uncertain
	}
	return ev, waits
}

// judgeLoop is judge for a program that waits for input, but only briefly: it waits if its job does
// nothing else meanwhile.
func (h *history) judgeLoop(ev Evidence, f facts) (Evidence, verdict) {
	unseen := f.now.Sub(h.asked) > h.enough*3/4 // a busy machine can keep the server from reading
	if ev != h.loop || unseen && !h.idle.proved {
		h.loop, h.idle = ev, begin(f)
	}
	h.asked = f.now
	if f.all && h.idle.lasts(f, h.enough) {
		return ev, waits
	}
	h.due = h.idle.from.now.Add(h.enough)
	ev.also = "wakes by itself within a second"
	return ev, accepts
}

// A span is a time in which a job was idle.
type span struct {
	from   facts
	proved bool // it was long enough
}

func begin(f facts) span { return span{from: f} }

// lasts reports whether the job has been idle for enough time and until now. If it has not been idle,
// a new span begins. What is proved is checked again each time that enough time has passed.
func (s *span) lasts(f facts, enough time.Duration) bool {
	long := f.now.Sub(s.from.now)
	used := float64(f.used - s.from.used)
	switch {
	case f.printed.After(s.from.printed) || used > idleShare*float64(max(long, enough)):
		*s = begin(f)
	case long >= enough:
		*s = span{f, true}
	}
	return s.proved
}

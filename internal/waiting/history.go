//go:build unix

package waiting

import "time"

// How a program that asks again and again is distinguished from one that works and checks for a key
// meanwhile: for idleTime the job prints nothing, and uses less than idleShare of a processor.
const (
	idleTime  = time.Second
	idleShare = 0.03
)

// facts are those about a job that a scan of its threads does not show.
type facts struct {
	now     time.Time
	printed time.Time     // of its newest output
	used    time.Duration // CPU time of all of its processes; its differences count
	all     bool          // they are all known
}

// A history decides what one scan can't: it has what the scans since the last input have shown.
type history struct {
	loop    Evidence  // of the program that was last seen to ask again and again
	asked   time.Time // when
	idle    span      // of the job, since loop was first seen
	pending bool      // time alone can change the verdict
}

// judge returns the verdict of the newest scan in the light of those before it.
func (h *history) judge(ev Evidence, v verdict, f facts) (Evidence, verdict) {
	h.pending = false
	switch {
	case v == looping:
		return h.judgeLoop(ev, f)
	case v == busy && f.now.Sub(h.asked) < idleTime: // between two questions
		return ev, uncertain
	case v != uncertain:
		h.loop = Evidence{}
	}
	return ev, v
}

// judgeLoop is judge for a program that waits for input, but only briefly: it waits if its job does
// nothing else meanwhile.
func (h *history) judgeLoop(ev Evidence, f facts) (Evidence, verdict) {
	if ev != h.loop {
		h.loop, h.idle = ev, begin(f)
	}
	h.asked = f.now
	if f.all && h.idle.lasts(f) {
		return ev, waits
	}
	h.pending = true
	ev.also = "wakes by itself within a second"
	return ev, accepts
}

// A span is a time in which a job was idle.
type span struct {
	from   facts
	proved bool // it was longer than idleTime
}

func begin(f facts) span { return span{from: f} }

// lasts reports whether the job has been idle for idleTime and until now. If it has not been idle,
// a new span begins. What is proved is checked again for each further idleTime.
func (s *span) lasts(f facts) bool {
	long := f.now.Sub(s.from.now)
	used := float64(f.used - s.from.used)
	switch {
	case f.printed.After(s.from.printed) || used > idleShare*float64(max(long, idleTime)):
		*s = begin(f)
	case long >= idleTime:
		*s = span{f, true}
	}
	return s.proved
}

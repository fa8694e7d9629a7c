//go:build unix

package waiting

import (
	"cmp"
	"testing"
	"time"
)

// TestHistory passes the verdicts of scans to a history, at times in milliseconds.
func TestHistory(t *testing.T) {
	type scan struct {
		at      int
		v       verdict
		printed int // when the newest output came
		used    int // CPU time so far, in milliseconds
		want    verdict
		also    string
		ran     bool // the reader, since the scan before
		pid     int  // the reader has it; 0: 7
		tid     int  // the reader's thread; 0: 7
		typed   int  // when the newest input came, since the scan before; 0: none
		due     int  // when the other threads can have come to rest; 0: that changes nothing
	}
	for name, scans := range map[string][]scan{
		"waits":          {{at: 20, v: waits, want: waits}},
		"works":          {{at: 0, v: busy, want: busy}},
		"reads sometime": {{at: 0, v: accepts, want: accepts}, {at: 5000, v: accepts, want: accepts}},
		"asks again and again": {
			{at: 0, v: looping, want: accepts},
			{at: 500, v: looping, used: 20, want: accepts},
			{at: 999, v: looping, used: 29, want: accepts},
			{at: 1000, v: looping, used: 30, want: waits},
			{at: 1140, v: looping, used: 31, want: waits},
		},
		"asks and prints": {
			{at: 0, v: looping, want: accepts},
			{at: 500, v: looping, printed: 500, want: accepts},
			{at: 1000, v: looping, printed: 500, want: accepts},
			{at: 1500, v: looping, printed: 500, want: waits},
			{at: 1600, v: looping, printed: 1580, want: accepts},
		},
		"asks and computes": {
			{at: 0, v: looping, used: 700, want: accepts},
			{at: 500, v: looping, used: 731, want: accepts},
			{at: 1000, v: looping, used: 761, want: accepts},
			{at: 1400, v: looping, used: 761, want: accepts},
			{at: 1500, v: looping, used: 761, want: waits},
			{at: 2600, v: looping, used: 793, want: waits},
			{at: 2700, v: looping, used: 830, want: accepts},
		},
		"is scanned too seldom": {
			{at: 0, v: looping, want: accepts},
			{at: 1000, v: looping, want: accepts},
			{at: 1700, v: looping, want: accepts},
			{at: 2000, v: looping, want: waits},
			{at: 3000, v: looping, want: waits},
		},
		"is seen between two questions": {
			{at: 0, v: looping, want: accepts},
			{at: 140, v: busy, want: uncertain},
			{at: 280, v: uncertain, want: uncertain},
			{at: 600, v: looping, want: accepts},
			{at: 1000, v: looping, want: waits},
			{at: 1900, v: busy, want: uncertain},
			{at: 2000, v: busy, want: busy},
		},
		"waits for something else, too, except for moments": {
			{at: 0, v: accepts, want: accepts},
			{at: 140, v: busy, want: uncertain},
			{at: 160, v: waits, want: uncertain},
			{at: 180, v: looping, want: uncertain},
			{at: 200, v: crowded, want: uncertain},
			{at: 220, v: accepts, want: accepts},
			{at: 360, v: waits, tid: 8, want: uncertain},
			{at: 519, v: waits, want: uncertain},
			{at: 520, v: waits, want: waits},
		},
		"waits for something else, too, and is answered": {
			{at: 0, v: accepts, want: accepts},
			{at: 140, v: waits, typed: 130, want: waits},
		},
		"has waited for something else, too, and works": {
			{at: 0, v: accepts, want: accepts},
			{at: 280, v: busy, want: uncertain},
			{at: 300, v: busy, want: busy},
		},
		"reads beside a thread at work": {
			{at: 1000, v: crowded, ran: true, want: uncertain},
			{at: 1499, v: crowded, used: 499, want: uncertain},
			{at: 1500, v: crowded, used: 500, want: accepts, also: threadWorks},
			{at: 2600, v: waits, used: 1600, want: accepts, also: threadWorks},
			{at: 9000, v: waits, used: 1600, want: accepts, also: threadWorks},
			{at: 9200, v: waits, used: 1600, typed: 9150, want: accepts, also: threadWorks},
			{at: 9400, v: waits, used: 1600, ran: true, want: waits},
		},
		"reads beside a thread that comes to rest": {
			{at: 1000, v: crowded, ran: true, want: uncertain},
			{at: 1400, v: crowded, used: 400, want: uncertain},
			{at: 1450, v: waits, used: 420, want: uncertain},
			{at: 1649, v: waits, used: 420, want: uncertain},
			{at: 1650, v: waits, used: 420, want: waits},
			{at: 2500, v: waits, used: 440, want: uncertain},
			{at: 2600, v: crowded, used: 440, want: uncertain},
			{at: 2700, v: waits, used: 440, want: waits},
		},
		"reads beside a thread that works now and then": {
			{at: 1000, v: waits, ran: true, want: waits},
			{at: 2000, v: waits, used: 50, want: uncertain},
			{at: 2200, v: waits, used: 50, want: waits},
			{at: 3000, v: waits, used: 101, want: accepts, also: threadWorks},
		},
		"reads beside threads that hand work to each other": {
			{at: 1000, v: waits, used: 100, ran: true, want: uncertain},
			{at: 1100, v: waits, used: 120, want: uncertain},
			{at: 1200, v: waits, printed: 1190, used: 130, want: uncertain},
			{at: 1399, v: waits, printed: 1190, used: 130, want: uncertain},
			{at: 1400, v: waits, printed: 1190, used: 130, want: waits},
			{at: 1600, v: waits, printed: 1580, used: 130, typed: 1500, ran: true, want: waits},
		},
		"reads beside threads that hand work to each other for long": {
			{at: 1000, v: waits, used: 100, ran: true, want: uncertain},
			{at: 1100, v: waits, used: 150, ran: true, want: uncertain},
			{at: 1250, v: waits, used: 200, ran: true, want: uncertain},
			{at: 1400, v: waits, used: 250, want: uncertain},
			{at: 1500, v: waits, used: 300, ran: true, want: accepts, also: threadWorks, due: 1700},
			{at: 1600, v: waits, used: 300, want: accepts, also: threadWorks, due: 1700},
			{at: 1700, v: waits, used: 300, want: waits},
		},
		"reads beside threads that do next to nothing": {
			{at: 1000, v: waits, used: 2, ran: true, want: waits},
			{at: 1020, v: waits, used: 4, typed: 1005, ran: true, want: waits},
			{at: 1040, v: waits, used: 5, typed: 1025, ran: true, want: uncertain},
		},
		"reads in another program, which has one thread": {
			{at: 1000, v: waits, used: 100, ran: true, want: uncertain},
			{at: 1020, v: waits, pid: 8, ran: true, want: waits},
		},
		"has worked beside a read before": {
			{at: 1000, v: waits, used: 9, ran: true, want: uncertain},
			{at: 5000, v: busy, want: busy},
			{at: 9000, v: waits, used: 12, ran: true, want: uncertain},
			{at: 9200, v: waits, used: 12, want: waits},
		},
		"reads beside a thread that never rests and does little": {
			{at: 1000, v: waits, used: 100, ran: true, want: uncertain},
			{at: 1250, v: waits, used: 103, want: uncertain},
			{at: 1499, v: waits, used: 106, want: uncertain},
			{at: 1500, v: waits, used: 109, want: waits},
			{at: 1600, v: waits, used: 112, want: waits},
			{at: 1700, v: waits, used: 115, typed: 1650, ran: true, want: uncertain},
			{at: 1900, v: waits, used: 118, want: uncertain},
			{at: 2200, v: waits, used: 121, want: waits},
		},
		"reads beside a thread that prints": {
			{at: 1000, v: waits, ran: true, want: waits},
			{at: 2000, v: waits, printed: 1950, used: 1, want: accepts, also: threadPrints},
			{at: 9000, v: waits, printed: 1950, used: 2, want: accepts, also: threadPrints},
			{at: 9500, v: waits, printed: 9450, used: 3, ran: true, want: waits},
		},
		"reads beside a thread that prints all the time": {
			{at: 1000, v: waits, printed: 995, ran: true, want: uncertain},
			{at: 1040, v: waits, printed: 1035, used: 1, want: uncertain},
			{at: 1120, v: waits, printed: 1115, used: 2, want: accepts, also: threadPrints},
		},
		"reads beside another process that prints all the time": {
			{at: 1000, v: waits, printed: 995, ran: true, want: uncertain},
			{at: 1120, v: waits, printed: 1115, want: waits},
		},
		"reads, and what it has printed arrives late": {
			{at: 1000, v: waits, ran: true, want: waits},
			{at: 1130, v: waits, printed: 1100, used: 1, want: waits},
		},
		"prints and reads while something else can wake it": {
			{at: 1000, v: waits, ran: true, want: waits},
			{at: 2000, v: accepts, printed: 1950, used: 1, ran: true, want: accepts},
			{at: 2500, v: waits, printed: 1950, used: 2, want: waits},
		},
		"reads in another thread": {
			{at: 1000, v: waits, ran: true, want: waits},
			{at: 2000, v: waits, printed: 1950, used: 1, want: accepts, also: threadPrints},
			{at: 2100, v: waits, printed: 1950, used: 2, tid: 8, want: waits},
		},
		"is sent a part of a line": {
			{at: 1000, v: waits, ran: true, want: waits},
			{at: 2000, v: waits, printed: 1950, used: 1, typed: 1940, want: waits},
			{at: 2200, v: waits, printed: 2150, used: 2, want: accepts, also: threadPrints},
		},
		"can't be inspected": {
			{at: 1020, v: refused, printed: 1000, want: uncertain},
			{at: 1319, v: refused, printed: 1000, want: uncertain},
			{at: 1320, v: refused, printed: 1000, want: waits},
			{at: 1400, v: refused, printed: 1390, want: uncertain},
			{at: 1700, v: refused, printed: 1390, want: waits},
			{at: 2000, v: refused, printed: 1390, typed: 1990, want: uncertain},
			{at: 2299, v: refused, printed: 1390, want: uncertain},
			{at: 2300, v: refused, printed: 1390, want: waits},
		},
		"can't be inspected for a moment": {
			{at: 1000, v: refused, want: uncertain},
			{at: 1020, v: busy, want: busy},
			{at: 1400, v: refused, want: uncertain},
		},
		"waits for something else meanwhile": {
			{at: 0, v: looping, want: accepts},
			{at: 500, v: accepts, want: accepts},
			{at: 1000, v: looping, want: accepts},
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			after := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
			var h history
			var typed time.Time
			for _, s := range scans {
				used := time.Duration(s.used) * time.Millisecond
				if s.typed != 0 {
					typed = after(s.typed)
					h = h.answered()
				}
				f := facts{now: after(s.at), printed: after(s.printed), typed: typed, used: used, all: true, ran: s.ran, others: used}
				ev, v := h.judge(Evidence{Kind: kindKey, pid: cmp.Or(s.pid, 7), tid: cmp.Or(s.tid, 7)}, s.v, f)
				if v != s.want || v == waits && ev.pid != cmp.Or(s.pid, 7) {
					t.Errorf("%d ms: got %+v, verdict %d, want %d", s.at, ev, v, s.want)
				}
				if want := s.also; ev.also != want && v != uncertain && s.v != looping {
					t.Errorf("%d ms: it also %q, want %q", s.at, ev.also, want)
				}
				if again := "wakes by itself within a second"; s.v == looping && (v == accepts) != (ev.also == again) {
					t.Errorf("%d ms: it also %q", s.at, ev.also)
				}
				want := s.v == looping && s.want == accepts || s.v == refused && s.want == uncertain || s.due != 0
				if s.due != 0 && !h.due.Equal(after(s.due)) {
					t.Errorf("%d ms: the other threads can rest at %v, want %d ms", s.at, h.due.Sub(begin), s.due)
				}
				if can := h.due.After(f.now); can != want || !can && !h.due.IsZero() {
					t.Errorf("%d ms: time can change it at %v, want %t", s.at, h.due.Sub(begin), want)
				}
			}
		})
	}
}

// What a tree of unknown processes does is unknown.
func TestLoopInAnUnknownTreeTakesInput(t *testing.T) {
	var h history
	for now := time.Now(); h.asked.Before(now.Add(5 * time.Second)); {
		f := facts{now: h.asked.Add(time.Second)}
		if h.asked.IsZero() {
			f.now = now
		}
		if ev, v := h.judge(Evidence{Kind: kindKey, pid: 7, tid: 7}, looping, f); v != accepts {
			t.Fatalf("got %+v, verdict %d, want %d", ev, v, accepts)
		}
	}
}

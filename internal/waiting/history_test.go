//go:build unix

package waiting

import (
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
	}
	for name, scans := range map[string][]scan{
		"waits":          {{at: 0, v: waits, want: waits}},
		"works":          {{at: 0, v: busy, want: busy}},
		"reads sometime": {{at: 0, v: accepts, want: accepts}, {at: 5000, v: accepts, want: accepts}},
		"asks again and again": {
			{at: 0, v: looping, want: accepts},
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
			{at: 1400, v: looping, used: 761, want: accepts},
			{at: 1500, v: looping, used: 761, want: waits},
			{at: 2600, v: looping, used: 793, want: waits},
			{at: 2700, v: looping, used: 830, want: accepts},
		},
		"is seen between two questions": {
			{at: 0, v: looping, want: accepts},
			{at: 140, v: busy, want: uncertain},
			{at: 280, v: uncertain, want: uncertain},
			{at: 1000, v: looping, want: waits},
			{at: 1900, v: busy, want: uncertain},
			{at: 2000, v: busy, want: busy},
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
			for _, s := range scans {
				f := facts{after(s.at), after(s.printed), time.Duration(s.used) * time.Millisecond, true}
				ev, v := h.judge(Evidence{Kind: kindKey, pid: 7, tid: 7}, s.v, f)
				if v != s.want || v == waits && ev.pid != 7 {
					t.Errorf("%d ms: got %+v, verdict %d, want %d", s.at, ev, v, s.want)
				}
				if again := "wakes by itself within a second"; s.v == looping && (v == accepts) != (ev.also == again) {
					t.Errorf("%d ms: it also %s", s.at, ev.also)
				}
				if want := s.v == looping && s.want == accepts; h.pending != want {
					t.Errorf("%d ms: time can change it: %t, want %t", s.at, h.pending, want)
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

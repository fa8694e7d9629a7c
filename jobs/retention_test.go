package jobs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
)

// keeps checks the titles of the jobs that are kept.
func (s stage) keeps(when, want string) {
	s.t.Helper()
	if got := titles(s.List(Filter{})); got != want {
		s.t.Errorf("%s: kept %q, want %q", when, got, want)
	}
}

// forgotten reports whether the registry says that it has forgotten a job.
func forgotten(s stage, id string) bool {
	_, err := s.Get(id)
	var e *NotFoundError
	return errors.As(err, &e) && e.Forgotten
}

// done returns a job that has ended, after the registry has forgotten those that its end makes it
// forget.
func done(s stage, title string) puppet {
	p := s.begin(Spec{Title: title})
	p.end(Receipt{End: Returned})
	synctest.Wait()
	return p
}

// noCleanup is the cleanup of a job whose processes can't be ended.
func noCleanup(context.Context, Stop) Remains { return Remains{} }

func TestJobsBeyondANumberAreForgotten(t *testing.T) {
	bubble(t, Config{Keep: 2}, func(t *testing.T, s stage) {
		runs := s.begin(Spec{Title: "runs"})
		a := done(s, "a")
		a.port.Write(output.Stdout, []byte("x"))
		done(s, "b")
		done(s, "c")
		s.keeps("beyond the number", "c b runs")
		if !forgotten(s, a.ID()) || forgotten(s, runs.ID()) {
			t.Error("it is not said which id was forgotten")
		}
		a.port.Write(output.Stdout, []byte("y")) // by a process that it left
	})
}

func TestJobsThatEndedFirstAreForgottenFirst(t *testing.T) {
	bubble(t, Config{Keep: 2}, func(t *testing.T, s stage) {
		a := s.begin(Spec{Title: "a"})
		a.port.SetCleanup(noCleanup)
		a.end(Receipt{End: Exited})
		pass(time.Second)
		for _, title := range []string{"b", "c"} {
			done(s, title)
			pass(time.Second)
		}
		s.keeps("with processes left", "c b a")
		a.port.SetCleanup(nil)
		done(s, "d")
		s.keeps("the two that ended last", "d c")
	})
}

func TestOldJobsAreForgotten(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		const day = 24 * time.Hour
		a := done(s, "a")
		pass(day)
		done(s, "b")
		pass(6*day - time.Second)
		s.keeps("a second before the first is 7 days old", "b a")
		pass(time.Second)
		synctest.Wait()
		s.keeps("after 7 days", "b")
		if !forgotten(s, a.ID()) {
			t.Error("it is not said that the id was forgotten")
		}
		pass(day)
		synctest.Wait()
		s.keeps("after 8 days", "")
	})
}

func TestJobsWithProcessesLeftAreKept(t *testing.T) {
	bubble(t, Config{Keep: 1, MaxAge: time.Hour}, func(t *testing.T, s stage) {
		a := s.begin(Spec{Title: "a"})
		a.port.SetCleanup(noCleanup)
		a.end(Receipt{End: Exited})
		done(s, "b")
		s.keeps("with processes left", "b a")
		pass(2 * time.Hour)
		synctest.Wait()
		s.keeps("too old, with processes left", "a")
		a.port.SetCleanup(nil)
		done(s, "c")
		s.keeps("when nothing is left", "c")
	})
}

func TestCleanupEndsWhatTheJobLeft(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		var asked Stop
		p.port.SetCleanup(func(_ context.Context, st Stop) Remains {
			asked = st
			return Remains{Ended: []Process{{812, "npm"}}, Survivors: []Process{{813, "sleep"}}}
		})
		if _, any := p.Cleanup(t.Context(), Stop{By: Agent}); any {
			t.Error("cleanup of a job that has not ended")
		}
		p.end(Receipt{End: Exited, Left: []Process{{812, "npm"}}})
		r, any := p.Cleanup(t.Context(), Stop{By: Agent})
		if !any || len(r.Ended) != 1 || len(r.Survivors) != 1 || asked.From != Interrupt || asked.Step != defaultStep {
			t.Errorf("got %+v, %t; asked %+v", r, any, asked)
		}
		before := p.Record().Receipt
		changed := p.Changed()
		p.port.AmendReceipt(func(r *Receipt) { r.Left[0].Program = "gone"; r.Notes = append(r.Notes, "ended later") })
		p.port.SetCleanup(nil)
		<-changed
		if _, any := p.Cleanup(t.Context(), Stop{}); any {
			t.Error("cleanup when nothing is left")
		}
		if d := cmp.Diff([]Process{{812, "npm"}}, before.Left); d != "" {
			t.Errorf("a snapshot changed: %s", d)
		}
		if r := p.Record().Receipt; r.Left[0].Program != "gone" || len(r.Notes) != 1 {
			t.Errorf("amended: %+v", r)
		}
		if got := before.Left[0].String(); got != "npm (pid 812)" {
			t.Errorf("got %q", got)
		}
	})
}

// failing is a store that can write nothing.
type failing struct{ noStore }

func (failing) Begin(Record) error  { return errors.New("no space") }
func (failing) End(Saved) error     { return errors.New("no space") }
func (failing) Forget(string) error { return errors.New("no space") }

func TestStoreErrorsAreLogged(t *testing.T) {
	var log bytes.Buffer
	c := Config{Store: failing{}, Keep: 1, Log: slog.New(slog.NewTextHandler(&log, nil))}
	bubble(t, c, func(t *testing.T, s stage) {
		for range 2 {
			if i := s.begin(Spec{}).end(Receipt{End: Returned}); i.Status != Completed {
				t.Errorf("got %s", i.Status)
			}
		}
		synctest.Wait() // for the registry to forget one: nothing is forgotten once it closes
	})
	for line, want := range map[string]int{"saving job": 4, "forgetting job": 1} {
		if got := strings.Count(log.String(), line); got != want {
			t.Errorf("%q stands %d times in the log, want %d:\n%s", line, got, want, &log)
		}
	}
}

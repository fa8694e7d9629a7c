package jobs

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestTimeoutCountsRunningOnly(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.queue(Spec{Timeout: 30 * time.Second})
		pass(time.Hour)
		p.port.Begin()
		pass(20 * time.Second)
		p.port.SetWaiting(Question{Kind: "line"})
		p.atLimit() // fired just before the question came
		pass(time.Hour)
		p.port.SetRunning()
		p.atLimit() // fired for a time that was not over
		if st := p.port.Stop(); st != nil {
			t.Fatalf("stopped after 20 s of running: %+v", st)
		}
		back := time.Now()
		<-p.ctx.Done()
		if d := time.Since(back); d != 10*time.Second {
			t.Errorf("ran another %v, want 10s", d)
		}
		st := p.port.Stop()
		if want := (Stop{By: Limit, From: Interrupt, Step: defaultStep}); *st != want || context.Cause(p.ctx) != st {
			t.Errorf("got %+v, cause %v", st, context.Cause(p.ctx))
		}
		i := p.end(Receipt{End: Raised, Detail: "KeyboardInterrupt", Stop: st, Rungs: []Rung{Interrupt}, State: Kept})
		if got, want := i.Receipt.Text(), "failed (timed out after 30s; variables kept)"; got != want || i.Status != Failed {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// The client's own timeout spares variables; the operator's does not.
func TestTimeoutSparesAsItsSpecSays(t *testing.T) {
	for _, spare := range []bool{false, true} {
		bubble(t, Config{}, func(t *testing.T, s stage) {
			p := s.begin(Spec{Timeout: 30 * time.Second, Spare: spare})
			<-p.ctx.Done()
			if st := p.port.Stop(); st.By != Limit || st.Spare != spare {
				t.Errorf("got %+v", st)
			}
			p.end(Receipt{End: Returned})
		})
	}
}

func TestNoTimeoutAfterTheEnd(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{Timeout: 30 * time.Second})
		p.end(Receipt{End: Returned})
		pass(time.Hour)
		if st := p.port.Stop(); st != nil {
			t.Errorf("stopped: %+v", st)
		}
	})
}

func TestStopsOnlyRaise(t *testing.T) {
	type stops []Stop
	for name, tc := range map[string]struct {
		asked  stops
		want   Stop
		raises int // how often the runner's channel is closed
	}{
		"plain":                    {stops{{By: Agent}}, Stop{By: Agent, From: Interrupt, Step: defaultStep}, 1},
		"with its own step":        {stops{{By: Agent, From: Terminate, Step: time.Second, Reason: "delete_session"}}, Stop{By: Agent, From: Terminate, Step: time.Second, Reason: "delete_session"}, 1},
		"again":                    {stops{{By: Agent}, {By: Shutdown}}, Stop{By: Agent, From: Interrupt, Step: defaultStep}, 1},
		"raised":                   {stops{{By: Limit}, {By: Agent, From: Kill}}, Stop{By: Limit, From: Kill, Step: defaultStep}, 2},
		"raised and made faster":   {stops{{By: Agent}, {By: Shutdown, From: Terminate, Step: time.Second}}, Stop{By: Agent, From: Terminate, Step: time.Second}, 2},
		"raised, and never slower": {stops{{By: Agent, Step: time.Second}, {By: Agent, From: Kill}}, Stop{By: Agent, From: Kill, Step: time.Second}, 2},
		"sparing":                  {stops{{By: Agent, Spare: true}, {By: Limit, Spare: true}}, Stop{By: Agent, From: Interrupt, Step: defaultStep, Spare: true}, 1},
		"sparing, and again":       {stops{{By: Agent, Spare: true}, {By: Agent, Spare: true}}, Stop{By: Agent, From: Interrupt, Step: defaultStep, Spare: true, again: 1}, 2},
		"no longer sparing":        {stops{{By: Agent, Spare: true}, {By: Limit}}, Stop{By: Limit, From: Interrupt, Step: defaultStep}, 2},
		"sparing after all":        {stops{{By: Limit}, {By: Agent, Spare: true}}, Stop{By: Limit, From: Interrupt, Step: defaultStep}, 1},
		"never lowered":            {stops{{By: Agent, From: Kill}, {By: Agent, From: Terminate}}, Stop{By: Agent, From: Kill, Step: defaultStep}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s stage) {
				p := s.begin(Spec{})
				raises := 0
				if r, _ := p.port.Wanted(); r != "" {
					t.Errorf("before a stop, %q is wanted", r)
				}
				for _, st := range tc.asked {
					_, raised := p.port.Wanted()
					p.Stop(st)
					select {
					case <-raised:
						raises++
					default:
					}
				}
				if r, _ := p.port.Wanted(); r != tc.want.From {
					t.Errorf("%q is wanted", r)
				}
				got := p.port.Stop()
				if *got != tc.want || raises != tc.raises {
					t.Errorf("got %+v, raised %d times; want %+v, %d", *got, raises, tc.want, tc.raises)
				}
				var cause *Stop
				if !errors.As(context.Cause(p.ctx), &cause) || cause.By != tc.asked[0].By {
					t.Errorf("cause: %v", context.Cause(p.ctx))
				}
				if i := p.Record(); i.Status != Running || i.Cancelling != cause.From {
					t.Errorf("while it is being ended: %s, cancelling %q", i.Status, i.Cancelling)
				}
				p.port.Trying(Kill)
				if i := p.Record(); i.Cancelling != Kill {
					t.Errorf("after the climb: cancelling %q", i.Cancelling)
				}
				i := p.end(Receipt{End: Signaled, Signal: "SIGKILL", Stop: got, Rungs: []Rung{Kill}})
				if i.Status != got.status() || i.Cancelling != "" {
					t.Errorf("ended as %s, cancelling %q", i.Status, i.Cancelling)
				}
			})
		})
	}
}

func (s *Stop) status() Status { return Receipt{Stop: s}.Status() }

// The truth wins: the job finished although it was stopped.
func TestFinishedBeatsCancelled(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		p.Stop(Stop{By: Agent})
		if i := p.end(Receipt{End: Returned, State: Kept}); i.Receipt.Text() != "completed" {
			t.Errorf("got %q", i.Receipt.Text())
		}
	})
}

// A job that is stopped in the queue still runs its runner, with a context that is done.
func TestStoppedInTheQueueStillRunsTheRunner(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.queue(Spec{})
		p.Stop(Stop{By: Agent})
		st := p.port.Stop()
		if p.ctx.Err() == nil {
			t.Error("context is not done")
		}
		if i := p.end(Receipt{End: NotRun, Stop: st}); i.Receipt.Text() != "cancelled (before it ran)" || !i.Started.IsZero() {
			t.Errorf("got %q, started %v", i.Receipt.Text(), i.Started)
		}
	})
}

package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/output"
)

// answer takes input as an answer to the open question.
func answer(p *Port) InputFunc {
	return func(context.Context, Input) (Delivery, error) {
		p.SetRunning()
		return Delivery{Waiting: true}, nil
	}
}

func TestSendReturnsWhatTheRunnerDoes(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.queue(Spec{})
		if _, err := p.Send(t.Context(), Input{Text: "x"}); err != ErrNotReading {
			t.Errorf("to a job that takes nothing: %v", err)
		}
		p.port.Begin()
		var got Input
		full := errors.New("terminal is full")
		p.port.SetInput(func(_ context.Context, in Input) (Delivery, error) {
			got = in
			return Delivery{Note: "buffered in the terminal"}, full
		})
		in := Input{Text: "hunter2", Line: true, Secret: true, EOF: true}
		if d, err := p.Send(t.Context(), in); err != full || d.Note != "buffered in the terminal" || got != in {
			t.Errorf("got %+v, %v; runner got %+v", d, err, got)
		}
		p.port.SetInput(nil)
		if _, err := p.Send(t.Context(), in); err != ErrNotReading {
			t.Errorf("to a job that takes nothing any more: %v", err)
		}
		p.end(Receipt{End: Returned})
		if _, err := p.Send(t.Context(), in); err != ErrEnded {
			t.Errorf("to a job that has ended: %v", err)
		}
	})
}

func TestAnsweredQuestionIsGoneAfterSend(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		p.port.SetInput(answer(p.port))
		for _, prompt := range []string{"one", "two"} {
			go func() { pass(time.Minute); p.port.SetWaiting(Question{Prompt: prompt}) }() // ends with the question
			if err := p.Await(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i := p.Info(); i.Question == nil || i.Question.Prompt != prompt {
				t.Fatalf("got %+v, want the question %q", i.Question, prompt)
			}
			if _, err := p.Send(t.Context(), Input{Text: "y"}); err != nil {
				t.Fatal(err)
			}
			if i := p.Info(); i.Question != nil {
				t.Fatalf("question %q is still open", i.Question.Prompt)
			}
		}
	})
}

// Deliveries are made one at a time. A caller that waits for its turn stops when its context is
// done or the job ends.
func TestSendOneAtATime(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		inside, most := 0, 0
		slow := func(ctx context.Context, in Input) (Delivery, error) {
			inside++
			most = max(most, inside)
			select {
			case <-time.After(time.Minute):
			case <-p.Done():
			}
			inside--
			return Delivery{}, nil
		}
		p.port.SetInput(slow)
		results := make(chan error)
		send := func(ctx context.Context) { // ends with the delivery, which is read below
			_, err := p.Send(ctx, Input{})
			results <- err
		}
		go send(t.Context())
		synctest.Wait()
		late := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
		defer cancel()
		go send(ctx)
		if err := <-results; err != late {
			t.Errorf("stopped waiting with %v", err)
		}
		go send(t.Context())
		if err := <-results; err != nil {
			t.Errorf("first: %v", err)
		}
		synctest.Wait()
		go send(t.Context())
		synctest.Wait()
		p.end(Receipt{End: Returned})
		for range 2 { // the one inside, and the one that waits for its turn
			if err := <-results; err != nil && err != ErrEnded {
				t.Error(err)
			}
		}
		if most != 1 {
			t.Errorf("%d deliveries at a time", most)
		}
	})
}

// News of an earlier generation than the present one is dropped.
func TestNewsOfAnOldGenerationIsDropped(t *testing.T) {
	q := Question{Kind: "line", Prompt: "seen"}
	for name, tc := range map[string]struct {
		meanwhile func(p puppet)
		taken     bool
		status    Status
	}{
		"nothing happened":    {func(puppet) {}, true, WaitingInput},
		"output came":         {func(p puppet) { p.port.Write(output.TTY, []byte("x")) }, true, WaitingInput},
		"rungs, pids":         {func(p puppet) { p.port.Trying(Interrupt); p.port.SetPID(1) }, true, WaitingInput},
		"same question asked": {func(p puppet) { p.port.SetWaiting(q) }, false, WaitingInput},
		"asked and answered":  {func(p puppet) { p.port.SetWaiting(q); p.port.SetRunning() }, false, Running},
		"input typed ahead":   {func(p puppet) { p.Send(context.Background(), Input{Text: "y\n"}) }, false, Running},
		"input refused":       {func(p puppet) { p.Send(context.Background(), Input{Text: "no"}) }, true, WaitingInput},
		"ended":               {func(p puppet) { p.end(Receipt{End: Exited}) }, false, Completed},
		"runs, as it did":     {func(p puppet) { p.port.SetRunning() }, true, WaitingInput},
		"said a second time":  {func(p puppet) { p.port.SetWaitingAsOf(p.port.Generation(), q); p.port.SetWaiting(q) }, false, WaitingInput},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s stage) {
				p := s.begin(Spec{})
				p.port.SetInput(func(_ context.Context, in Input) (Delivery, error) {
					if in.Text == "no" {
						return Delivery{}, ErrNotReading
					}
					return Delivery{}, nil
				})
				seen := p.port.Generation()
				tc.meanwhile(p)
				if taken := p.port.SetWaitingAsOf(seen, q); taken != tc.taken {
					t.Errorf("taken: %t", taken)
				}
				if got := p.Info().Status; got != tc.status {
					t.Errorf("got %s, want %s", got, tc.status)
				}
				if !p.Info().Status.Final() {
					p.end(Receipt{End: Exited})
				}
			})
		})
	}
}

func TestSameQuestionAgainIsNoChange(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		q := Question{Kind: "line", Prompt: "one"}
		p.port.SetWaiting(q)
		for _, tc := range []struct {
			q       Question
			changes bool
		}{{q, false}, {Question{Kind: "secret", Prompt: "one"}, true}, {q, true}} {
			changed := p.Changed()
			p.port.SetWaiting(tc.q)
			seen := false
			select {
			case <-changed:
				seen = true
			default:
			}
			if i := p.Info(); seen != tc.changes || *i.Question != tc.q {
				t.Errorf("asked %+v: changed %t, shows %+v", tc.q, seen, *i.Question)
			}
		}
	})
}

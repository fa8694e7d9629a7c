package jobs

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
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
		late, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 {
			if _, err := p.Send(late, Input{Text: "x"}); err != ErrNotReading {
				t.Fatalf("too late, to a job that takes nothing: %v", err)
			}
		}
		p.port.Begin()
		var got Input
		full := errors.New("terminal is full")
		p.port.SetInput(func(_ context.Context, in Input) (Delivery, error) {
			got = in
			return Delivery{Note: "buffered in the terminal"}, full
		})
		in := Input{By: Person, Text: "hunter2", Line: true, Secret: true, EOF: true}
		if d, err := p.Send(t.Context(), in); err != full || d.Note != "buffered in the terminal" || !reflect.DeepEqual(got, in) {
			t.Errorf("got %+v, %v; runner got %+v", d, err, got)
		}
		p.Send(t.Context(), Input{Text: "x"})
		if got.By != Agent {
			t.Errorf("input without a sender is by %q", got.By)
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
			must.Do(t, p.Await(t.Context()))
			if i := p.Record(); i.Question == nil || i.Question.Prompt != prompt {
				t.Fatalf("got %+v, want the question %q", i.Question, prompt)
			}
			must.Get(p.Send(t.Context(), Input{Text: "y"}))(t)
			if i := p.Record(); i.Question != nil {
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
			if i := p.Record(); seen != tc.changes || *i.Question != tc.q {
				t.Errorf("asked %+v: changed %t, shows %+v", tc.q, seen, *i.Question)
			}
		}
	})
}

// A wait for a server ends when the job has listened and been silent for the time that the caller
// named, and not before.
func TestAwaitServing(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		const quiet = 200 * time.Millisecond
		p := s.begin(Spec{})
		go func() { // ends by itself: a server that starts, and prints meanwhile
			pass(time.Second)
			p.port.SetListening([]Listener{{Address: "127.0.0.1:8000"}})
			for range 10 {
				pass(quiet / 2)
				p.port.Write(output.Stdout, []byte("."))
			}
		}()
		begin := time.Now()
		must.Do(t, p.AwaitServing(t.Context(), quiet, quiet))
		if got, want := time.Since(begin), time.Second+10*quiet/2+quiet; got != want {
			t.Errorf("the wait ended after %v, want %v", got, want)
		}
		p.end(Receipt{End: Returned})
		if ls := p.Record().Listening; ls != nil {
			t.Errorf("an ended job listens on %v", ls)
		}
	})
}

// A program that begins to take input ends a wait once nothing has changed for the time that the
// caller named. A later wait for the same program does not end by it.
func TestAwaitReader(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		const quiet = 2 * time.Second
		p := s.begin(Spec{})
		wait := func(want error, after time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begin := time.Now()
			if err := p.AwaitReader(ctx, quiet); err != want || time.Since(begin) != after {
				t.Errorf("the wait ended after %v: %v; want %v: %v", time.Since(begin), err, after, want)
			}
		}
		go func() { // ends by itself: a program that takes input, for two reasons, and prints
			pass(time.Second)
			p.port.SetAccepts(Reader{Kind: "key", By: "ssh"})
			pass(time.Second)
			p.port.SetAccepts(Reader{Kind: "key", By: "npm"})
			pass(time.Second)
			p.port.Write(output.Stdout, []byte("? "))
		}()
		wait(nil, 3*time.Second+quiet)
		p.port.SetAccepts(Reader{Kind: "key", By: "npm"})
		wait(context.DeadlineExceeded, time.Minute)
		go func() { // ends by itself: input is sent, and another question comes
			pass(time.Second)
			p.port.SetAccepts(Reader{})
			p.port.SetAccepts(Reader{Kind: "key", By: "npm"})
		}()
		wait(nil, time.Second+quiet)
		p.end(Receipt{End: Returned})
	})
}

// A job keeps the answers to its questions, and where its output ended then. It keeps
// no secret, nothing that it did not take, and a limited amount.
func TestAnswersAreKept(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		full := errors.New("not taken")
		var fails error
		p.port.SetInput(func(context.Context, Input) (Delivery, error) { p.port.SetRunning(); return Delivery{}, fails })
		send := func(kind string, in Input) {
			p.port.Write(output.Stdout, []byte("?"))
			if kind != "" {
				p.port.SetWaiting(Question{Kind: kind})
			}
			p.Send(t.Context(), in)
		}
		send("line", Input{Text: "one", Line: true})
		send("secret", Input{Text: "hunter2"})
		send("line", Input{Text: "hunter2", Secret: true})
		send("key", Input{Text: "q"})
		send("", Input{Text: "early"})
		send("line", Input{EOF: true})
		fails = full
		send("line", Input{Text: "refused"})
		fails = nil
		send("line", Input{Text: "two\n"})
		if got, want := p.Answers(), []Answer{{1, "one"}, {8, "two\n"}}; !slices.Equal(got, want) {
			t.Errorf("answers %v, want %v", got, want)
		}
		for range 40 {
			send("line", Input{Text: strings.Repeat("x", 64<<10)})
		}
		if n := len(p.Answers()); n != 2+15 {
			t.Errorf("%d answers are kept", n)
		}
		p.end(Receipt{End: Returned})
	})
}

// A keyTyping is a Typing without keys that ends when its channel is closed.
type keyTyping chan struct{}

func (k keyTyping) Done() <-chan struct{}       { return k }
func (k keyTyping) Behind() bool                { return false }
func (k keyTyping) Progress() (int, int, error) { return 0, 0, nil }

// A Send waits for its keys as long as its context allows, and holds no other Send up meanwhile.
func TestSendWaitsForItsKeys(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.queue(Spec{})
		p.port.Begin()
		typing := make(keyTyping)
		p.port.SetInput(func(_ context.Context, in Input) (Delivery, error) {
			if in.Signal != "" {
				return Delivery{Signalled: "cat"}, nil
			}
			return Delivery{Typing: typing}, nil
		})
		sent := make(chan error)
		begin := time.Now()
		for _, limit := range []time.Duration{time.Second, time.Minute} {
			go func() { // ends with its limit, or with the typing
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				d, err := p.Send(ctx, Input{Text: "x"})
				if d.Typing != typing {
					err = errors.New("without its Typing")
				}
				sent <- err
			}()
		}
		synctest.Wait()
		if d, err := p.Send(t.Context(), Input{Signal: "SIGINT"}); err != nil || d.Signalled == "" || time.Since(begin) > 0 {
			t.Errorf("a signal: %+v, %v after %s", d, err, time.Since(begin))
		}
		if err := <-sent; err != nil || time.Since(begin) != time.Second {
			t.Errorf("one returned %v after %s", err, time.Since(begin))
		}
		close(typing)
		if err := <-sent; err != nil || time.Since(begin) != time.Second {
			t.Errorf("the other returned %v after %s", err, time.Since(begin))
		}
	})
}

// What a person types is noted with its time before the program gets it, and refused input is not.
// A size is no answer.
func TestAnswerOfAPersonIsNoted(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.queue(Spec{})
		p.port.Begin()
		var refuse error
		seen := time.Time{}
		p.port.SetInput(func(context.Context, Input) (Delivery, error) {
			seen = p.Record().Answered
			return Delivery{}, refuse
		})
		send := func(in Input, want time.Time) {
			t.Helper()
			p.Send(t.Context(), in)
			if got := p.Record().Answered; !got.Equal(want) {
				t.Errorf("%+v: answered at %v, want %v", in, got, want)
			}
		}
		send(Input{Text: "x"}, time.Time{})
		send(Input{By: Person, Size: Size{40, 120}}, time.Time{})
		first := time.Now()
		send(Input{By: Person, Text: "x"}, first)
		if !seen.Equal(first) {
			t.Errorf("the program got the input when the answer was of %v", seen)
		}
		time.Sleep(time.Second)
		refuse = ErrNotReading
		send(Input{By: Person, EOF: true}, first)
		p.end(Receipt{End: Returned})
	})
}

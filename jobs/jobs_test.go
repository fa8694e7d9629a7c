package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
)

// A stage is a registry with fake time. A goroutine left at the end of a test fails it.
type stage struct {
	*Registry
	t    *testing.T
	over chan struct{} // closed when the test is
}

func bubble(t *testing.T, c Config, f func(t *testing.T, s stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := stage{NewRegistry(c), t, make(chan struct{})}
		defer s.Close(Stop{By: Shutdown})
		defer close(s.over)
		f(t, s)
	})
}

type runFunc func(context.Context, *Port) Outcome

func (f runFunc) Run(ctx context.Context, p *Port) Outcome { return f(ctx, p) }

// A puppet is a job whose runner leaves its port to the test.
type puppet struct {
	*Job
	port *Port
	ctx  context.Context
	out  chan<- Outcome
}

// queue starts a puppet, and begin one that has begun.
func (s stage) queue(spec Spec) puppet {
	s.t.Helper()
	out, ready := make(chan Outcome), make(chan puppet)
	j := must.Get(s.Start(spec, runFunc(func(ctx context.Context, port *Port) Outcome {
		ready <- puppet{port: port, ctx: ctx}
		select {
		case o := <-out:
			return o
		case <-s.over:
			return Outcome{Receipt: Receipt{End: NotRun}}
		}
	})))(s.t)
	p := <-ready
	p.Job, p.out = j, out
	return p
}

func (s stage) begin(spec Spec) puppet {
	s.t.Helper()
	p := s.queue(spec)
	p.port.Begin()
	return p
}

// end makes the runner return r and waits for the end of the job.
func (p puppet) end(r Receipt) Record {
	p.out <- Outcome{Receipt: r}
	<-p.Done()
	return p.Record()
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }

func text(c output.Chunk) string {
	var b strings.Builder
	for _, s := range c.Spans {
		b.Write(s.Data)
	}
	return b.String()
}

func TestLifeOfAJob(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		born := time.Now()
		spec := Spec{Kind: Python, Session: "default", Title: "input('x')"}
		p := s.queue(spec)
		want := Record{Version: RecordVersion, ID: p.ID(), Spec: spec, Status: Queued, Created: born, Output: output.Stat{Final: -1}}
		check := func(when string) {
			t.Helper()
			if d := cmp.Diff(want, p.Record()); d != "" {
				t.Errorf("%s: %s", when, d)
			}
		}
		check("queued")

		pass(time.Second)
		p.port.Begin()
		p.port.Begin() // an install begins, and the command that it starts begins again
		p.port.SetPID(812)
		want.Status, want.PID, want.Started = Running, 812, born.Add(time.Second)
		check("running")
		r := Reader{Kind: "key", By: "read by ssh (pid 812), which also waits for a connection to 10.0.0.5:22"}
		p.port.SetAccepts(r)
		want.Accepts = r
		want.Accepts.Since = born.Add(time.Second)
		check("accepting input")
		pass(time.Second)
		p.port.SetAccepts(r)
		check("accepting input still")
		r.By = "read by ssh (pid 812)"
		p.port.SetAccepts(r)
		want.Accepts = r
		want.Accepts.Since = born.Add(2 * time.Second)
		check("accepting input for another reason")
		p.port.SetStopped("cat (pid 813)")
		want.Stopped = "cat (pid 813)"
		check("with a stopped program")

		pass(time.Second)
		p.port.Write(output.Stdout, []byte("x"))
		q := Question{Kind: "line", Prompt: "x", By: "input()"}
		p.port.SetWaiting(q)
		p.port.SetAccepts(r)
		want.Status, want.Question, want.Asked, want.Accepts, want.Stopped = WaitingInput, &q, 1, Reader{}, ""
		want.Output = output.Stat{End: 1, Final: -1, Last: born.Add(3 * time.Second)}
		check("waiting")
		p.port.SetRunning()
		p.port.SetRunning()
		want.Status, want.Question = Running, nil
		check("running again")

		pass(time.Second)
		p.out <- Outcome{Receipt: Receipt{End: Returned, State: Kept}, Result: "'42'", HasResult: true}
		<-p.Done()
		want.Status, want.Ended, want.Output = Completed, born.Add(4*time.Second), output.Stat{End: 5, Final: 5, Last: born.Add(4 * time.Second)}
		want.Receipt, want.Result, want.HasResult = Receipt{End: Returned, State: Kept, By: Program}, "'42'", true
		check("ended")

		// Later bytes are late output; later news is dropped.
		p.port.Write(output.Stderr, []byte("late"))
		p.port.SetWaiting(q)
		p.port.SetRunning()
		p.port.Trying(Kill)
		p.port.SetPID(1)
		p.port.SetInput(func(context.Context, Input) (Delivery, error) { return Delivery{}, nil })
		p.Stop(Stop{By: Agent})
		want.Output.End, want.Output.Last = 9, born.Add(4*time.Second)
		check("after the end")
		if _, c := p.Read(0, 100); text(c) != "x'42'late" {
			t.Errorf("late output: %q", text(c))
		}
	})
}

// A recorder is a store that notes the end of the watched job. Before it does, it lets every other
// goroutine run as far as it can.
type recorder struct {
	noStore
	note func(string)
}

func (r recorder) End(saved Saved) error {
	if i := saved.Record; i.Title == "watched" {
		synctest.Wait()
		r.note(fmt.Sprintf("saved %s, log final at %d", i.Status, i.Output.Final))
	}
	return nil
}

func TestEndHasOneOrder(t *testing.T) {
	notes := make(chan string, 10) // more than there are events
	note := func(s string) { notes <- s }
	bubble(t, Config{Store: recorder{note: note}, MaxRunning: 1}, func(t *testing.T, s stage) {
		j := must.Get(s.Start(Spec{Title: "watched"}, runFunc(func(_ context.Context, p *Port) Outcome {
			p.Begin()
			pass(time.Minute)
			p.Write(output.Stdout, []byte("last words"))
			note("drained")
			return Outcome{Receipt: Receipt{End: Returned}}
		})))(t)
		pass(time.Second)
		wait := func(name string, released func()) {
			go func() { // ends with the job
				released()
				i, c := j.Read(0, 100)
				note(fmt.Sprintf("released: %s, %q", i.Status, text(c)))
			}()
		}
		wait("done", func() { <-j.Done() })
		wait("await", func() { j.Await(t.Context()) })
		changed := j.Changed()
		wait("changed", func() { <-changed })
		synctest.Wait()
		<-j.Done()
		if _, err := s.Start(Spec{}, runFunc(func(context.Context, *Port) Outcome {
			return Outcome{Receipt: Receipt{End: NotRun}}
		})); err != nil {
			t.Errorf("no room for another job after the end of the only one: %v", err)
		}
		synctest.Wait()
		want := []string{
			"drained",
			"saved completed, log final at 10",
			`released: completed, "last words"`,
			`released: completed, "last words"`,
			`released: completed, "last words"`,
		}
		var got []string
		for range want {
			got = append(got, <-notes)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

// A read that shows a final status shows all output, however close it is to the end.
func TestFinalComesWithAllOutput(t *testing.T) {
	r := NewRegistry(Config{})
	defer r.Close(Stop{By: Shutdown})
	for range 300 {
		j := must.Get(r.Start(Spec{}, runFunc(func(_ context.Context, p *Port) Outcome {
			p.Begin()
			for range 20 {
				p.Write(output.Stdout, []byte("word "))
			}
			return Outcome{Receipt: Receipt{End: Exited}}
		})))(t)
		for spins := 1; ; spins++ {
			i, c := j.Read(0, 1000)
			if !i.Status.Final() {
				if spins%1000 == 0 {
					runtime.Gosched() // for machines with one processor
				}
				continue
			}
			if n := len(text(c)); n != 100 || i.Output.Final != 100 {
				t.Fatalf("%s with %d bytes, final at %d", i.Status, n, i.Output.Final)
			}
			break
		}
	}
}

// The log is marked before the status is final. With the job's lock held the status can't change,
// and the mark comes all the same.
func TestLogIsMarkedBeforeTheStatusIsFinal(t *testing.T) {
	r := NewRegistry(Config{})
	defer r.Close(Stop{By: Shutdown})
	begun, over := make(chan struct{}), make(chan struct{})
	j := must.Get(r.Start(Spec{}, runFunc(func(_ context.Context, p *Port) Outcome {
		p.Begin()
		close(begun)
		<-over
		return Outcome{Receipt: Receipt{End: Returned}}
	})))(t)
	<-begun
	j.mu.Lock()
	close(over)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := j.log.Wait(ctx, 0) // nothing is written: it returns at the mark
	status := j.record.Status
	j.mu.Unlock()
	if err != nil || status != Running {
		t.Errorf("%v while %s", err, status)
	}
	<-j.Done()
}

func TestAwaitReturnsAtAQuestionOrTheEnd(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.queue(Spec{})
		stopped := errors.New("stopped waiting")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, stopped)
		defer cancel()
		if err := p.Await(ctx); err != stopped {
			t.Errorf("got %v, want the cause of the context", err)
		}
		start := time.Now()
		go func() { // ends within the test
			pass(time.Minute)
			p.port.Begin()
			p.port.SetPID(1) // a change for which Await does not return
			pass(time.Minute)
			p.port.SetWaiting(Question{Kind: "line"})
		}()
		if err := p.Await(t.Context()); err != nil || p.Record().Status != WaitingInput || time.Since(start) != 2*time.Minute {
			t.Errorf("got %v, %s after %v", err, p.Record().Status, time.Since(start))
		}
		if err := p.Await(t.Context()); err != nil {
			t.Errorf("a question that is open: %v", err)
		}
		p.Stop(Stop{By: Agent})
		go func() { // ends with the job
			pass(time.Minute)
			p.port.SetWaiting(Question{Kind: "line"}) // the prompt after an interrupt
			pass(time.Minute)
			p.end(Receipt{End: Returned})
		}()
		if err := p.Await(t.Context()); err != nil || p.Record().Status != Completed {
			t.Errorf("got %v, %s", err, p.Record().Status)
		}
		if err := p.Await(t.Context()); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}

// All of a long result is the end of the output; a job that is kept for long has its beginning.
func TestResultEndsTheOutput(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{Kind: Python})
		p.port.Write(output.Stdout, []byte("before"))
		result := strings.Repeat("é", 40_000)
		p.out <- Outcome{Receipt: Receipt{End: Returned}, Result: result, HasResult: true}
		<-p.Done()
		chunk := p.Log().Read(0, 100_000)
		if n := len(chunk.Spans); n != 2 || chunk.Spans[1].Stream != output.Result || string(chunk.Spans[1].Data) != result || p.Log().Stat().Final != chunk.Next {
			t.Errorf("%d spans up to %d of %+v", n, chunk.Next, p.Log().Stat())
		}
		if record := p.Record(); record.Result != result[:2*32_000] || record.ResultChars != 40_000 {
			t.Errorf("%d bytes of %d characters", len(record.Result), record.ResultChars)
		}
	})
}

package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/test/must"
)

// admit starts a puppet that begins when it may run.
func (s stage) admit(title string) puppet {
	s.t.Helper()
	out, ready := make(chan Outcome), make(chan puppet)
	j := must.Get(s.Start(Spec{Title: title}, runFunc(func(ctx context.Context, port *Port) Outcome {
		ready <- puppet{port: port, ctx: ctx}
		if port.Admit(ctx) != nil {
			return Outcome{Receipt: Receipt{End: NotRun, Stop: port.Stop()}}
		}
		port.Begin()
		select {
		case o := <-out:
			return o
		case <-s.over:
			return Outcome{Receipt: Receipt{End: Returned}}
		}
	})))(s.t)
	p := <-ready
	p.Job, p.out = j, out
	synctest.Wait()
	return p
}

// with returns the titles of the jobs with a status, the oldest first.
func (s stage) with(status Status) string {
	synctest.Wait()
	list := s.List(Filter{Status: []Status{status}})
	slices.Reverse(list)
	return titles(list)
}

// Jobs beyond the limit run in the order of their starts. One that is queued for another reason
// keeps no other job from running.
func TestLimitOfRunningJobs(t *testing.T) {
	bubble(t, Config{MaxRunning: 2}, func(t *testing.T, s stage) {
		check := func(running, queued string) {
			t.Helper()
			if got := s.with(Running); got != running {
				t.Errorf("running: %q, want %q", got, running)
			}
			if got := s.with(Queued); got != queued {
				t.Errorf("queued: %q, want %q", got, queued)
			}
		}
		s.queue(Spec{Title: "behind"})
		a := s.admit("a")
		early := s.queue(Spec{Title: "early"})
		b, c, d := s.admit("b"), s.admit("c"), s.admit("d")
		s.admit("e")
		check("a b", "behind early c d e")

		d.Stop(Stop{By: Agent})
		<-d.Done()
		if got := d.Record(); got.Status != Cancelled || !got.Started.IsZero() {
			t.Errorf("the queued job that was cancelled: %s, started %v", got.Status, got.Started)
		}
		admitted := make(chan error, 1) // the test takes it below
		go func() { admitted <- early.port.Admit(early.ctx) }()
		synctest.Wait()
		if got := s.Running(c.ID()); titles(got) != "a b" {
			t.Errorf("c waits for %q", titles(got))
		}
		b.port.SetWaiting(Question{Kind: "line"})
		if got := s.Running(c.ID()); titles(got) != "b a" {
			t.Errorf("c waits for %q, want the job first that asks", titles(got))
		}
		if got := append(s.Running(a.ID()), s.Running("unknown")...); got != nil {
			t.Errorf("a job that runs and one that is unknown wait for %q", titles(got))
		}
		if got := s.Count(); got.Running != 2 || got.Max != 2 {
			t.Errorf("%d of %d run", got.Running, got.Max)
		}
		a.end(Receipt{End: Returned})
		must.Do(t, <-admitted) // started before c
		early.port.Begin()
		check("early", "behind c e")
		b.port.SetRunning()
		b.end(Receipt{End: Returned})
		check("early c", "behind e")
	})
}

// A job is refused only if 1,000 are queued.
func TestFullQueue(t *testing.T) {
	bubble(t, Config{MaxRunning: 2}, func(t *testing.T, s stage) {
		s.admit("first")
		asks := s.admit("asks")
		asks.port.SetWaiting(Question{Kind: "line"})
		queued := s.admit("queued")
		for range maxQueued - 1 {
			s.admit("another")
		}
		_, err := s.Start(Spec{}, nil)
		full, ok := errors.AsType[*TooManyError](err)
		if !ok || full.Limit != 1000 || titles(full.Running) != "asks first" {
			t.Fatalf("got %v", err)
		}
		if err := s.Room(); err == nil {
			t.Error("there is room")
		}
		queued.Stop(Stop{By: Agent})
		<-queued.Done()
		s.admit("the last")
	})
}

// The time in the queue does not count for the timeout, and an end of the server ends the queue.
func TestQueueAndTime(t *testing.T) {
	bubble(t, Config{MaxRunning: 1}, func(t *testing.T, s stage) {
		a, b := s.admit("a"), must.Get(s.Start(Spec{Timeout: time.Minute}, runFunc(func(ctx context.Context, p *Port) Outcome {
			if p.Admit(ctx) != nil {
				return Outcome{Receipt: Receipt{End: NotRun, Stop: p.Stop()}}
			}
			p.Begin()
			<-ctx.Done()
			return Outcome{Receipt: Receipt{End: Exited, Stop: p.Stop()}}
		})))(t)
		c := s.admit("c")
		pass(time.Hour)
		a.end(Receipt{End: Returned})
		<-b.Done()
		if got := b.Record(); got.Ended.Sub(got.Started) != time.Minute || got.Receipt.Stop.By != Limit {
			t.Errorf("it ran for %v and was stopped by %+v", got.Ended.Sub(got.Started), got.Receipt.Stop)
		}
		d := s.admit("d")
		s.StopAll(Stop{By: Shutdown})
		<-d.Done()
		if got := d.Record(); got.Status != Cancelled {
			t.Errorf("the end of the server ends it as %s", got.Status)
		}
		c.end(Receipt{End: Returned})
	})
}

// Jobs that wait for their session, for the limit and for nothing are cancelled and killed at any
// moment. Each one ends, and the limit holds.
func TestQueueStorm(t *testing.T) {
	const limit, starters, each = 3, 4, 150
	r := NewRegistry(Config{MaxRunning: limit, Keep: starters * each})
	var running, most, ran atomic.Int64
	var sessions [3]sync.Mutex
	work := func(seed uint64, session int) runFunc {
		return func(ctx context.Context, p *Port) Outcome {
			random := rand.New(rand.NewPCG(seed, 0))
			if session < len(sessions) {
				sessions[session].Lock()
				defer sessions[session].Unlock()
			}
			if p.Admit(ctx) != nil {
				return Outcome{Receipt: Receipt{End: NotRun, Stop: p.Stop()}}
			}
			p.Begin()
			defer running.Add(-1)
			for now := running.Add(1); ; {
				old := most.Load()
				if now <= old || most.CompareAndSwap(old, now) {
					break
				}
			}
			ran.Add(1)
			if random.IntN(3) == 0 {
				p.SetWaiting(Question{Kind: "line"})
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(random.IntN(1000)) * time.Microsecond):
			}
			return Outcome{Receipt: Receipt{End: Exited, Stop: p.Stop()}}
		}
	}
	var all sync.WaitGroup
	for starter := range starters {
		all.Go(func() { // ends with its jobs
			random := rand.New(rand.NewPCG(uint64(starter), 1))
			var mine []*Job
			for i := range each {
				j, err := r.Start(Spec{}, work(uint64(starter*each+i), random.IntN(6)))
				if err != nil {
					t.Error(err)
					continue
				}
				if mine = append(mine, j); random.IntN(2) == 0 {
					rungs := []Rung{Interrupt, Terminate, Kill}
					mine[random.IntN(len(mine))].Stop(Stop{By: Agent, From: rungs[random.IntN(len(rungs))]})
				}
				if random.IntN(4) == 0 {
					r.Running(mine[random.IntN(len(mine))].ID())
				}
			}
			for _, j := range mine {
				<-j.Done()
			}
		})
	}
	all.Wait()
	ends := map[Status]int64{}
	for _, record := range r.List(Filter{}) {
		ends[record.Status]++
		if !record.Status.Final() || record.Status == Cancelled && record.Receipt.Stop == nil {
			t.Errorf("job %s ended as %s", record.ID, record.Receipt.Text())
		}
	}
	t.Logf("%d have run; ends: %v", ran.Load(), ends)
	if n := ends[Completed] + ends[Failed] + ends[Cancelled]; n != starters*each {
		t.Errorf("%d of %d jobs have ended", n, starters*each)
	}
	if most.Load() > limit {
		t.Errorf("%d jobs ran at once", most.Load())
	}
	if c := r.Count(); c.Running != 0 {
		t.Errorf("%d jobs hold a place after their end", c.Running)
	}
	r.Close(Stop{By: Shutdown})
}

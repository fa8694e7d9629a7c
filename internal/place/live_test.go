package place

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/output"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/text/callstack"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A meter is a probe, and a looker.
type meter struct{}

func (meter) Usage() (jobs.ProcessUsage, error) { return jobs.ProcessUsage{Processes: 7}, nil }
func (meter) Busiest() (jobs.Process, float64, error) {
	return jobs.Process{PID: 5, Program: "a\x1bb"}, 99, nil
}
func (meter) Waits(pid int) (jobs.Process, string, time.Duration) {
	return jobs.Process{PID: pid}, "for a file", time.Minute
}
func (meter) Stopped() ([]jobs.StoppedProcess, error) { return nil, errors.New("no /proc") }
func (meter) Look() (callstack.Stack, error)          { return callstack.Stack{Outer: 3}, nil }

func measured(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.SetProbe(meter{})
	p.SetLooker(meter{})
	p.SetHolder(func() (jobs.Hold, bool) { return jobs.Hold{}, true })
	p.SetOnLoop(func() []string { return []string{"127.0.0.1:80"} })
	return waits(ctx, p)
}

// A running job is asked there, once for a reply, and once more if the reply says what its processes do.
func TestLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asked atomic.Int64
		m := newMachine(t, linktest.Runners{"measured": measured})
		m.wrap = on("/live", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			asked.Add(1)
			next.ServeHTTP(w, r)
		})
		s := serve(t, m, nil)
		j := s.startAs(server.Start{Tool: "measured", Kind: jobs.Python, Session: "a"})
		runs(t, j)
		l := j.Live()
		stack, err := l.Looker.Look()
		if stack.Outer != 3 || err != nil {
			t.Errorf("%+v, %v", stack, err)
		}
		if u, err := l.Probe.Usage(); u.Processes != 7 || err != nil {
			t.Errorf("%+v, %v", u, err)
		}
		if _, err := l.Probe.Stopped(); err == nil || err.Error() != "no /proc" {
			t.Error(err)
		}
		if _, held := l.Hold(); !held {
			t.Error("nothing holds it")
		}
		if on := l.OnLoop(); len(on) != 1 {
			t.Errorf("%q", on)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
		if p, percent, err := l.Probe.Busiest(); p.Program != `a\x1bb` || percent != 99 || err != nil {
			t.Errorf("%+v, %v", p, err)
		}
		if _, words, d := l.Probe.Waits(5); words != "for a file" || d != time.Minute {
			t.Errorf("%q, %v", words, d)
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("it was asked %d times", n)
		}
		time.Sleep(lookKept)
		l.Probe.Usage()
		if n := asked.Load(); n != 3 {
			t.Errorf("it was asked %d times", n)
		}
	})
}

// A reply waits 300 ms for a link that is paused, the next one not at all, and later ones again.
func TestLiveWhilePaused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"measured": measured})
		j := s.startAs(server.Start{Tool: "measured", Kind: jobs.Python, Session: "a"})
		runs(t, j)
		time.Sleep(time.Minute)
		resume := s.m.wire().pause()
		l := j.Live()
		took := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			_, err1 := l.Looker.Look()
			_, err2 := l.Probe.Usage()
			_, held := l.Hold()
			if err1 == nil || err2 == nil || held || l.OnLoop() != nil {
				t.Error("a paused link has answered")
			}
			if d := time.Since(began); d != want {
				t.Errorf("it took %v, want %v", d, want)
			}
		}
		took(lookTime)
		for range 5 {
			time.Sleep(100 * time.Millisecond)
			took(0)
		}
		resume()
		synctest.Wait()
		time.Sleep(lookKept)
		if u, err := l.Probe.Usage(); u.Processes != 7 || err != nil {
			t.Error(err)
		}
		s.m.set(func() { s.m.fails = errors.New("no route") })
		s.m.wire().Close()
		lost(t, j)
		time.Sleep(time.Second)
		took(0)
	})
}

// A job that runs nothing to measure says so.
func TestLiveWithoutProbe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		j := s.startAs(server.Start{Tool: "wait", Kind: jobs.Python, Session: "a"})
		runs(t, j)
		if _, err := j.Live().Probe.Usage(); err == nil || err.Error() != "the engine there can't measure it" {
			t.Error(err)
		}
		if _, err := j.Live().Looker.Look(); !errors.Is(err, callstack.ErrSaid) {
			t.Error(err)
		}
	})
}

// leaves leaves two processes. The first ends by itself, the other one by a cleanup.
func leaves(first <-chan struct{}, cleaned chan<- jobs.Stop) linktest.Runner {
	return func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		a, b := jobs.Process{PID: 5, Program: "a"}, jobs.Process{PID: 6, Program: "b"}
		p.SetCleanup(func(_ context.Context, st jobs.Stop) jobs.Remains {
			cleaned <- st
			p.AmendReceipt(func(r *jobs.Receipt) { r.Left = nil; r.Notes = append(r.Notes, "cleaned") })
			return jobs.Remains{Ended: []jobs.Process{b}}
		})
		go func() {
			<-p.Ended()
			<-first
			p.Write(output.Stdout, []byte("late\n"))
			p.AmendReceipt(func(r *jobs.Receipt) { r.Left = []jobs.Process{b} })
		}()
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Left: []jobs.Process{a, b}}}
	}
}

// The receipt of a job that has left processes follows them, over several links, and a cleanup ends them.
func TestLeftProcesses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, cleaned := make(chan struct{}), make(chan jobs.Stop, 1)
		s := newStage(t, linktest.Runners{"leave": leaves(first, cleaned)})
		j := s.start("leave")
		r := jobstest.EndsAs(t, j, "completed")
		if len(r.Receipt.Left) != 2 {
			t.Errorf("%+v", r.Receipt)
		}
		time.Sleep(time.Hour)
		s.m.set(func() { s.m.fails = errors.New("no route") })
		s.m.wire().Close()
		time.Sleep(time.Minute)
		close(first)
		if left, ok := j.Cleanup(t.Context(), jobs.Stop{}); !ok || left.Err == nil || left.Err.Error() != "gpu is out of reach" {
			t.Errorf("%+v, %t", left, ok)
		}
		s.m.set(func() { s.m.fails = nil })
		await(t, "the receipt", func() bool { return len(j.Record().Receipt.Left) == 1 })
		jobstest.PrintsLate(t, j, "late\n")
		left, ok := j.Cleanup(t.Context(), jobs.Stop{From: jobs.Terminate})
		if !ok || left.Err != nil || len(left.Ended) != 1 || (<-cleaned).From != jobs.Terminate {
			t.Errorf("%+v, %t", left, ok)
		}
		await(t, "the receipt", func() bool { return len(j.Record().Receipt.Left) == 0 })
		synctest.Wait()
		if _, ok := j.Cleanup(t.Context(), jobs.Stop{}); ok {
			t.Error("something is left to clean up")
		}
		time.Sleep(2 * time.Minute)
		if s.m.running() != nil {
			t.Error("the unused engine was not ended")
		}
	})
}

// If the engine is gone, nothing that a job has left there can be followed.
func TestLeftProcessesOfALostEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first := make(chan struct{})
		s := newStage(t, linktest.Runners{"leave": leaves(first, nil)})
		defer close(first)
		j := s.start("leave")
		jobstest.EndsAs(t, j, "completed")
		s.m.running().kill()
		time.Sleep(2 * time.Minute)
		if _, ok := j.Cleanup(t.Context(), jobs.Stop{}); ok {
			t.Error("something is left to clean up")
		}
	})
}

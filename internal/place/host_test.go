package place

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/output"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

var returned = jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}

func prints(text string) linktest.Runner {
	return func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		p.Write(output.Stdout, []byte(text))
		return returned
	}
}

// counts returns a runner that counts how often it runs.
func counts(ran *atomic.Int64, run linktest.Runner) linktest.Runner {
	return func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		ran.Add(1)
		return run(ctx, p)
	}
}

// A job runs there and is shown here, and the engine is used for the next one.
func TestJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"hello": prints("hello\n")})
		for range 2 {
			j := s.start("hello")
			r := jobstest.EndsAs(t, j, "completed")
			if out := jobstest.Output(j); out != "hello\n" || r.Place != "gpu" {
				t.Errorf("%q, %+v", out, r)
			}
		}
		if n := len(s.m.attempts(0)); n != 1 {
			t.Errorf("%d links were opened", n)
		}
	})
}

// waits runs until it is stopped.
func waits(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	<-ctx.Done()
	st := p.Stop()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: st, Detail: string(st.By) + " " + string(st.From)}}
}

// After failures in a row, a link that is needed is tried again after 0, 1, 2, 4 … 60 s.
func TestBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		runs(t, s.start("wait"))
		time.Sleep(time.Minute)
		s.m.set(func() { s.m.fails = errors.New("no route") })
		cut := time.Now()
		s.m.wire().Close()
		time.Sleep(5 * time.Minute)
		var waits []time.Duration
		for _, at := range s.m.attempts(1) {
			waits = append(waits, at.Sub(cut))
			cut = at
		}
		want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60, 60}
		for i := range want {
			want[i] *= time.Second
		}
		if d := cmp.Diff(want, waits); d != "" {
			t.Error(d)
		}
	})
}

// A call for the place makes an attempt at once. However many have failed, the next one without a call is not later.
func TestCallsDoNotDelayTheLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		j := s.start("wait")
		runs(t, j)
		time.Sleep(time.Minute)
		s.m.set(func() { s.m.fails = errors.New("no route") })
		s.m.wire().Close()
		lost(t, j)
		for range 20 {
			if _, _, err := s.ps.Call(t.Context(), "gpu", "list_variables", nil); err == nil {
				t.Error("it was called")
			}
		}
		if n := len(s.m.attempts(1)); n != 21 {
			t.Errorf("%d attempts", n)
		}
		time.Sleep(firstWait * 3 / 2)
		if n := len(s.m.attempts(1)); n != 22 {
			t.Errorf("%d attempts, a second later", n)
		}
	})
}

// A link that is lost as soon as it is there counts as a failure.
func TestLinkThatBreaksAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		j := s.start("wait")
		runs(t, j)
		s.m.set(func() { s.m.cutAfter = func() int64 { return 10 } })
		time.Sleep(time.Minute)
		s.m.wire().Close()
		time.Sleep(2 * time.Minute)
		if n := len(s.m.attempts(1)); n < 5 || n > 9 {
			t.Errorf("%d attempts", n)
		}
		s.m.set(func() { s.m.cutAfter = nil })
		becomes(t, j, "come back", func(_ jobs.Record, l jobs.Link) bool { return l.Lost.IsZero() })
	})
}

// One attempt is made at a time, whatever waits for it, and all share its result.
func TestOneAttemptAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"hello": prints("hello\n")})
		s.m.set(func() { s.m.fails, s.m.slow = errors.New("no route"), time.Second })
		var all []*jobs.Job
		for range 20 {
			all = append(all, s.start("hello"))
		}
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				if _, _, err := s.ps.Call(t.Context(), "gpu", "list", nil); err == nil || !strings.Contains(err.Error(), "no route; nothing was done there") {
					t.Error(err)
				}
			})
		}
		for _, j := range all {
			jobstest.EndsAs(t, j, "failed (could not start: gpu is out of reach: no route)")
		}
		calls.Wait()
		if n := len(s.m.attempts(0)); n != 1 {
			t.Errorf("%d attempts", n)
		}
		s.m.set(func() { s.m.fails = nil })
		jobstest.EndsAs(t, s.start("hello"), "completed")
	})
}

// A wrong key is tried again by calls alone, and every 10 s at most.
func TestWrongKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"hello": prints("hello\n"), "wait": waits})
		wrong := &carry.Error{Step: carry.Reach, Text: "wrong key", Cure: "replace it", Final: true}
		s.m.set(func() { s.m.fails = wrong })
		call := func() {
			t.Helper()
			if _, _, err := s.ps.Call(t.Context(), "gpu", "list", nil); err == nil || !strings.Contains(err.Error(), "wrong key; replace it") {
				t.Error(err)
			}
		}
		tried := func(want int) {
			t.Helper()
			if n := len(s.m.attempts(0)); n != want {
				t.Errorf("%d attempts, want %d", n, want)
			}
		}
		refused := func() {
			t.Helper()
			jobstest.EndsAs(t, s.start("hello"), "failed (could not start: gpu is out of reach: reaching the place: wrong key; replace it)")
		}
		call()
		call()
		refused()
		tried(1)
		time.Sleep(9 * time.Second)
		refused()
		tried(1)
		time.Sleep(time.Second)
		refused()
		tried(2)
		time.Sleep(time.Hour)
		tried(2)
		s.m.set(func() { s.m.fails = nil })
		j := s.start("wait")
		runs(t, j)

		// A job that runs there does not try by itself either.
		s.m.set(func() { s.m.fails = wrong })
		s.m.wire().Close()
		time.Sleep(time.Hour)
		tried(4)
		if l := lost(t, j); l.Why != "reaching the place: wrong key; replace it" {
			t.Errorf("%+v", l)
		}
		j2 := s.start("hello")
		synctest.Wait()
		tried(5)
		if r := j2.Record(); r.Status != jobs.Queued {
			t.Errorf("%+v", r)
		}
		s.m.set(func() { s.m.fails = nil })
		time.Sleep(time.Hour)
		tried(5)
		if _, err := j.Send(t.Context(), jobs.Input{Text: "x"}); err == nil {
			t.Error("input was taken")
		}
		jobstest.EndsAs(t, j2, "completed")
		becomes(t, j, "come back", func(_ jobs.Record, l jobs.Link) bool { return l.Lost.IsZero() })
	})
}

// A link through which nothing comes is found within 6 s.
func TestPausedLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		j := s.start("wait")
		runs(t, j)
		time.Sleep(time.Minute)
		paused := time.Now()
		s.m.set(func() { s.m.fails = errors.New("no route") })
		s.m.wire().pause()
		l := lost(t, j)
		if d := time.Since(paused); d > 6*time.Second+10*time.Millisecond {
			t.Errorf("it was found after %v", d)
		}
		if l.AsOf.After(paused) || l.AsOf.Before(paused.Add(-4*time.Second)) {
			t.Errorf("as of %v, paused at %v", l.AsOf, paused)
		}
		s.m.set(func() { s.m.fails = nil })
		becomes(t, j, "come back", func(_ jobs.Record, l jobs.Link) bool { return l.Lost.IsZero() })
	})
}

// A pause that is short is no loss.
func TestShortPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		runs(t, s.start("wait"))
		for range 10 {
			resume := s.m.wire().pause()
			time.Sleep(2900 * time.Millisecond)
			resume()
			time.Sleep(time.Second)
		}
		if n := len(s.m.attempts(0)); n != 1 {
			t.Errorf("%d links", n)
		}
	})
}

// An engine that is not used is ended after a minute, and what comes meanwhile starts another one.
func TestUnusedEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"hello": prints("hello\n")})
		s.m.set(func() { s.m.holds = true })
		jobstest.End(t, s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: "a"}))
		time.Sleep(time.Hour)
		if s.m.running() == nil || s.ps.Of(jobs.Python, "a") != "gpu" || !s.ps.InUse() {
			t.Fatal("an engine that holds variables was ended")
		}
		s.m.set(func() { s.m.holds = false })
		time.Sleep(44 * time.Second)
		if s.m.running() == nil {
			t.Error("it was ended too early")
		}
		time.Sleep(32 * time.Second)
		if s.m.running() != nil || s.ps.InUse() || s.ps.Of(jobs.Python, "a") != "" {
			t.Error("it was not ended")
		}
		if left := s.ps.Left(jobs.Python, "a"); left != "gpu" {
			t.Errorf("its session was at %q", left)
		}
		jobstest.EndsAs(t, s.start("hello"), "completed")
		jobstest.EndsAs(t, s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: "a"}), "completed")
		if left := s.ps.Left(jobs.Python, "a"); left != "" {
			t.Errorf("a session that was made again was at %q", left)
		}
	})
}

// The sessions of a place out of reach are named. One that was only asked for is not there.
func TestSessionsAreNamedWithoutALink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"hello": prints("hello\n"), "wait": waits})
		check := func(want ...string) {
			t.Helper()
			if got := s.ps.List(t.Context())[0].Last; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		s.m.set(func() { s.m.slow = 10 * time.Second })
		j := s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: "b"})
		check()
		jobstest.EndsAs(t, j, "completed")
		runs(t, s.startAs(server.Start{Tool: "wait", Kind: jobs.Python, Session: "a"}))
		runs(t, s.startAs(server.Start{Tool: "wait", Kind: jobs.Shell, Session: "shell"}))
		check()
		s.m.set(func() { s.m.fails = errors.New("no route") })
		s.m.wire().Close()
		synctest.Wait()
		check("a", "b")
		s.m.running().kill()
		s.m.set(func() { s.m.fails, s.m.slow = nil, 0 })
		time.Sleep(2 * time.Minute)
		check()
	})
}

// What a person is told to run by hand is what runs.
func TestCommandOfACarrier(t *testing.T) {
	p := &place{Place: config.Place{SSH: []string{"-p", "22", "box"}}}
	for _, tt := range []struct {
		name    string
		command []string
		want    []string
	}{
		{"a shell", nil, nil},
		{"a command", []string{"srun", "--jobid=1", "a b"}, []string{"srun --jobid=1 'a b'"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := p.reach(tt.command), append(carry.SSH(p.SSH), tt.want...); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// A job that comes while an unused engine ends runs once, in the next one.
func TestJobWhileAnEngineEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ran atomic.Int64
		m := newMachine(t, linktest.Runners{"hello": counts(&ran, prints("hello\n"))})
		ends, may := make(chan struct{}, 10), make(chan struct{})
		m.wrap = on("/link/end", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			ends <- struct{}{}
			<-may
			next.ServeHTTP(w, r)
		})
		s := serve(t, m, nil)
		jobstest.EndsAs(t, s.start("hello"), "completed")
		<-ends
		j := s.start("hello")
		synctest.Wait()
		if r := j.Record(); r.Status != jobs.Queued {
			t.Errorf("%+v", r)
		}
		close(may)
		jobstest.EndsAs(t, j, "completed")
		if ran.Load() != 2 || m.engines != 2 {
			t.Errorf("%d jobs ran in %d engines", ran.Load(), m.engines)
		}
	})
}

// Fifty places that are out of reach make no call slower, and a second one is not delayed by the first.
func TestPlacesOutOfReach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t, linktest.Runners{"hello": prints("hello\n"), "wait": waits})
		here := jobstest.Registry(t)
		var conf []config.Place
		for i := range 51 {
			conf = append(conf, config.Place{Name: fmt.Sprintf("p%02d", i), SSH: []string{"host"}})
		}
		ps := must.Get(New(Config{Places: conf, Jobs: here, Key: "key"}))(t)
		ps.join = func(ctx context.Context, spec carry.Spec) (net.Conn, far.Greeting, error) {
			if spec.Env != nil {
				t.Error("an environment")
			}
			return m.join(ctx, spec)
		}
		t.Cleanup(func() { ps.Close(t.Context()) })
		m.set(func() { m.fails, m.slow = errors.New("no route"), 30*time.Second })
		for i := range 50 {
			run := must.Get(ps.Runner(conf[i].Name, server.Start{Tool: "hello", Kind: jobs.Shell}))(t)
			jobstest.Start(t, here, jobs.Spec{Kind: jobs.Shell, Place: conf[i].Name}, run)
		}
		began := time.Now()
		list := ps.List(t.Context())
		if len(list) != 51 || time.Since(began) > 0 {
			t.Errorf("%d places after %v", len(list), time.Since(began))
		}
		if ps.Find(t.Context(), jobstest.ID(time.Now())) != nil {
			t.Error("a job was found")
		}
		for r := range here.All(jobs.Filter{}) {
			j := here.Lookup(r.ID)
			j.Live()
			if f := j.Live().Link; f != nil {
				f()
			}
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// What helps is at the end of an error, and survives a long text of ssh.
func TestAdviceIsNotCut(t *testing.T) {
	const cure = "give ssh a key that the place knows: ssh-copy-id installs one; try it by hand: ssh me@box"
	for _, n := range []int{0, 10, 200, 5000} {
		why := whyLine(&carry.Error{Step: carry.Reach, Text: strings.Repeat("é", n) + "; Permission denied", Cure: cure})
		if !strings.HasPrefix(why, "reaching the place: ") || !strings.HasSuffix(why, "; Permission denied; "+cure) || utf8.RuneCountInString(why) > lineMax+50 {
			t.Errorf("%d: %s", n, why)
		}
	}
	if why := whyLine(&carry.Error{Text: "x\n", Cure: strings.Repeat("y", 10000)}); utf8.RuneCountInString(why) > 2*lineMax || strings.Contains(why, "\n") {
		t.Error(why)
	}
}

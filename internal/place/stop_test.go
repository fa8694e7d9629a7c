package place

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// stubborn ends when it is killed, and prints each stop.
func stubborn(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	<-ctx.Done()
	for {
		rung, raised := p.Wanted()
		st := p.Stop()
		p.Write(0, fmt.Appendf(nil, "%s %s %d\n", rung, st.By, st.Again()))
		if p.Trying(rung); rung == jobs.Kill {
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Signaled, Signal: "SIGKILL", Stop: st, Rungs: []jobs.Rung{jobs.Interrupt, jobs.Kill}}}
		}
		<-raised
	}
}

// Each stop reaches the job there, also a repeated one, and the receipt is the one that it wrote there.
func TestStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"stubborn": stubborn})
		j := s.start("stubborn")
		runs(t, j)
		j.Stop(jobs.Stop{By: jobs.Person, Spare: true, Step: time.Hour})
		jobstest.Prints(t, j, "interrupt person 0\n")
		j.Stop(jobs.Stop{By: jobs.Agent, Spare: true})
		jobstest.Prints(t, j, "interrupt person 1\n")
		j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Terminate})
		jobstest.Prints(t, j, "terminate agent 1\n")
		becomes(t, j, "be terminated", func(r jobs.Record, _ jobs.Link) bool { return r.Cancelling == jobs.Terminate })
		j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
		jobstest.EndsAs(t, j, "cancelled (killed)")
	})
}

// A stop while the link is lost is delivered when it is back. It makes an attempt at once.
func TestStopWhileLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		j := s.start("wait")
		runs(t, j)
		time.Sleep(time.Minute)
		s.m.set(func() { s.m.fails = errors.New("no route") })
		s.m.wire().Close()
		lost(t, j)
		time.Sleep(10 * time.Minute)
		n := len(s.m.attempts(0))
		j.Stop(jobs.Stop{By: jobs.Agent})
		synctest.Wait()
		if len(s.m.attempts(0)) != n+1 {
			t.Error("it was not tried at once")
		}
		time.Sleep(time.Second)
		if len(s.m.attempts(0)) != n+1 {
			t.Error("it was tried again at once")
		}
		if r := j.Record(); r.Status != jobs.Running || r.Cancelling != jobs.Interrupt {
			t.Errorf("%+v", r)
		}
		s.m.set(func() { s.m.fails = nil })
		jobstest.EndsAs(t, j, "cancelled (before it ran)") // as waits says
	})
}

// A stop before the job was sent ends it at once.
func TestStopBeforeItWasSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		s.m.set(func() { s.m.slow = 20 * time.Second })
		j := s.start("wait")
		synctest.Wait()
		began := time.Now()
		j.Stop(jobs.Stop{By: jobs.Agent})
		jobstest.EndsAs(t, j, "cancelled (before it ran)")
		if d := time.Since(began); d > 0 {
			t.Errorf("it took %v", d)
		}
		time.Sleep(time.Minute)
		if s.there(j) != nil {
			t.Error("it was sent")
		}
	})
}

// A job that is given up is ended when the place is back, and its receipt says so.
func TestGivenUp(t *testing.T) {
	const lost1 = "given up while gpu was out of reach; "
	for name, c := range map[string]struct {
		back  func(s *stage, j *jobs.Job) // before the place is back
		fate  string
		there string // how it ends there
	}{
		"running": {func(*stage, *jobs.Job) {}, "ended there when it was back", "cancelled (killed)"},
		"ended": {func(s *stage, j *jobs.Job) {
			s.there(j).Stop(jobs.Stop{By: jobs.Program, From: jobs.Kill})
			<-s.there(j).Done()
		}, "ended there when it was back", "cancelled (killed by program)"},
		"gone": {func(s *stage, _ *jobs.Job) { s.m.running().kill() }, "it has ended there with its engine", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStage(t, linktest.Runners{"stubborn": stubborn})
				j := s.start("stubborn")
				runs(t, j)
				s.m.set(func() { s.m.fails = errors.New("no route") })
				s.m.wire().Close()
				lost(t, j)
				j.Stop(jobs.Stop{By: jobs.Agent})
				time.Sleep(10 * time.Minute)
				if r := j.Record(); r.Status != jobs.Running {
					t.Fatalf("%+v", r)
				}
				j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
				r := jobstest.EndsAs(t, j, "cancelled ("+lost1+"it may still run there)")
				if r.Receipt.Stop == nil {
					t.Error("no stop")
				}
				there := s.there(j)
				c.back(s, j)
				s.m.set(func() { s.m.fails = nil })
				await(t, "the fate of the job", func() bool { return j.Record().Receipt.Detail != r.Receipt.Detail })
				jobstest.EndsAs(t, j, "cancelled ("+lost1+c.fate+")")
				if c.there != "" {
					jobstest.EndsAs(t, there, c.there)
				}
				time.Sleep(10 * time.Minute)
				if e := s.m.running(); e != nil || s.m.engines != 1 {
					t.Errorf("%d engines", s.m.engines)
				}
			})
		})
	}
}

// The cancel of a job whose start may have arrived gives it up.
func TestStopOfALostStart(t *testing.T) {
	for _, arrived := range []bool{false, true} {
		t.Run(fmt.Sprint("arrived: ", arrived), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t, linktest.Runners{"stubborn": stubborn})
				m.wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Method != http.MethodPut {
						next.ServeHTTP(w, r)
						return
					}
					if arrived {
						next.ServeHTTP(mute{w}, r)
					}
					<-r.Context().Done()
				}
				s := serve(t, m, nil)
				j := s.start("stubborn")
				await(t, "a link", func() bool {
					return s.host() != nil && s.host().connected() != nil && (!arrived || s.there(j) != nil)
				})
				synctest.Wait()
				m.set(func() { m.fails = errors.New("no route") })
				m.wire().Close()
				if l := lost(t, j); !l.Unknown {
					t.Errorf("%+v", l)
				}
				j.Stop(jobs.Stop{By: jobs.Agent})
				jobstest.EndsAs(t, j, "cancelled (given up while gpu was out of reach; it may still run there)")
				m.set(func() { m.fails = nil })
				fate := "it had not started there, or had ended"
				if arrived {
					fate = "ended there when it was back"
				}
				await(t, "the fate of the job", func() bool { return !strings.Contains(j.Record().Receipt.Detail, "may") })
				jobstest.EndsAs(t, j, "cancelled (given up while gpu was out of reach; "+fate+")")
			})
		})
	}
}

// A mute answer never comes.
type mute struct{ http.ResponseWriter }

func (mute) Write(b []byte) (int, error) { return len(b), nil }
func (mute) WriteHeader(int)             {}
func (mute) Flush()                      {}

// A start that comes after the job was given up, over a link that was slower than the next one, starts nothing.
func TestStartAfterItsStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ran atomic.Int64
		m := newMachine(t, linktest.Runners{"hello": counts(&ran, prints("hello\n"))})
		came, may := make(chan struct{}), make(chan struct{})
		m.wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPut {
				close(came)
				<-may
				r = r.WithContext(context.WithoutCancel(r.Context()))
			}
			next.ServeHTTP(w, r)
		}
		s := serve(t, m, nil)
		j := s.start("hello")
		<-came
		m.set(func() { m.fails = errors.New("no route") })
		m.wire().Close()
		lost(t, j)
		j.Stop(jobs.Stop{By: jobs.Agent})
		jobstest.End(t, j)
		m.set(func() { m.fails = nil })
		await(t, "the fate of the job", func() bool { return !strings.Contains(j.Record().Receipt.Detail, "may") })
		close(may)
		time.Sleep(time.Second)
		if ran.Load() != 0 {
			t.Error("it ran")
		}
		jobstest.EndsAs(t, j, "cancelled (given up while gpu was out of reach; it had not started there, or had ended)")
	})
}

// A goodbye after which the engine here continues, because it keeps another job, ends a job there.
func TestStopOfAGoodbye(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		kept, not := s.startAs(server.Start{Tool: "wait", Kind: jobs.Shell, Keep: true}), s.start("wait")
		runs(t, kept)
		runs(t, not)
		not.Stop(jobs.Stop{By: jobs.Shutdown, From: jobs.Terminate})
		if r := jobstest.EndsAs(t, not, "cancelled (before it ran by shutdown)"); r.Receipt.Detail != "shutdown terminate" { // as waits says
			t.Errorf("%+v", r.Receipt)
		}
		if r := s.there(kept).Record(); r.Status != jobs.Running {
			t.Errorf("%+v", r)
		}
	})
}

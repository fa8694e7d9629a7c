package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/output"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// counted returns a runner that prints numbered lines, some with a pause before them.
func counted(lines int) (run linktest.Runner, want string) {
	var all strings.Builder
	for i := range lines {
		fmt.Fprintf(&all, "line %d of a job\n", i)
	}
	return func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		for line := range strings.Lines(all.String()) {
			if rand.IntN(20) == 0 {
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
			}
			p.Write(output.Stream(rand.IntN(2)), []byte(line))
		}
		return returned
	}, all.String()
}

// No byte is missing or comes twice, wherever links are cut: within a frame, paused, while a start is on its way.
func TestCutsLoseNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		run, want := counted(200)
		var ran atomic.Int64
		s := newStage(t, linktest.Runners{"count": counts(&ran, run)})
		cuts := 0
		s.m.set(func() {
			s.m.cutAfter = func() int64 {
				if cuts++; cuts > 25 {
					return -1
				}
				return rand.Int64N(int64(len(want)) * 12)
			}
		})
		all := make([]*jobs.Job, 100)
		for i := range all {
			all[i] = s.start("count")
			if i%10 == 0 {
				time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
			}
			if i%40 == 0 && len(s.m.attempts(0)) > 0 {
				s.m.set(func() {
					if len(s.m.wires) > 0 {
						s.m.wires[len(s.m.wires)-1].pause()
					}
				})
			}
		}
		for _, j := range all {
			for end := time.Now().Add(time.Hour); !j.Record().Status.Final() && time.Now().Before(end); {
				time.Sleep(time.Second)
			}
			if r, out := j.Record(), jobstest.Output(j); r.Status != jobs.Completed || out != want {
				t.Fatalf("%s: %d bytes of %d", r.Receipt.Text(), len(out), len(want))
			}
			for cursor := int64(0); ; { // each byte is in the stream that it was written to
				_, c := j.Read(cursor, 1<<20)
				_, there := s.there(j).Read(cursor, 1<<20)
				if len(c.Spans) != len(there.Spans) {
					t.Fatalf("%d spans, and %d there", len(c.Spans), len(there.Spans))
				}
				for i, span := range c.Spans {
					if span.Stream != there.Spans[i].Stream || !bytes.Equal(span.Data, there.Spans[i].Data) {
						t.Fatalf("span %d differs", i)
					}
				}
				if c.Next == cursor {
					break
				}
				cursor = c.Next
			}
		}
		if ran.Load() != int64(len(all)) || cuts < 10 {
			t.Errorf("%d of %d jobs ran, %d links", ran.Load(), len(all), cuts)
		}
	})
}

// The engine that had a job has ended: the job fails, and says so. The place is used again.
func TestEngineGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits, "hello": prints("hello\n")})
		shell := s.start("wait")
		python := s.startAs(server.Start{Tool: "wait", Kind: jobs.Python, Session: "a"})
		runs(t, shell)
		runs(t, python)
		if s.ps.Of(jobs.Python, "a") != "gpu" {
			t.Error("the session lives nowhere")
		}
		s.m.running().kill()
		jobstest.EndsAs(t, shell, "failed (the engine on gpu is gone)")
		jobstest.EndsAs(t, python, "failed (the engine on gpu is gone; variables lost)")
		if at := s.ps.Of(jobs.Python, "a"); at != "" {
			t.Errorf("the session lives at %q", at)
		}
		jobstest.EndsAs(t, s.start("hello"), "completed")
	})
}

// An engine that is ended by SIGTERM ends its jobs as a server does. No one here has asked for that: the job fails, and
// says what became of the engine.
func TestEngineThatIsEnded(t *testing.T) {
	for name, unreached := range map[string]error{"the engine on gpu is gone": nil, "the engine on gpu was ended there": errors.New("no route")} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStage(t, linktest.Runners{"wait": waits, "hello": prints("hello\n")})
				shell := s.start("wait")
				python := s.startAs(server.Start{Tool: "wait", Kind: jobs.Python, Session: "a"})
				runs(t, shell)
				runs(t, python)
				s.m.set(func() { s.m.fails = unreached })
				s.m.running().end(false)
				jobstest.EndsAs(t, shell, "failed ("+name+")")
				jobstest.EndsAs(t, python, "failed ("+name+"; variables lost)")
				if by := python.Record().Receipt.By; by != jobs.Unknown {
					t.Errorf("it was ended by %q", by)
				}
				s.m.set(func() { s.m.fails = nil })
				jobstest.EndsAs(t, s.start("hello"), "completed")
			})
		})
	}
}

// If the answer to a start was lost with its engine, the job does not run again in the next one.
func TestStartLostWithItsEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ran atomic.Int64
		m := newMachine(t, linktest.Runners{"hello": counts(&ran, prints("hello\n"))})
		m.wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if m.engines == 1 && r.Method == http.MethodPut {
				<-r.Context().Done() // its answer never comes
				return
			}
			next.ServeHTTP(w, r)
		}
		s := serve(t, m, nil)
		j := s.start("hello")
		becomes(t, j, "be sent", func(jobs.Record, jobs.Link) bool { return s.host() != nil && s.host().connected() != nil })
		synctest.Wait()
		s.m.set(func() { s.m.fails = errors.New("no route") })
		s.m.running().kill()
		l := lost(t, j)
		if r := j.Record(); r.Status != jobs.Queued || !l.Unknown || !l.AsOf.IsZero() {
			t.Errorf("%+v, %+v", r, l)
		}
		never := s.start("hello") // waits for the place, and is sent to the next engine
		synctest.Wait()
		if l := never.Live().Link(); l.Unknown || l.Lost.IsZero() {
			t.Errorf("%+v", l)
		}
		time.Sleep(time.Minute)
		s.m.set(func() { s.m.fails = nil })
		jobstest.EndsAs(t, j, "failed (the engine on gpu is gone, and whether the job had started is unknown)")
		jobstest.EndsAs(t, never, "completed")
		if ran.Load() != 1 {
			t.Errorf("%d jobs ran", ran.Load())
		}
	})
}

// The engine is on the machine that has answered before. Another one has nothing of ours.
func TestAnotherMachine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		j := s.start("wait")
		runs(t, j)
		time.Sleep(time.Minute)
		first := s.m.running()
		s.m.set(func() { s.m.name, s.m.engine = "gpu-\x1bbox", nil })
		s.m.wire().Close()
		becomes(t, j, "see the other machine", func(_ jobs.Record, l jobs.Link) bool {
			return l.Why == `another machine has answered, "gpu-\x1bbox" instead of "gpu-box"; if that one is gone for good, give the place another name in the file of places`
		})
		time.Sleep(time.Hour)
		if r := j.Record(); r.Status != jobs.Running || s.m.engines != 1 {
			t.Errorf("%+v, %d engines", r, s.m.engines)
		}
		s.m.set(func() { s.m.name, s.m.engine = "gpu-box", first })
		becomes(t, j, "come back", func(_ jobs.Record, l jobs.Link) bool { return l.Lost.IsZero() })
	})
}

// A tool that refuses a job says why.
func TestRefusedJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"hello": prints("hello\n")})
		jobstest.EndsAs(t, s.start("none\x1b"), `failed (could not start: there is no tool none\x1b)`)
		jobstest.EndsAs(t, s.start("hello"), "completed")
	})
}

// An ended job whose output is on the way is still running.
func TestOutputBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		text := strings.Repeat("0123456789abcde\n", 1<<18) // 4 MiB
		s := newStage(t, linktest.Runners{"much": func(_ context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			time.Sleep(time.Minute)
			p.Write(output.Stdout, []byte(text))
			return returned
		}})
		j := s.start("much")
		runs(t, j)
		s.m.set(func() {
			s.m.cutAfter = func() int64 { return 2 << 20 }
		})
		s.m.wire().Close()
		time.Sleep(time.Minute)
		becomes(t, j, "be behind", func(r jobs.Record, l jobs.Link) bool {
			return r.Status == jobs.Running && l.Behind > 1<<20
		})
		r := jobstest.EndsAs(t, j, "completed")
		if jobstest.Output(j) != text || r.Output.Loss != (output.Loss{}) {
			t.Error("output is missing")
		}
	})
}

// What an engine there has dropped of the output is dropped here, too, and named.
func TestDroppedOutput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"skip": func(_ context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			p.Write(output.Stdout, []byte("before\n"))
			if err := p.Skip(1<<40, output.Loss{Cap: 1 << 39}); err != nil {
				t.Error(err)
			}
			p.Write(output.Stdout, []byte("after\n"))
			return returned
		}})
		j := s.start("skip")
		r := jobstest.EndsAs(t, j, "completed")
		if r.Output.End != 1<<40+6 || jobstest.Output(j) != "before\nafter\n" || r.Receipt.LostOutput.Cap != 1<<39 {
			t.Errorf("%+v", r)
		}
	})
}

// Clocks an hour apart: times are those of the clock here.
func TestClockDifference(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t, linktest.Runners{"sleep": func(_ context.Context, p *jobs.Port) jobs.Outcome {
					p.Begin()
					time.Sleep(10 * time.Second)
					return returned
				}})
				m.wrap = clock(ahead)
				s := serve(t, m, nil)
				began := time.Now()
				r := jobstest.EndsAs(t, s.start("sleep"), "completed")
				if d := r.Started.Sub(began); d < 0 || d > time.Second {
					t.Errorf("started %v after it began", d)
				}
				if d := r.Ended.Sub(r.Started); d < 9*time.Second || d > 11*time.Second {
					t.Errorf("it took %v", d)
				}
			})
		})
	}
}

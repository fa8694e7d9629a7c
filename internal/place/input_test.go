package place

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// asks asks again and again, prints what comes, and ends with "end".
func asks(ctx context.Context, p *jobs.Port) jobs.Outcome {
	lines := make(chan string, 100)
	p.SetInput(func(_ context.Context, in jobs.Input) (jobs.Delivery, error) {
		if in.Text == "refuse" {
			return jobs.Delivery{}, jobs.ErrNotReading
		}
		if in.Text == "slow" {
			time.Sleep(20 * time.Second)
		}
		p.SetRunning()
		lines <- in.Text
		return jobs.Delivery{Waiting: true, Note: "a\x1bnote"}, nil
	})
	p.Begin()
	for {
		p.SetWaiting(jobs.Question{Kind: "line", Prompt: "say: "})
		var text string
		select {
		case text = <-lines:
		case <-ctx.Done():
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: p.Stop()}}
		}
		p.Write(output.Stdout, []byte(text+"\n"))
		if text == "end" {
			return returned
		}
	}
}

func TestInput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"ask": asks})
		j := s.start("ask")
		for _, text := range []string{"a", "b", "c"} {
			if q := jobstest.Asks(t, j); q.Prompt != "say: " {
				t.Errorf("%+v", q)
			}
			if d := jobstest.Send(t, j, jobs.Input{Text: text, Line: true}); !d.Waiting || d.Note != `a\x1bnote` {
				t.Errorf("%+v", d)
			}
			jobstest.Prints(t, j, text)
		}
		jobstest.Asks(t, j)
		if _, err := j.Send(t.Context(), jobs.Input{Text: "refuse"}); err == nil {
			t.Error("it was not refused")
		} else if !errors.Is(err, jobs.ErrNotReading) {
			t.Errorf("the reason is lost: %v", err)
		}
		jobstest.Send(t, j, jobs.Input{Text: "end", Line: true})
		jobstest.EndsAs(t, j, "completed")
		if out := jobstest.Output(j); out != "a\nb\nc\nend\n" {
			t.Errorf("%q", out)
		}
	})
}

// Input while the link is lost is not delivered, and says so.
func TestInputWhileLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"ask": asks})
		j := s.start("ask")
		jobstest.Asks(t, j)
		s.m.set(func() { s.m.fails = errors.New("no route") })
		s.m.wire().Close()
		lost(t, j)
		if _, err := j.Send(t.Context(), jobs.Input{Text: "a"}); err == nil || !strings.HasPrefix(err.Error(), "not delivered: gpu is out of reach") {
			t.Error(err)
		}
		if l := j.Live().Link(); l.Input != "not delivered" {
			t.Errorf("%+v", l)
		}
		s.m.set(func() { s.m.fails = nil })
		time.Sleep(time.Hour)
		if l := j.Live().Link(); l.Input != "not delivered" || jobstest.Output(j) != "" {
			t.Errorf("%+v, %q", l, jobstest.Output(j))
		}
		jobstest.Send(t, j, jobs.Input{Text: "end"})
		jobstest.EndsAs(t, j, "completed")
	})
}

// If the link is lost while input is on its way, a later status says whether it was delivered. It is delivered once.
func TestInputLostOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		arrives bool
		late    bool // it comes after its sender has asked for it
		text    string
		slow    bool // the link stays, and the answer is late
		says    string
	}{
		"arrived":             {arrives: true, says: "delivered, although the link was lost then"},
		"arrived, being done": {arrives: true, text: "slow", says: "delivered, although the link was lost then"},
		"arrived too late":    {arrives: true, late: true, says: "not delivered"},
		"not arrived":         {says: "not delivered"},
		"slow":                {arrives: true, text: "slow", slow: true, says: "delivered, although the link was lost then"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				came := make(chan struct{}, 10)
				first := true
				m := newMachine(t, linktest.Runners{"ask": func(ctx context.Context, p *jobs.Port) jobs.Outcome {
					return asks(ctx, p)
				}})
				m.wrap = on("/input", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if !first {
						next.ServeHTTP(w, r)
						return
					}
					first = false
					came <- struct{}{}
					if c.arrives {
						if c.late {
							time.Sleep(20 * time.Second)
						}
						next.ServeHTTP(mute{w}, r.WithContext(context.WithoutCancel(r.Context())))
					}
					<-r.Context().Done()
				})
				s := serve(t, m, nil)
				j := s.start("ask")
				jobstest.Asks(t, j)
				time.Sleep(time.Minute)
				sent := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_, err := j.Send(ctx, jobs.Input{Text: cmp.Or(c.text, "hello")})
					sent <- err
				}()
				<-came
				if !c.slow {
					time.Sleep(time.Second)
					m.set(func() { m.fails = errors.New("no route") })
					m.wire().Close()
				}
				if err := <-sent; err == nil || !strings.HasPrefix(err.Error(), "not known to be delivered: the link to gpu was lost or slow") {
					t.Error(err)
				}
				if l := j.Live().Link(); l.Input != "not known to be delivered" {
					t.Errorf("%+v", l)
				}
				m.set(func() { m.fails = nil })
				becomes(t, j, "know what became of it", func(_ jobs.Record, l jobs.Link) bool { return l.Input != "not known to be delivered" })
				if l := j.Live().Link(); l.Input != c.says {
					t.Errorf("%+v", l)
				}
				if c.late {
					time.Sleep(time.Minute)
				} else if c.arrives {
					jobstest.Prints(t, j, cmp.Or(c.text, "hello")+"\n")
				}
				becomes(t, j, "ask", func(r jobs.Record, _ jobs.Link) bool { return r.Status == jobs.WaitingInput })
				jobstest.Send(t, j, jobs.Input{Text: "end"})
				jobstest.EndsAs(t, j, "completed")
				if n := strings.Count(jobstest.Output(j), cmp.Or(c.text, "hello")); n > 1 || (c.arrives && !c.late) != (n == 1) {
					t.Errorf("it came %d times", n)
				}
			})
		})
	}
}

// One input can answer a question that comes while it is typed, such as that of a program which has redrawn its
// prompt for a new size. The job does not ask then, although the news of that is late.
func TestInputAnswersWhatCameMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t, linktest.Runners{"ask": func(ctx context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			p.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) {
				p.SetRunning()
				p.SetWaiting(jobs.Question{Kind: "line", Prompt: "redrawn: "})
				time.Sleep(time.Second) // it comes here
				p.SetRunning()
				return jobs.Delivery{Waiting: true}, nil
			})
			p.SetWaiting(jobs.Question{Kind: "line", Prompt: "first: "})
			<-ctx.Done()
			return returned
		}})
		var late atomic.Bool
		m.wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/input") {
				time.AfterFunc(time.Second/2, func() { late.Store(true) })
				next.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(lagging{w, &late}, r)
		}
		s := serve(t, m, nil)
		j := s.start("ask")
		jobstest.Asks(t, j)
		jobstest.Send(t, j, jobs.Input{Text: "a"})
		if r := j.Record(); r.Status != jobs.Running || r.Asked != 2 {
			t.Errorf("it is %s and has asked %d times: %+v", r.Status, r.Asked, r.Question)
		}
		late.Store(false)
		j.Stop(jobs.Stop{By: jobs.Agent})
		jobstest.EndsAs(t, j, "completed")
	})
}

// A new size of the terminal answers no question.
func TestSizeAnswersNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"ask": func(ctx context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			p.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) { return jobs.Delivery{Waiting: true}, nil })
			p.SetWaiting(jobs.Question{Kind: "line", Prompt: "first: "})
			<-ctx.Done()
			return returned
		}})
		j := s.start("ask")
		jobstest.Asks(t, j)
		jobstest.Send(t, j, jobs.Input{Size: jobs.Size{Rows: 40, Cols: 120}})
		synctest.Wait()
		if r := j.Record(); r.Status != jobs.WaitingInput {
			t.Errorf("it is %s", r.Status)
		}
		j.Stop(jobs.Stop{By: jobs.Agent})
		jobstest.EndsAs(t, j, "completed")
	})
}

// A lagging writer sends nothing for a while.
type lagging struct {
	http.ResponseWriter
	late *atomic.Bool
}

func (l lagging) Flush() {
	for l.late.Load() {
		time.Sleep(time.Millisecond)
	}
	l.ResponseWriter.(http.Flusher).Flush()
}

func (l lagging) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// What became of input is not known if its engine is gone.
func TestInputLostWithItsEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t, linktest.Runners{"ask": asks})
		came := make(chan struct{})
		m.wrap = on("/input", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			close(came)
			<-r.Context().Done()
		})
		s := serve(t, m, nil)
		j := s.start("ask")
		jobstest.Asks(t, j)
		go func() {
			<-came
			m.running().kill()
		}()
		if _, err := j.Send(t.Context(), jobs.Input{Text: "hello"}); err == nil {
			t.Error("it was delivered")
		}
		jobstest.EndsAs(t, j, "failed (the engine on gpu is gone)")
	})
}

package place

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/output"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// What a thread of Python prints after the end of its job follows it, also what it has printed while the link was
// lost, once each.
func TestLateOutput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ports := make(chan *jobs.Port, 1)
		s := newStage(t, linktest.Runners{"thread": func(_ context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			p.Write(output.Stdout, []byte("now\n"))
			ports <- p
			return returned
		}})
		s.m.holds = true // the session has a thread
		j := s.startAs(server.Start{Tool: "thread", Kind: jobs.Python, Session: "gpu"})
		jobstest.EndsAs(t, j, "completed")
		want := "now\n"
		prints := func(p *jobs.Port, text string) {
			want += text
			p.Write(output.Stdout, []byte(text))
		}
		shown := func() {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := jobstest.Output(j); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		p := <-ports
		prints(p, "one\n")
		shown()
		prints(p, "two\n")
		prints(p, "three\n")
		shown()
		s.m.set(func() { s.m.fails = errors.New("no route") })
		s.m.wire().Close()
		prints(p, "four\n")
		s.m.set(func() { s.m.fails = nil })
		jobstest.EndsAs(t, s.start("nothing"), "failed (could not start: there is no tool nothing)") // a call opens the link again
		shown()
		if st := j.Log().Stat(); st.Final != int64(len("now\n")) {
			t.Errorf("late output counts as output of the job: %+v", st)
		}
	})
}

package waits

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/search"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A program is a job that does what the test says, one step after another, until the channel is
// closed.
type program chan func(*jobs.Port)

func (p program) Run(ctx context.Context, port *jobs.Port) jobs.Outcome {
	port.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) {
		port.SetRunning()
		return jobs.Delivery{Waiting: true}, nil
	})
	port.Begin()
	for {
		select {
		case step, ok := <-p:
			if !ok {
				return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited}}
			}
			step(port)
		case <-ctx.Done():
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited}}
		}
	}
}

// start starts a job.
func start(t testing.TB, r *jobs.Registry) (*jobs.Job, program) {
	t.Helper()
	p := make(program)
	return jobstest.Start(t, r, jobs.Spec{Kind: jobs.Shell}, p), p
}

// does lets the job do something, and returns when it has.
func (p program) does(f func(*jobs.Port)) {
	done := make(chan struct{})
	p <- func(port *jobs.Port) { defer close(done); f(port) }
	<-done
}

func (p program) prints(text string) { p.writes(output.TTY, text) }

func (p program) writes(s output.Stream, text string) {
	p.does(func(port *jobs.Port) { port.Write(s, []byte(text)) })
}

func (p program) asks() {
	p.does(func(port *jobs.Port) { port.SetWaiting(jobs.Question{Kind: "line"}) })
}

// registry returns a registry whose logs are in memory.
func registry(t testing.TB) *jobs.Registry {
	r := jobs.NewRegistry(jobs.Config{})
	t.Cleanup(func() { r.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill}) })
	return r
}

// expression returns a pattern, or nil for "".
func expression(t testing.TB, pattern string) *search.Pattern {
	t.Helper()
	if pattern == "" {
		return nil
	}
	return must.Get(search.Compile(pattern))(t)
}

// later takes steps beside the test, each of them after d. It ends with the bubble.
func later(d time.Duration, steps ...func()) {
	go func() {
		for _, step := range steps {
			time.Sleep(d)
			step()
		}
	}()
}

// wait waits for one job.
func wait(t testing.TB, j *jobs.Job, c Conditions, d time.Duration) Outcome {
	t.Helper()
	return Wait(t.Context(), []*jobs.Job{j}, c, d)[0]
}

// said returns the lines of a reply about an outcome. The id of the job is ID.
func said(c Conditions, o Outcome) string {
	r := &report.Reply{}
	r.Line("Condition", c.Describe([]Outcome{o}))
	c.Add(r, o)
	return strings.ReplaceAll(r.String(), o.record.ID, "ID")
}

// Output that exists is checked, and the reply says what matches, what its groups hold and where
// to continue.
func TestWaitFindsWhatWasPrinted(t *testing.T) {
	for _, tt := range []struct {
		name, printed, pattern, stop string
		from                         int64
		want                         string
	}{
		{"a line", "one\nListening on 8080\nthree\n", `on (\d+)`, "", 0,
			"Condition: met: job ID matches pattern\nMatched: stdout 4: Listening on 8080\nCaptured: 1=8080\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=22)\n"},
		{"the last line, without an end", "one\nPort 8080? ", `(?P<what>\w+) (\d+)(x)?`, "", 0,
			"Condition: met: job ID matches pattern\nMatched: stdout 4: Port 8080? \nCaptured: what=Port\nCaptured: 2=8080\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=15)\n"},
		{"from a cursor on", "ready\nready\n", "ready", "", 6,
			"Condition: met: job ID matches pattern\nMatched: stdout 6: ready\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=12)\n"},
		{"the rest of a line", "ready\n", "eady", "", 1,
			"Condition: met: job ID matches pattern\nMatched: stdout 1: eady\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=6)\n"},
		{"nothing", "ready\nset", "go", "stop", 0,
			"Condition: not met; call again to wait longer\nNext: wait_for_jobs(job_ids=[…], pattern=…, stop_pattern=…, cursor=0)\n"},
		{"colours", "a\r\n\x1b[32mrea\x1b[1mdy\x1b[0m\r\nc\r\n", "^ready$", "", 0,
			"Condition: met: job ID matches pattern\nMatched: stdout 3: ready\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=23)\n"},
		{"a bar as it is", "10%\r50%\r100%\n", "50%", "", 0,
			"Condition: not met; call again to wait longer\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=0)\n"},
		{"an error", "ok\nerror: no\nready\n", "ready", "error", 0,
			"Condition: stopped: job ID matches stop_pattern\nMatched: stdout 3: error: no\nNext: wait_for_jobs(job_ids=[…], pattern=…, stop_pattern=…, cursor=13)\n"},
		{"an error after it", "ready\nerror: no\n", "ready", "error", 0,
			"Condition: met: job ID matches pattern\nMatched: stdout 0: ready\nNext: wait_for_jobs(job_ids=[…], pattern=…, stop_pattern=…, cursor=6)\n"},
		{"both in one line", "ready with 1 error\n", "ready", "error", 0,
			"Condition: stopped: job ID matches stop_pattern\nMatched: stdout 0: ready with 1 error\nNext: wait_for_jobs(job_ids=[…], pattern=…, stop_pattern=…, cursor=19)\n"},
		{"bytes that are no text", "\xff\x00\x1b[", `\x{FFFD}`, "", 0,
			"Condition: met: job ID matches pattern\nMatched: stdout 0: \uFFFD\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=4)\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			j, p := start(t, registry(t))
			p.prints(tt.printed)
			c := Conditions{Pattern: expression(t, tt.pattern), Stop: expression(t, tt.stop), From: tt.from}
			if diff := cmp.Diff(tt.want, said(c, wait(t, j, c, 0))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
		})
	}
}

// Output that comes during the wait ends it: at once if it is a whole line.
func TestWaitIsWokenByOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, p := start(t, registry(t))
		later(20*time.Second, func() { p.prints("noise\n") }, func() { p.prints("ready\n") })
		begin := time.Now()
		o := wait(t, j, Conditions{Pattern: expression(t, "ready")}, time.Hour)
		if took := time.Since(begin); o.event != matched || took != 40*time.Second {
			t.Errorf("event %d after %v", o.event, took)
		}
	})
}

// A match that two writes cut has all of its line, if the second one comes within 50 ms.
func TestWaitLetsALineSettle(t *testing.T) {
	for _, tt := range []struct {
		first, second string
		want          string
		took          time.Duration
	}{
		{"port 80", "80\n", "port 8080", 1040 * time.Millisecond},
		{"port 80", "80", "port 8080", 1090 * time.Millisecond},
		{"port 80", "80.\r\nport 2", "port 8080.", 1040 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			j, p := start(t, registry(t))
			go func() { // ends with the bubble
				time.Sleep(time.Second)
				p.prints(tt.first)
				time.Sleep(40 * time.Millisecond)
				p.prints(tt.second)
			}()
			begin := time.Now()
			o := wait(t, j, Conditions{Pattern: expression(t, `port \d+`)}, time.Hour)
			if took := time.Since(begin); o.event != matched || o.match.text != tt.want || took != tt.took {
				t.Errorf("%q, %q: %+v after %v", tt.first, tt.second, o.match, took)
			}
		})
	}
}

// A line that never rests counts after half a second.
func TestWaitSeesALineThatNeverRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, p := start(t, registry(t))
		stop, stopped := make(chan struct{}), make(chan struct{})
		defer func() { close(stop); <-stopped }()
		go func() { // ends with stop
			defer close(stopped)
			for {
				select {
				case <-time.After(20 * time.Millisecond):
					p.prints("\rworking…")
				case <-stop:
					return
				}
			}
		}()
		begin := time.Now()
		o := wait(t, j, Conditions{Pattern: expression(t, "working")}, time.Hour)
		if took := time.Since(begin); o.event != matched || took > time.Second {
			t.Errorf("event %d after %v", o.event, took)
		}
	})
}

// A job is quiet when it has printed nothing for so long since the call, and since it was started.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, p := start(t, registry(t))
		p.prints("x")
		time.Sleep(time.Hour)
		go func() { // ends with the bubble
			for range 5 {
				time.Sleep(3 * time.Second)
				p.prints("x")
			}
		}()
		begin := time.Now()
		c := Conditions{Quiet: 5 * time.Second}
		o := wait(t, j, c, time.Minute)
		if took := time.Since(begin); took != 20*time.Second || said(c, o) != "Condition: met: job ID has printed nothing for 5.0s\n" {
			t.Errorf("after %v: %s", took, said(c, o))
		}
		if o := wait(t, j, c, 4*time.Second); o.event != nothing {
			t.Errorf("event %d after silence before the call", o.event)
		}
	})
}

// Ends and questions end a wait. With a pattern, they don't meet its condition.
func TestEndsAndQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pattern, other := Conditions{Pattern: expression(t, "ready")}, Conditions{Stop: expression(t, "ready"), Quiet: time.Minute}
		check := func(j *jobs.Job, c Conditions, want string) {
			t.Helper()
			if got := said(c, wait(t, j, c, time.Hour)); got != "Condition: "+want+"\n" {
				t.Errorf("%s, want %s", got, want)
			}
		}
		r := registry(t)
		j, p := start(t, r)
		later(time.Second, func() { p.prints("name? "); p.asks() })
		check(j, pattern, "not met: job ID waits for input")
		check(j, other, "met: job ID waits for input")
		check(j, Conditions{Pattern: expression(t, `name\?`)}, "met: job ID matches pattern\nMatched: stdout 0: name? ")
		jobstest.Send(t, j, jobs.Input{Text: "x\n"})
		later(time.Second, func() { close(p) })
		for range 2 { // the second one is answered at once
			check(j, pattern, "not met: job ID completed without a match of pattern")
			check(j, other, "met: job ID completed")
		}
		if time.Since(j.Record().Ended) != 0 {
			t.Error("waits for an ended job take time")
		}
		last, p := start(t, r)
		later(time.Second, func() { p.prints("ready"); close(p) })
		check(last, pattern, "met: job ID matches pattern\nMatched: stdout 0: ready")
	})
}

package conditions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/lines"
	"asyncrepl/internal/output"
	"asyncrepl/internal/report"
	"asyncrepl/internal/search"
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

func expression(t testing.TB, pattern string) *search.Pattern {
	t.Helper()
	p, err := compile("pattern", pattern)
	if err != nil {
		t.Fatal(err)
	}
	return p
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
	return strings.ReplaceAll(r.String(), o.info.ID, "ID")
}

// Output that exists is looked at, and the reply says what matches, what its groups hold and where
// to go on.
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
		go func() { // ends with the bubble
			time.Sleep(20 * time.Second)
			p.prints("noise\n")
			time.Sleep(20 * time.Second)
			p.prints("ready\n")
		}()
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
		r := registry(t)
		j, p := start(t, r)
		go func() { // ends with the bubble
			time.Sleep(time.Second)
			p.prints("name? ")
			p.asks()
		}()
		if got, want := said(pattern, wait(t, j, pattern, time.Hour)), "Condition: not met: job ID waits for input\n"; got != want {
			t.Errorf("%s", got)
		}
		if got, want := said(other, wait(t, j, other, time.Hour)), "Condition: met: job ID waits for input\n"; got != want {
			t.Errorf("%s", got)
		}
		asked := Conditions{Pattern: expression(t, `name\?`)}
		if got, want := said(asked, wait(t, j, asked, time.Hour)), "Condition: met: job ID matches pattern\nMatched: stdout 0: name? \n"; got != want {
			t.Errorf("%s", got)
		}
		jobstest.Send(t, j, jobs.Input{Text: "x\n"})
		go func() { // ends with the bubble
			time.Sleep(time.Second)
			close(p)
		}()
		for range 2 { // the second one is answered at once
			if got, want := said(pattern, wait(t, j, pattern, time.Hour)), "Condition: not met: job ID completed without a match of pattern\n"; got != want {
				t.Errorf("%s", got)
			}
			if got, want := said(other, wait(t, j, other, time.Hour)), "Condition: met: job ID completed\n"; got != want {
				t.Errorf("%s", got)
			}
		}
		if time.Since(j.Info().Ended) != 0 {
			t.Error("waits for an ended job take time")
		}
		last, p := start(t, r)
		go func() { // ends with the bubble
			time.Sleep(time.Second)
			p.prints("ready")
			close(p)
		}()
		if got, want := said(pattern, wait(t, last, pattern, time.Hour)), "Condition: met: job ID matches pattern\nMatched: stdout 0: ready\n"; got != want {
			t.Errorf("%s", got)
		}
	})
}

// With Every, each job must meet the conditions. What makes that impossible ends the wait.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t)
		one, p1 := start(t, r)
		two, p2 := start(t, r)
		all := []*jobs.Job{one, two}
		names := strings.NewReplacer(one.ID(), "ONE", two.ID(), "TWO")
		check := func(c Conditions, d time.Duration, want string) {
			t.Helper()
			if got := names.Replace(c.Describe(Wait(t.Context(), all, c, d))); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		p1.prints("ready\n")
		c := Conditions{Pattern: expression(t, "ready"), Stop: expression(t, "error"), Every: true}
		check(c, time.Second, "not met by 1 of 2: job ONE matches pattern; call again to wait longer")
		any := c
		any.Every = false
		check(any, time.Hour, "met: job ONE matches pattern")
		check(Conditions{Quiet: time.Second, Every: true}, time.Minute, "met: job ONE has printed nothing for 1.0s, job TWO has printed nothing for 1.0s")
		go func() { // ends with the bubble
			time.Sleep(time.Second)
			p2.prints("ready\n")
		}()
		check(c, time.Hour, "met: job ONE matches pattern, job TWO matches pattern")
		p1.prints("fatal\n")
		stop := Conditions{Pattern: expression(t, "steady"), Stop: expression(t, "fatal"), Every: true}
		check(stop, time.Hour, "stopped: job ONE matches stop_pattern")
		close(p1)
		jobstest.End(t, one)
		never := Conditions{Pattern: expression(t, "steady"), Every: true}
		check(never, time.Hour, "not met: job ONE completed without a match of pattern")
		check(Conditions{Quiet: time.Second, Every: true}, time.Minute, "met: job ONE completed, job TWO has printed nothing for 1.0s")
		check(Conditions{Every: true}, time.Minute, "not met: 1 of 2 have ended; call again to wait longer")
		close(p2)
		check(Conditions{Every: true}, time.Hour, "met: all have ended")
	})
}

// Waits that go on where the one before says find each match once, however the output was written.
func TestWaitsGoOn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		var text strings.Builder
		var want []string
		for i := range 300 {
			line := fmt.Sprintf("line %d", i)
			switch rnd.IntN(4) {
			case 0:
				text.WriteString("\x1b[1m" + line + "\x1b[0m\r\n")
			case 1:
				text.WriteString("\rdrawn over\r\x1b[K" + line + "\n")
			default:
				text.WriteString(line + "\n")
			}
			if i%7 == 3 {
				want = append(want, line)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			j, p := start(t, registry(t))
			rest := text.String()
			go func() { // ends with the bubble
				for rest != "" {
					n := min(1+rnd.IntN(1<<rnd.IntN(10)), len(rest))
					p.prints(rest[:n])
					rest = rest[n:]
					time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
				}
				close(p)
			}()
			var numbers []string
			for i := 3; i < 300; i += 7 {
				numbers = append(numbers, fmt.Sprint(i))
			}
			c := Conditions{Pattern: expression(t, `^line (`+strings.Join(numbers, "|")+`)$`)}
			var got []string
			for {
				o := wait(t, j, c, time.Hour)
				if o.event != matched {
					break
				}
				got = append(got, o.match.text)
				if o.next <= c.From {
					t.Fatalf("cursor %d after %d", o.next, c.From)
				}
				c.From = o.next
			}
			// A line that two writes cut can be seen as it was for 50 ms, but writes come sooner here.
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("round %d (-want +got):\n%s", round, diff)
			}
		})
	}
}

// A match in the middle of much output is found, on disk or not, and one in a line of many pieces.
func TestWaitFindsInAFlood(t *testing.T) {
	size := 64 << 20
	if testing.Short() { // it writes as much
		size = 8 << 20
	}
	j, p := start(t, jobstest.Registry(t))
	at := make(chan int64, 1)
	go func() { // ends with the job
		p.does(func(port *jobs.Port) {
			noise := []byte(strings.Repeat("noise and more noise, all of it in lines\n", 1000))
			for written := 0; written < size; written += len(noise) {
				if written <= size/2 && written+len(noise) > size/2 {
					at <- port.Output().Stat().End
					port.Write(output.TTY, []byte("the nee"))
					port.Write(output.TTY, []byte("dle\n"))
				}
				port.Write(output.TTY, noise)
			}
			port.Write(output.TTY, []byte(strings.Repeat("x", 3<<20)+"sting"+strings.Repeat("y", 2<<20)+"\n"))
		})
		close(p)
	}()
	c := Conditions{Pattern: expression(t, "need.e")}
	o := wait(t, j, c, jobstest.Patience)
	if o.event != matched || o.match.at != <-at || o.next != o.match.at+int64(len("the needle\n")) || o.match.text != "the needle" {
		t.Errorf("%+v", o)
	}
	long := Conditions{Pattern: expression(t, "xsting"), From: o.next}
	if o := wait(t, j, long, jobstest.Patience); o.event != matched || !strings.Contains(o.match.text, "xxxstingyyy") {
		t.Errorf("event %d: %+v", o.event, o.match)
	}
	if o := wait(t, j, Conditions{Pattern: expression(t, "needless"), From: o.next}, jobstest.Patience); o.event != ended {
		t.Errorf("event %d: %+v", o.event, o.match)
	}
}

// A match is found where a line that is too long to be looked at in one piece is cut.
func TestWaitFindsBetweenPieces(t *testing.T) {
	r := jobstest.Registry(t)
	const piece = 1<<20 + 1024
	for _, at := range []int{100, piece - 7, piece - 3, piece, 2*piece - 3, 3 * piece} {
		j, p := start(t, r)
		p.prints(strings.Repeat("x", at) + "needle" + strings.Repeat("y", 4<<20-at))
		o := wait(t, j, Conditions{Pattern: expression(t, "xneedley")}, jobstest.Patience)
		if o.event != matched || o.match.at != 0 || !strings.Contains(o.match.text, "xneedley") {
			t.Errorf("at %d: event %d, %+v", at, o.event, o.match)
		}
	}
}

// Streams are texts of their own.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, p := start(t, registry(t))
		p.writes(output.Stdout, "half of ")
		p.writes(output.Stderr, "an error\n")
		p.writes(output.Stdout, "a line\n")
		o := wait(t, j, Conditions{Pattern: expression(t, "half of a line")}, 0)
		if o.event != matched || o.match.section != lines.Stdout || o.match.at != 0 {
			t.Errorf("%+v", o.match)
		}
		o = wait(t, j, Conditions{Pattern: expression(t, "error")}, 0)
		if o.event != matched || o.match.section != lines.Stderr || o.match.at != 8 || o.next != 17 {
			t.Errorf("%+v", o.match)
		}
		// Who goes on after a match finds what another stream has printed before the next line of its own.
		p.writes(output.Stdout, "match 1\n")
		p.writes(output.Stderr, "match 2\n")
		p.writes(output.Stdout, strings.Repeat("noise\n", 1<<16)+"match 3\n")
		c := Conditions{Pattern: expression(t, "^match")}
		for i := range 3 {
			o := wait(t, j, c, 0)
			if want := fmt.Sprintf("match %d", i+1); o.event != matched || o.match.text != want {
				t.Fatalf("%+v, want %s", o.match, want)
			}
			c.From = o.next
		}
	})
}

// counting counts the calls of its logs' readers.
type counting struct {
	output.Store
	calls atomic.Int64
}

type countingLog struct {
	output.Log
	calls *atomic.Int64
}

func (s *counting) NewLog(id string) output.Log { return &countingLog{s.Store.NewLog(id), &s.calls} }

func (l *countingLog) Read(cursor int64, limit int) output.Chunk {
	l.calls.Add(1)
	return l.Log.Read(cursor, limit)
}

func (l *countingLog) Wait(ctx context.Context, cursor int64) error {
	l.calls.Add(1)
	return l.Log.Wait(ctx, cursor)
}

func (l *countingLog) Stat() output.Stat {
	l.calls.Add(1)
	return l.Log.Stat()
}

// A thousand waiters whose jobs print nothing do nothing, however long they wait. One whose job
// writes without pause looks at it a hundred times a second at most.
func TestIdleWaitersDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: output.NewStore(output.Config{})}
		r := jobs.NewRegistry(jobs.Config{Logs: store})
		defer r.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
		c := Conditions{Pattern: expression(t, `listening on (\d+)`), Stop: expression(t, "error|panic"), Quiet: 2 * time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		var jobs1000 []*jobs.Job
		for range 999 {
			j, p := start(t, r)
			p.prints("starting…\n> ")
			jobs1000 = append(jobs1000, j)
		}
		busy, p := start(t, r)
		jobs1000 = append(jobs1000, busy)
		over := make(chan struct{})
		go func() { defer close(over); Wait(ctx, jobs1000, c, 3*time.Hour) }() // ends with ctx
		time.Sleep(time.Second)
		before := store.calls.Load()
		time.Sleep(time.Hour)
		if n := store.calls.Load() - before; n != 0 {
			t.Errorf("%d calls within an hour", n)
		}
		for range 10_000 {
			p.prints("noise\n")
			time.Sleep(100 * time.Microsecond)
		}
		if n := store.calls.Load() - before; n > 600 { // 5 a look, and some of Write's own
			t.Errorf("%d calls for a second of output", n)
		}
		cancel()
		<-over
	})
}

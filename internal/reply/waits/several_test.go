package waits

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

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/lines"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

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
		later(time.Second, func() { p2.prints("ready\n") })
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

// Of many jobs, the reply names the one that has ended the wait for all of them.
func TestWaitNamesWhatEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t)
		var all []*jobs.Job
		for i := range 5 {
			j, p := start(t, r)
			all = append(all, j)
			p.prints([]string{"ready\n", "fatal\n"}[i/4])
			defer jobstest.End(t, j)
			defer close(p)
		}
		c := Conditions{Pattern: expression(t, "ready"), Stop: expression(t, "fatal"), Every: true}
		got := c.Describe(Wait(t.Context(), all, c, time.Hour))
		if want := "stopped: job " + all[4].ID() + " matches stop_pattern"; !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// Waits that continue where the one before says find each match once, however the output was
// written.
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
	t.Parallel()
	racetest.Skip(t)
	size := 16 << 20
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
	t.Parallel()
	racetest.Skip(t)
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
		// A wait that continues after a match finds what another stream has printed before the next line
		// of its own.
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
		if n := store.calls.Load() - before; n > 600 { // 5 a scan, and some of Write's own
			t.Errorf("%d calls for a second of output", n)
		}
		cancel()
		<-over
	})
}

// A program that begins to take input during a wait ends it, once nothing has changed for two
// seconds. It does not end a later wait, nor one that began after it.
func TestReaderEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t)
		j, p := start(t, r)
		other, _ := start(t, r)
		reads := func(by string) {
			p.does(func(port *jobs.Port) { port.SetAccepts(jobs.Reader{Kind: "line", By: by}) })
		}
		begin := func() { reads("vite") }
		end := func() { p.does(func(port *jobs.Port) { port.SetAccepts(jobs.Reader{}) }) }
		pattern := Conditions{Pattern: expression(t, "ready")}
		for _, tt := range []struct {
			name  string
			c     Conditions
			steps []func()
			took  time.Duration
			want  string
		}{
			{"one of them", Conditions{}, []func(){begin}, 3 * time.Second, "met: job ID accepts input"},
			{"before the wait", Conditions{}, nil, time.Minute, "not met: 0 of 2 have ended; call again to wait longer"},
			{"all, and it prints", Conditions{Every: true}, []func(){end, begin, func() { p.prints("x\n") }}, 5 * time.Second, "met: job ID accepts input"},
			{"a pattern", pattern, []func(){end, begin}, 4 * time.Second, "not met: job ID accepts input"},
			{"a pattern, again", pattern, nil, time.Minute, "not met; call again to wait longer"},
			{"silence", Conditions{Quiet: 50 * time.Second, Every: true}, []func(){func() { reads("npm") }}, 3 * time.Second, "met: job ID accepts input"},
			{"too short", Conditions{}, []func(){end, begin, end}, time.Minute, "not met: 0 of 2 have ended; call again to wait longer"},
		} {
			later(time.Second, tt.steps...)
			began := time.Now()
			outcomes := Wait(t.Context(), []*jobs.Job{j, other}, tt.c, time.Minute)
			if took := time.Since(began); took != tt.took {
				t.Errorf("%s: the wait ended after %v, want %v", tt.name, took, tt.took)
			}
			if got := strings.ReplaceAll(tt.c.Describe(outcomes), j.ID(), "ID"); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	})
}

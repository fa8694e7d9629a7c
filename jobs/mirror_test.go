package jobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
)

// away starts a puppet that runs at a place.
func (s stage) away() puppet {
	s.t.Helper()
	return s.queue(Spec{Kind: Python, Session: "default", Title: "train()", Timeout: time.Minute, Place: "gpu"})
}

// A status is mirrored along the table, also if the place reports only some of the moves.
func TestMirrorFollowsTheStatus(t *testing.T) {
	q, other := &Question{Kind: "line", Prompt: "name? "}, &Question{Kind: "secret", Prompt: "password: "}
	for name, far := range map[string][]Record{
		"each move":     {{Status: Queued}, {Status: Running}, {Status: WaitingInput, Question: q, Asked: 1}, {Status: Running, Asked: 1}, {Status: Completed}},
		"to a question": {{Status: WaitingInput, Question: q, Asked: 3}, {Status: WaitingInput, Question: other, Asked: 4}, {Status: Failed, Receipt: Receipt{End: Raised}}},
		"to the end":    {{Status: Completed, Asked: 2}},
		"without a run": {{Status: Queued}, {Status: Cancelled, Receipt: Receipt{End: NotRun, Stop: &Stop{By: Agent}}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s stage) {
				p := s.away()
				for _, r := range far[:len(far)-1] {
					r.Created = time.Now()
					must.Do(t, p.port.Mirror(r))
					got := p.Record()
					if got.Status != r.Status || got.Question != r.Question || got.Asked != r.Asked || got.Started.IsZero() != (r.Status == Queued) {
						t.Errorf("mirrored %+v as %+v", r, got)
					}
				}
				end := far[len(far)-1]
				if end.Receipt.End == "" {
					end.Receipt = Receipt{End: Returned, By: Program}
				}
				p.out <- Outcome{Far: &end}
				<-p.Done()
				if got := p.Record(); got.Status != end.Status || got.Receipt.Text() != end.Receipt.Text() || got.Question != nil || got.Receipt.By == "" {
					t.Errorf("ended as %+v, want %+v", got, end)
				}
				if err := p.port.Mirror(Record{Status: Running}); err != ErrEnded {
					t.Errorf("after the end: %v", err)
				}
			})
		})
	}
}

// What can't be true is an error and changes nothing.
func TestMirrorRefuses(t *testing.T) {
	q := &Question{Kind: "line", Prompt: "name? "}
	asks := Record{Status: WaitingInput, Question: q, Asked: 2, Cleared: 3, Output: output.Stat{End: 9}}
	for name, test := range map[string]struct {
		first Record // zero: none
		lie   Record
		says  string
	}{
		"back to the queue":        {Record{Status: Running}, Record{Status: Queued}, "a job that is running is reported to be queued"},
		"from a question to there": {asks, Record{Status: Queued, Asked: 2, Cleared: 3, Output: asks.Output}, "reported to be queued"},
		"another status":           {lie: Record{Status: "paused"}, says: `no job is "paused"`},
		"no status":                {lie: Record{}, says: `no job is ""`},
		"an end":                   {lie: Record{Status: Completed, Receipt: Receipt{End: Returned}}, says: "not how it runs"},
		"a question without words": {lie: Record{Status: WaitingInput}, says: "has none"},
		"a question of no one":     {lie: Record{Status: Running, Question: q}, says: "has an open question"},
		"fewer questions":          {asks, Record{Status: Running, Asked: 1, Cleared: 3, Output: asks.Output}, "asked 1 times, after 2"},
		"negative questions":       {lie: Record{Status: Running, Asked: -1}, says: "out of range"},
		"another rung":             {lie: Record{Status: Running, Cancelling: "ask"}, says: `no rung "ask"`},
		"a huge terminal":          {lie: Record{Status: Running, Terminal: &Size{1 << 30, 80}}, says: "no terminal has"},
		"a negative terminal":      {lie: Record{Status: Running, Terminal: &Size{24, -80}}, says: "no terminal has"},
		"a negative pid":           {lie: Record{Status: Running, PID: -1}, says: "out of range"},
		"cleared output to come":   {lie: Record{Status: Running, Cleared: 4, Output: output.Stat{End: 3}}, says: "out of range"},
		"less cleared":             {asks, Record{Status: Running, Asked: 2, Cleared: 2, Output: asks.Output}, "cleared up to 2, after 3"},
		"output without end":       {lie: Record{Status: Running, Output: output.Stat{End: 1<<62 + 1}}, says: "out of range"},
		"a list without end":       {lie: Record{Status: Running, Listening: make([]Listener, 100_000)}, says: "is too long"},
		"a long text":              {lie: Record{Status: WaitingInput, Question: &Question{Prompt: strings.Repeat("x", 1<<20)}}, says: "is too long"},
		"a time that has no JSON":  {lie: Record{Status: Running, Started: time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC)}, says: "year"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s stage) {
				p := s.away()
				if test.first.Status != "" {
					must.Do(t, p.port.Mirror(test.first))
				}
				before := p.Record()
				if err := p.port.Mirror(test.lie); err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("mirrored, or another error: %v", err)
				}
				if d := cmp.Diff(before, p.Record()); d != "" {
					t.Errorf("it has changed the record: %s", d)
				}
			})
		})
	}
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		if p.port.Mirror(Record{Status: Running, PID: 1}) == nil || p.port.MirrorDisplay(Display{Number: 1, Forms: []Form{{MIME: "a/b"}}}, [][]byte{nil}) == nil {
			t.Error("a job that runs here can be made a mirror")
		}
	})
}

// An end that can't be makes the job fail, and says why.
func TestMirroredEndIsChecked(t *testing.T) {
	returned := Receipt{End: Returned}
	for name, test := range map[string]struct {
		first, end Record
		says       string
	}{
		"the receipt says otherwise": {Record{Status: Running}, Record{Status: Completed, Receipt: Receipt{End: Raised, Detail: "ValueError"}}, `a job is completed, and its receipt says "failed (ValueError)"`},
		"it has not ended":           {Record{Status: Running}, Record{Status: Running}, "a job that has ended is running"},
		"no status":                  {Record{Status: Queued}, Record{Receipt: returned}, `no job is ""`},
		"a question":                 {Record{Status: Running}, Record{Status: Completed, Receipt: returned, Question: &Question{}}, "open question"},
		"a long receipt":             {Record{Status: Queued}, Record{Status: Completed, Receipt: Receipt{End: Returned, Notes: []string{strings.Repeat("x", 1<<20)}}}, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s stage) {
				p := s.away()
				must.Do(t, p.port.Mirror(test.first))
				test.end.Result, test.end.HasResult = "42", true
				p.out <- Outcome{Far: &test.end}
				<-p.Done()
				got := p.Record()
				if got.Status != Failed || got.Receipt.End != Misreported || !strings.Contains(got.Receipt.Text(), "failed (its place reported an end that can't be: ") ||
					!strings.Contains(got.Receipt.Text(), test.says) || got.HasResult || got.Result != "" || got.Receipt.By != Unknown {
					t.Errorf("%q: %+v", got.Receipt.Text(), got)
				}
				if i := s.begin(Spec{}).end(returned); i.Status != Completed {
					t.Errorf("the next job is %s", i.Status)
				}
			})
		})
	}
}

// Times of a place are bounded by what can be: the job was created when its id was issued at the earliest, and
// nothing of it is in the future.
func TestMirroredTimes(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		issued := time.Now()
		id := newID(issued)
		pass(time.Hour)
		out := make(chan Outcome)
		var port *Port
		j := must.Get(s.StartAs(id, Spec{Place: "gpu"}, runFunc(func(_ context.Context, p *Port) Outcome { port = p; return <-out })))(t)
		synctest.Wait()
		now := time.Now()
		at := func(m int) time.Time { return issued.Add(time.Duration(m) * time.Minute) }
		check := func(far Record, created, started, since, answered time.Time) {
			t.Helper()
			far.Status = Running
			must.Do(t, port.Mirror(far))
			r := j.Record()
			for _, each := range [][2]time.Time{{r.Created, created}, {r.Started, started}, {r.Accepts.Since, since}, {r.Answered, answered}} {
				if !each[0].Equal(each[1]) {
					t.Errorf("%+v, want %v, %v, %v, %v", r, created, started, since, answered)
					break
				}
			}
		}
		reader := Reader{Kind: "line"}
		check(Record{}, now, now, time.Time{}, time.Time{})
		reader.Since = at(20)
		check(Record{Created: at(5), Started: at(10), Accepts: reader, Answered: at(15)}, at(5), at(10), at(20), at(15))
		// The difference of the clocks is known a bit better, or worse.
		reader.Since = at(20).Add(time.Millisecond)
		check(Record{Created: at(5).Add(-time.Millisecond), Started: at(10).Add(time.Millisecond), Accepts: reader, Answered: at(15).Add(time.Millisecond)}, at(5), at(10), at(20), at(15))
		reader.Since = at(900)
		check(Record{Created: at(-5), Started: at(-5), Accepts: reader, Answered: at(900)}, at(0).Truncate(time.Millisecond), at(0).Truncate(time.Millisecond), now, now)

		out <- Outcome{Far: &Record{Status: Completed, Receipt: Receipt{End: Returned}, Created: at(5), Started: at(900), Ended: at(-900)}}
		<-j.Done()
		if r := j.Record(); !r.Created.Equal(at(5)) || !r.Started.Equal(now) || !r.Ended.Equal(now) {
			t.Errorf("ended: %+v", r)
		}
	})
}

// Only a change wakes the callers that wait for one, because a place repeats its record to show that it is alive.
func TestMirrorWakesAtChanges(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.away()
		far := Record{Status: Running, Listening: []Listener{{Address: "127.0.0.1:8000"}}, Terminal: &Size{24, 80}, Created: time.Now(), Started: time.Now()}
		wakes := func(what string, want bool) {
			t.Helper()
			changed, list := p.Changed(), s.Changed()
			must.Do(t, p.port.Mirror(far))
			if got := closed(changed); got != want || closed(list) != want {
				t.Errorf("%s: callers wake: %t, of the list %t", what, got, closed(list))
			}
		}
		wakes("the first", true)
		again := *far.Terminal
		far.Terminal, far.Listening, far.Started = &again, append([]Listener(nil), far.Listening...), far.Started.Add(time.Millisecond)
		wakes("the same", false)
		far.Terminal = &Size{25, 80}
		wakes("a size", true)
		if got := p.Record().Terminal; *got != *far.Terminal {
			t.Errorf("size %v", got)
		}
		far.Listening = nil
		wakes("a listener less", true)
		far.Cleared, far.Output.End = 1, 1
		wakes("cleared output", true)
		wakes("the same again", false)
		changed, list := p.Changed(), s.Changed()
		p.port.Changed()
		if !closed(changed) || !closed(list) {
			t.Error("a change of the link wakes no one")
		}
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A stop that was asked for here stays visible until the place knows of it.
func TestMirroredStop(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.away()
		check := func(far, want Rung) {
			t.Helper()
			must.Do(t, p.port.Mirror(Record{Status: Running, Cancelling: far}))
			if got := p.Record().Cancelling; got != want {
				t.Errorf("cancelling by %q, want %q", got, want)
			}
		}
		check(Terminate, Terminate) // by its timeout there
		check("", "")
		p.Stop(Stop{By: Agent, From: Interrupt})
		if p.ctx.Err() == nil {
			t.Error("the runner is not asked to stop")
		}
		check("", Interrupt)
		check(Kill, Kill)
		p.out <- Outcome{Far: &Record{Status: Completed, Receipt: Receipt{End: Returned, Rungs: []Rung{Interrupt}, By: Program}}}
		<-p.Done()
		if got := p.Record().Receipt; got.Text() != "completed (after an interrupt)" || got.By != Program {
			t.Errorf("%q by %s: the receipt is not that of the place", got.Text(), got.By)
		}
	})
}

// A job at a place takes no slot, and its timeout runs there.
func TestMirroredJobTakesNoSlot(t *testing.T) {
	bubble(t, Config{MaxRunning: 1}, func(t *testing.T, s stage) {
		var all []puppet
		for range maxQueued + 2 {
			p := s.away()
			must.Do(t, p.port.Mirror(Record{Status: Running}))
			all = append(all, p)
		}
		pass(time.Hour)
		if st := all[0].port.Stop(); st != nil {
			t.Errorf("a timeout that runs elsewhere has stopped it: %+v", st)
		}
		first := s.admit("first")
		if got := first.Record().Status; got != Running || s.Count().Running != 1 {
			t.Errorf("a job here is %s, %d run", got, s.Count().Running)
		}
		second := s.admit("second")
		if got := titles(s.Running(second.ID())); got != "first" {
			t.Errorf("a job here waits for %q", got)
		}
		waits := s.away()
		if got := s.Running(waits.ID()); len(got) != len(all) || got[0].Place != "gpu" {
			t.Errorf("a job there waits for %d jobs, and not for the %d there", len(got), len(all))
		}
		all[0].out <- Outcome{Far: &Record{Status: Completed, Receipt: Receipt{End: Returned}}}
		<-all[0].Done()
		if got := second.Record().Status; got != Queued {
			t.Errorf("the end of a job there has made one here %s", got)
		}
		first.end(Receipt{End: Returned})
		synctest.Wait()
		if got := second.Record().Status; got != Running {
			t.Errorf("the end of a job here has left the next one %s", got)
		}
	})
	bubble(t, Config{}, func(t *testing.T, s stage) { // those that wait there are queued
		for range maxQueued {
			s.away()
		}
		var many *TooManyError
		if _, err := s.Start(Spec{}, runFunc(nil)); !errors.As(err, &many) {
			t.Errorf("one job more: %v", err)
		}
	})
}

// Displays have their numbers and lines of there, and are shown once their lines have come. Those that were
// replaced there are dropped.
func TestMirroredDisplays(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.away()
		must.Do(t, p.port.Mirror(Record{Status: Running}))
		add := func(n int, from, to int64) error {
			return p.port.MirrorDisplay(Display{Number: n, Title: "figure", Picture: true, Forms: []Form{{MIME: "image/png"}, {MIME: "text/html", Size: 99}}, Line: output.Range{From: from, To: to}}, [][]byte{fmt.Append(nil, n), []byte("html")})
		}
		numbers := func() string {
			var all []string
			for _, d := range p.Displays() {
				if got := string(must.Get(p.Data(d.Forms[0]))(t)); got != fmt.Sprint(d.Number) || d.Forms[1].Size != 4 {
					t.Errorf("display %d has the data %q: %+v", d.Number, got, d)
				}
				all = append(all, fmt.Sprint(d.Number))
			}
			return strings.Join(all, " ")
		}
		shows := func(want string, cleared int64) {
			t.Helper()
			if got := numbers(); got != want || p.Cleared() != cleared || p.Record().Cleared != cleared {
				t.Errorf("shows %q, cleared up to %d; want %q, %d", got, p.Cleared(), want, cleared)
			}
		}
		write := func(n int) { p.port.Write(output.Display, make([]byte, n)) }
		must.Do(t, add(2, 5, 15)) // the first was replaced before anyone read it
		shows("", 0)
		write(10)
		shows("", 0)
		write(5)
		shows("2", 0)
		must.Do(t, add(3, 15, 15)) // without a line
		must.Do(t, add(4, 20, 30))
		shows("2 3", 0)
		first := p.Displays()[0]
		// Cleared there, up to output that has not come.
		must.Do(t, p.port.Mirror(Record{Status: Running, Cleared: 18, Output: output.Stat{End: 40}}))
		shows("2 3", 0)
		must.Do(t, add(5, 30, 40))
		write(3)
		shows("", 18)
		if _, err := p.Data(first.Forms[0]); err == nil {
			t.Error("a display that was replaced has its data")
		}
		write(22)
		shows("4 5", 18)
		must.Do(t, p.port.Mirror(Record{Status: Running, Cleared: 30, Output: output.Stat{End: 40}}))
		shows("5", 30)

		for name, err := range map[string]error{
			"the same number":  add(5, 50, 60),
			"a lower number":   add(1, 50, 60),
			"a line before":    add(6, 39, 60),
			"a line reversed":  add(6, 60, 50),
			"a line too far":   add(6, 60, 1<<62+1),
			"no forms":         p.port.MirrorDisplay(Display{Number: 6, Line: output.Range{From: 50, To: 60}}, nil),
			"a form less":      p.port.MirrorDisplay(Display{Number: 6, Line: output.Range{From: 50, To: 60}, Forms: []Form{{MIME: "a/b"}}}, nil),
			"no type":          p.port.MirrorDisplay(Display{Number: 6, Line: output.Range{From: 50, To: 60}, Forms: []Form{{MIME: "png\n"}}}, [][]byte{nil}),
			"no picture":       p.port.MirrorDisplay(Display{Number: 6, Picture: true, Line: output.Range{From: 50, To: 60}, Forms: []Form{{MIME: "text/html"}}}, [][]byte{nil}),
			"beyond any bound": p.port.MirrorDisplay(Display{Number: 6, Line: output.Range{From: 50, To: 60}, Forms: []Form{{MIME: "a/b"}}}, [][]byte{make([]byte, displayedMost+1)}),
		} {
			if err == nil {
				t.Errorf("a display with %s is taken", name)
			}
		}
		if p.Numbered() != 5 {
			t.Errorf("%d displays are numbered", p.Numbered())
		}
		must.Do(t, p.port.Mirror(Record{Status: Running, Cleared: 40, Output: output.Stat{End: 40}}))
		must.Do(t, add(6, 35, 40)) // replaced there before it came
		shows("", 40)
		must.Do(t, p.port.Mirror(Record{Status: Running, Cleared: 50, Output: output.Stat{End: 60}}))
		must.Do(t, add(7, 50, 60))
		p.out <- Outcome{Far: &Record{Status: Completed, Receipt: Receipt{End: Returned}, Cleared: 50, Output: output.Stat{End: 60}}}
		<-p.Done()
		shows("", 40)
		write(20) // late
		shows("7", 50)
	})
}

// However many displays a place sends, the newest ones are kept.
func TestMirroredDisplaysAreBounded(t *testing.T) {
	for name, test := range map[string]struct{ sent, size, kept int }{"number": {displaysMost + 5, 1, displaysMost}, "bytes": {20, 8 << 20, 8}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s stage) {
				p := s.away()
				data := [][]byte{make([]byte, test.size)}
				for i := range test.sent {
					must.Do(t, p.port.MirrorDisplay(Display{Number: i + 1, Forms: []Form{{MIME: "image/png"}}}, data))
				}
				list := p.Displays()
				if len(list) != test.kept || list[len(list)-1].Number != test.sent || p.Numbered() != test.sent {
					t.Errorf("%d of %d displays are kept", len(list), test.sent)
				}
				if _, err := p.Data(list[0].Forms[0]); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestMirroredOutput(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.away()
		p.port.Write(output.Stdout, []byte("begin"))
		must.Do(t, p.port.Skip(1000, output.Loss{Cap: 995}))
		for _, to := range []int64{1000, 3, -1, 1<<62 + 1} {
			if p.port.Skip(to, output.Loss{}) == nil {
				t.Errorf("the output continues at %d after 1000", to)
			}
		}
		p.port.Write(output.Result, []byte("42"))
		long := strings.Repeat("é", resultKept+5)
		p.out <- Outcome{Result: "not this", Far: &Record{Status: Completed, Receipt: Receipt{End: Returned, LostOutput: output.Loss{Disk: 7}}, HasResult: true, Result: long, ResultChars: 1 << 40}}
		<-p.Done()
		r, c := p.Read(0, 5000)
		if r.Receipt.LostOutput != (output.Loss{Cap: 995}) || r.Output.Dropped != 995 || text(c) != "begin" || text(p.Log().Read(1000, 5000)) != "42" {
			t.Errorf("%+v, output %q and %q", r, text(c), text(p.Log().Read(1000, 5000)))
		}
		if r.Result != long[:2*resultKept] || r.ResultChars != 1<<40 || !r.HasResult {
			t.Errorf("%d bytes of the result, of %d characters", len(r.Result), r.ResultChars)
		}
		changed := p.Changed()
		must.Do(t, p.port.Skip(2000, output.Loss{Limit: 998}))
		if !closed(changed) || p.Record().Receipt.LostOutput != (output.Loss{Cap: 995}) {
			t.Error("late output that was dropped there is not announced, or counts before the end")
		}
	})
}

// A receipt can change after the end, and still says what the status says: a lie changes nothing.
func TestMirroredReceiptIsAmended(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.away()
		p.port.Skip(10, output.Loss{Cap: 10})
		far := Record{Status: Failed, Receipt: Receipt{End: Exited, Code: 1, By: Program, Left: []Process{{812, "sleep"}}}}
		p.out <- Outcome{Far: &far}
		<-p.Done()
		later := Receipt{End: Exited, Code: 1, By: Program, Notes: []string{"sleep has ended"}}
		p.port.AmendReceipt(func(r *Receipt) { *r = later })
		later.LostOutput = output.Loss{Cap: 10}
		if d := cmp.Diff(later, p.Record().Receipt); d != "" {
			t.Error(d)
		}
		p.port.AmendReceipt(func(r *Receipt) { *r = Receipt{End: Returned} })
		if d := cmp.Diff(later, p.Record().Receipt); d != "" || p.Record().Status != Failed {
			t.Errorf("a lie has changed it: %s", d)
		}
	})
}

// The ends that the runner itself reports of a job at a place.
func TestEndsOfPlaces(t *testing.T) {
	for want, r := range map[string]Receipt{
		"failed (node n2 lost: Slurm NODE_FAIL; variables lost)":                            {End: PlaceLost, Detail: "node n2 lost: Slurm NODE_FAIL", State: Lost},
		"failed (the engine on gpu is gone)":                                                {End: PlaceLost, Detail: "the engine on gpu is gone"},
		"cancelled (given up while gpu was out of reach; it may still run there)":           {End: PlaceLost, Detail: "given up while gpu was out of reach; it may still run there", Stop: &Stop{By: Agent, From: Kill}},
		"failed (allocation's time limit; variables lost)":                                  {End: PlaceLost, Detail: "allocation's time limit", State: Lost},
		"failed (its place reported an end that can't be: no job is \"x\"; variables lost)": {End: Misreported, Detail: `no job is "x"`, State: Lost},
	} {
		bubble(t, Config{}, func(t *testing.T, s stage) {
			p := s.away()
			must.Do(t, p.port.Mirror(Record{Status: Running}))
			if got := p.end(r); got.Receipt.Text() != want || got.Receipt.By == "" || got.Receipt.By == Program {
				t.Errorf("%q by %q, want %q", got.Receipt.Text(), got.Receipt.By, want)
			}
		})
	}
}

func TestLink(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.away()
		if p.Live().Link != nil {
			t.Error("a link that no one has set")
		}
		p.port.SetLink(func() Link { return Link{Where: "node n2", Behind: 5} })
		if got := p.Live().Link(); got != (Link{Where: "node n2", Behind: 5}) {
			t.Errorf("%+v", got)
		}
		p.end(Receipt{End: PlaceLost})
		p.port.SetLink(func() Link { return Link{} })
		if p.Live().Link != nil {
			t.Error("a job that has ended has a link")
		}
	})
}

// A job can be started under an id of another registry: once.
func TestStartAs(t *testing.T) {
	bubble(t, Config{Keep: 1}, func(t *testing.T, s stage) {
		begun := time.Now()
		id := newID(begun.Add(-time.Hour))
		start := func(id string) (*Job, error) {
			return s.StartAs(id, Spec{Title: "far", Place: "gpu"}, returnsAt{})
		}
		for _, bad := range []string{"", "x", strings.ToLower(id), id + "0", id[:25], " " + id, "8" + id[1:], "U" + id[1:], id[:25] + "\n"} {
			if _, err := start(bad); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
				t.Errorf("started as %q: %v", bad, err)
			}
		}
		earlier := newID(begun.Add(-time.Minute))
		j := must.Get(start(id))(t)
		if j.ID() != id || must.Get(s.Find(id[:10]))(t) != j || !j.Record().Created.Equal(begun) {
			t.Errorf("started as %+v", j.Record())
		}
		var taken *TakenError
		if _, err := start(id); !errors.As(err, &taken) || taken.Job != j || taken.ID != id {
			t.Errorf("started twice: %v", err)
		}
		<-j.Done()
		if _, err := start(id); !errors.As(err, &taken) || taken.Job != j {
			t.Errorf("started after its end: %v", err)
		}
		pass(time.Millisecond)
		<-must.Get(start(newID(begun)))(t).Done()
		synctest.Wait()
		if s.Lookup(id) != nil {
			t.Fatal("the job is not forgotten")
		}
		if _, err := start(id); !errors.As(err, &taken) || taken.Job != nil {
			t.Errorf("started after it was forgotten: %v", err)
		}
		// An older id that was not issued here is that of an earlier server, as before.
		var none *NotFoundError
		if _, err := s.Get(earlier); !errors.As(err, &none) || !none.Earlier || none.Forgotten {
			t.Errorf("%+v", none)
		}
		if _, err := s.Get(id); !errors.As(err, &none) || none.Earlier || !none.Forgotten {
			t.Errorf("%+v", none)
		}
		s.Close(Stop{By: Shutdown})
		if _, err := start(newID(begun)); err != ErrShutdown {
			t.Errorf("started at the end: %v", err)
		}
	})
}

// returnsAt ends at once, as a place said.
type returnsAt struct{}

func (returnsAt) Run(context.Context, *Port) Outcome {
	return Outcome{Far: &Record{Status: Completed, Receipt: Receipt{End: Returned}}}
}

// A past job that goes on under its id is found and listed once, as the job that it is now.
func TestStartAsReplacesThePastJob(t *testing.T) {
	id, other := newID(time.Now().Add(-time.Hour)), newID(time.Now().Add(-2*time.Hour))
	var past pastStore
	for _, id := range []string{id, other} {
		past = append(past, Past{Saved: Saved{Record: Record{ID: id, Spec: Spec{Title: "past"}, Status: Failed, Created: ulid.Time(ulid.MustParse(id).Time()), Receipt: Receipt{End: ServerEnded}}},
			Log: output.NewStore(output.Config{}).NewLog(id)})
	}
	bubble(t, Config{Store: past, Keep: 1}, func(t *testing.T, s stage) {
		if j := must.Get(s.Get(id))(t); !j.Past() {
			t.Fatal("the job is not past")
		}
		j := must.Get(s.StartAs(id, Spec{Title: "goes on", Place: "gpu"}, returnsAt{}))(t)
		<-j.Done()
		for _, find := range []func(string) (*Job, error){s.Get, s.Find} {
			if got := must.Get(find(id))(t); got != j {
				t.Errorf("found %+v", got.Record())
			}
		}
		if got := must.Get(s.Find(id[:20]))(t); got != j {
			t.Errorf("found %+v", got.Record())
		}
		if got := titles(s.List(Filter{})); got != "goes on past" {
			t.Errorf("listed: %q", got)
		}
		var none *NotFoundError
		like := id[:25] + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(id, "0")]
		if _, err := s.Get(like); !errors.As(err, &none) || titles(none.Nearest) != "goes on past" {
			t.Errorf("nearest: %+v", none)
		}
		<-must.Get(s.StartAs(newID(time.Now()), Spec{Title: "next", Place: "gpu"}, returnsAt{}))(t).Done()
		synctest.Wait()
		if _, err := s.Get(id); !errors.As(err, &none) || !none.Forgotten {
			t.Errorf("after it was forgotten: %v", err)
		}
		if got := titles(s.List(Filter{})); got != "next past" {
			t.Errorf("listed after it was forgotten: %q", got)
		}
	})
}

// pastStore has past jobs, the newest first.
type pastStore []Past

func (pastStore) Begin(Record) error        { return nil }
func (pastStore) Resize(string, Size) error { return nil }
func (pastStore) End(Saved) error           { return nil }
func (pastStore) Amend(Saved) error         { return nil }
func (pastStore) Forget(string) error       { return nil }
func (s pastStore) Past(prefix string) iter.Seq[Past] {
	return func(yield func(Past) bool) {
		for _, p := range s {
			if strings.HasPrefix(p.Record.ID, prefix) && !yield(p) {
				return
			}
		}
	}
}

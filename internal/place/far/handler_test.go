package far_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/terminal/keys"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/callstack"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// start starts a job and returns it once the answer has begun. Its life is followed until the test ends.
func start(t *testing.T, e *linktest.Engine, c *far.Client, tool string) *jobs.Job {
	t.Helper()
	id := ulid.Make().String()
	_, body, err := c.Start(t.Context(), id, tool, nil, false, stream.Position{})
	must.Do(t, err)
	t.Cleanup(func() { body.Close() })
	return e.Jobs.Lookup(id)
}

func refused(t *testing.T, err error, code int, says string) {
	t.Helper()
	if r, ok := errors.AsType[*far.Refused](err); !ok || r.Code != code || !strings.Contains(r.Text, says) {
		t.Errorf("the error is %v (code %d), and should be %d and say %q", err, refusal(err), code, says)
	}
}

// waits runs until it is stopped.
func waits(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	<-ctx.Done()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: p.Stop()}}
}

func TestRequestsThatAreRefused(t *testing.T) {
	e, c := engine(t, linktest.Runners{"hello": prints("hello\n")})
	id := ulid.Make().String()
	follow := func(job string, from stream.Position) error {
		_, _, err := c.Follow(t.Context(), job, from)
		return err
	}
	begin := func(job, tool string, args json.RawMessage) error {
		_, _, err := c.Start(t.Context(), job, tool, args, false, stream.Position{})
		return err
	}
	refused(t, follow(id, stream.Position{}), 404, `There is no job "`+id+`".`)
	refused(t, begin(id, "none", nil), 422, "there is no tool none")
	refused(t, begin("job", "hello", nil), 400, `a ULID, and "job" is none`)
	refused(t, begin(strings.ToLower(id), "hello", nil), 400, "is none")
	if status := raw(t, e, http.MethodPut, "/link/jobs/"+id, "{"); status != http.StatusBadRequest {
		t.Errorf("a body that is cut: %d", status)
	}
	if n := e.Jobs.Count().By; len(n) != 0 {
		t.Errorf("jobs were started: %v", n)
	}
	j := start(t, e, c, "hello")
	jobstest.End(t, j)
	refused(t, follow(j.ID(), stream.Position{Cursor: 7}), 416, "ends at cursor 6, before 7")
	refused(t, follow(j.ID(), stream.Position{Cursor: -1}), 400, `cursor must be a number from 0 on, and is "-1"`)
	refused(t, follow(j.ID(), stream.Position{Displays: -1}), 400, "displays must be")
	refused(t, c.Stop(t.Context(), j.ID(), jobs.Stop{From: "slay"}), 400, `can't begin with "slay"`)
	refused(t, c.Stop(t.Context(), id, jobs.Stop{}), 404, "There is no job")
	_, err := c.Input(t.Context(), j.ID(), "", jobs.Input{})
	refused(t, err, 400, "needs an id")
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		if status := raw(t, e, method, "/link/jobs/"+id, "{}"); status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, status)
		}
	}
}

func TestBodyIsBounded(t *testing.T) {
	racetest.Skip(t)
	e, _ := engine(t, linktest.Runners{"hello": prints("hello\n")})
	if status := raw(t, e, http.MethodPut, "/link/jobs/"+ulid.Make().String(), strings.Repeat(" ", 64<<20+1)); status != http.StatusRequestEntityTooLarge {
		t.Error(status)
	}
}

// raw sends a request over a connection of its own and returns the status of its answer.
func raw(t *testing.T, e *linktest.Engine, method, path, body string) int {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, "http://place"+path, strings.NewReader(body)))(t)
	req.Header.Set("Engine", linktest.Start)
	conn := must.Get(far.Connect(t.Context(), e.Dial(t)))(t)
	defer conn.Close()
	resp := must.Get(conn.RoundTrip(req))(t)
	defer resp.Body.Close()
	return resp.StatusCode
}

// No request reaches an engine that it is not meant for: the code of a job would run twice.
func TestOtherEngineRefusesAll(t *testing.T) {
	e, _ := engine(t, linktest.Runners{"hello": prints("hello\n")})
	conn := must.Get(far.Connect(t.Context(), e.Dial(t)))(t)
	defer conn.Close()
	c := far.NewClient(conn.RoundTrip, "earlier")
	ctx, id := t.Context(), ulid.Make().String()
	_, _, err := c.Start(ctx, id, "hello", nil, false, stream.Position{})
	refused(t, err, 409, `This is engine "start", and the request is for "earlier"`)
	_, _, err = c.Follow(ctx, id, stream.Position{})
	refused(t, err, 409, "earlier")
	_, err = c.Input(ctx, id, "1", jobs.Input{})
	refused(t, err, 409, "earlier")
	_, err = c.InputState(ctx, "1")
	refused(t, err, 409, "earlier")
	refused(t, c.Stop(ctx, id, jobs.Stop{}), 409, "earlier")
	_, err = c.Cleanup(ctx, id, jobs.Stop{})
	refused(t, err, 409, "earlier")
	_, err = c.Live(ctx, id, false, true)
	refused(t, err, 409, "earlier")
	_, _, err = c.Call(ctx, "x", nil, func() {})
	refused(t, err, 409, "earlier")
	_, err = c.State(ctx)
	refused(t, err, 409, "earlier")
	refused(t, c.End(ctx), 409, "earlier")
	if e.Jobs.Lookup(id) != nil {
		t.Error("the job was started")
	}
}

// However often a start comes, and while the first is still under way, the job is started once.
func TestJobIsStartedOnce(t *testing.T) {
	all := jobstest.Registry(t)
	config := linktest.Config(all, linktest.Runners{"hello": prints("hello\n")})
	var calls atomic.Int64
	under, run := make(chan struct{}), config.Run
	config.Run = func(ctx context.Context, id, tool string, args json.RawMessage, keep bool) error {
		if calls.Add(1) == 1 {
			<-under
		}
		return run(ctx, id, tool, args, keep)
	}
	e := linktest.Serve(t, all, far.Handler(config))
	id := ulid.Make().String()
	var requests sync.WaitGroup
	for range 10 {
		c := e.Connect(t)
		requests.Go(func() {
			r, body, err := c.Start(t.Context(), id, "hello", nil, false, stream.Position{})
			if err != nil {
				t.Error(err)
				return
			}
			defer body.Close()
			if text, _ := read(t, r); text != "hello\n" {
				t.Errorf("%q", text)
			}
		})
	}
	// A request that gives up meanwhile changes nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := e.Connect(t).Start(ctx, id, "hello", nil, false, stream.Position{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(under)
	requests.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// A start that failed is not tried again, and its refusal is repeated.
func TestFailedStartIsAnsweredAlike(t *testing.T) {
	all := jobstest.Registry(t)
	config := linktest.Config(all, linktest.Runners{"hello": prints("hello\n")})
	calls := 0
	config.Run = func(context.Context, string, string, json.RawMessage, bool) error {
		calls++
		return errors.New("no room\x1b[2J\nStatus: completed\tnow")
	}
	c := linktest.Serve(t, all, far.Handler(config)).Connect(t)
	id := ulid.Make().String()
	for range 2 {
		_, _, err := c.Start(t.Context(), id, "hello", nil, false, stream.Position{})
		refused(t, err, 422, `no room\x1b[2J`+"\nStatus: completed\tnow")
	}
	if calls != 1 {
		t.Errorf("the tool was called %d times", calls)
	}
}

// A start that has come continues although its link is lost, and the next link follows the job.
func TestStartOutlivesItsLink(t *testing.T) {
	all := jobstest.Registry(t)
	config := linktest.Config(all, linktest.Runners{"hello": prints("hello\n")})
	run, under, may, gone := config.Run, make(chan struct{}), make(chan struct{}), make(chan struct{})
	config.Run = func(ctx context.Context, id, tool string, args json.RawMessage, keep bool) error {
		close(under)
		<-may
		if err := ctx.Err(); err != nil {
			return err
		}
		return run(ctx, id, tool, args, keep)
	}
	h := far.Handler(config)
	var first sync.Once
	e := linktest.Serve(t, all, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.Do(func() { context.AfterFunc(r.Context(), func() { close(gone) }) })
		h.ServeHTTP(w, r)
	}))
	id := ulid.Make().String()
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() { // joined below
		_, _, err := e.Connect(t).Start(ctx, id, "hello", nil, false, stream.Position{})
		lost <- err
	}()
	<-under
	cancel()
	if err := <-lost; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-gone
	close(may)
	r, body, err := e.Connect(t).Start(t.Context(), id, "hello", nil, false, stream.Position{})
	must.Do(t, err)
	defer body.Close()
	if text, _ := read(t, r); text != "hello\n" {
		t.Errorf("%q", text)
	}
}

// A hundred jobs run over one connection at once.
func TestManyJobs(t *testing.T) {
	_, c := engine(t, linktest.Runners{"count": func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		for i := range 20 {
			p.Write(output.Stdout, fmt.Appendf(nil, "%s %d\n", p.ID(), i))
		}
		return returned
	}})
	var jobsRun sync.WaitGroup
	for range 100 {
		jobsRun.Go(func() {
			id := ulid.Make().String()
			r, body, err := c.Start(t.Context(), id, "count", nil, false, stream.Position{})
			if err != nil {
				t.Error(err)
				return
			}
			defer body.Close()
			text, _ := read(t, r)
			if lines := strings.Split(text, "\n"); len(lines) != 21 || lines[19] != id+" 19" {
				t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-2])
			}
		})
	}
	jobsRun.Wait()
}

// A reader that takes nothing delays no other request.
func TestSlowReaderDelaysNoOther(t *testing.T) {
	e, c := engine(t, linktest.Runners{"hello": prints("hello\n"), "much": prints(strings.Repeat("x", 20<<20))})
	jobstest.End(t, start(t, e, c, "much"))
	r, body, err := c.Start(t.Context(), ulid.Make().String(), "hello", nil, false, stream.Position{})
	must.Do(t, err)
	defer body.Close()
	read(t, r)
}

func TestStop(t *testing.T) {
	e, c := engine(t, linktest.Runners{"wait": waits})
	j := start(t, e, c, "wait")
	want := jobs.Stop{By: jobs.Person, From: jobs.Terminate, Step: time.Second, Reason: "a test", Spare: true}
	must.Do(t, c.Stop(t.Context(), j.ID(), want))
	if got := jobstest.End(t, j).Receipt.Stop; got == nil || *got != want {
		t.Errorf("%+v", got)
	}
	must.Do(t, c.Stop(t.Context(), j.ID(), want)) // it has ended: nothing happens
}

// The start of a job that comes after its stop starts nothing, and a stop waits for a start that is under way.
func TestStopBeforeTheStart(t *testing.T) {
	all := jobstest.Registry(t)
	config := linktest.Config(all, linktest.Runners{"wait": waits})
	run, under, may := config.Run, make(chan struct{}), make(chan struct{})
	config.Run = func(ctx context.Context, id, tool string, args json.RawMessage, keep bool) error {
		close(under)
		<-may
		return run(ctx, id, tool, args, keep)
	}
	e := linktest.Serve(t, all, far.Handler(config))
	c := e.Connect(t)
	id := ulid.Make().String()
	begin := func(id string) error {
		_, body, err := c.Start(t.Context(), id, "wait", nil, false, stream.Position{})
		if err == nil {
			t.Cleanup(func() { body.Close() })
		}
		return err
	}
	refused(t, c.Stop(t.Context(), id, jobs.Stop{}), 404, "There is no job")
	refused(t, begin(id), 422, "the job was stopped before its start came")
	id = ulid.Make().String()
	var started, stopped sync.WaitGroup
	started.Go(func() {
		if err := begin(id); err != nil {
			t.Error(err)
		}
	})
	<-under
	stopped.Go(func() {
		if err := c.Stop(t.Context(), id, jobs.Stop{By: jobs.Agent}); err != nil {
			t.Error(err)
		}
	})
	close(may)
	started.Wait()
	stopped.Wait()
	jobstest.EndsAs(t, all.Lookup(id), "cancelled (before it ran)")
}

func TestCleanup(t *testing.T) {
	remains := jobs.Remains{Ended: []jobs.Process{{PID: 1, Program: "a\x1b"}}, Survivors: []jobs.Process{{PID: 2, Program: "b"}}, Err: errors.New("no /proc")}
	e, c := engine(t, linktest.Runners{"leave": func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		p.SetCleanup(func(_ context.Context, st jobs.Stop) jobs.Remains {
			if st.From != jobs.Kill {
				t.Errorf("%+v", st)
			}
			return remains
		})
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Left: []jobs.Process{{PID: 1}}}}
	}, "wait": waits})
	if got, err := c.Cleanup(t.Context(), start(t, e, c, "wait").ID(), jobs.Stop{}); cmp.Diff(jobs.Remains{}, got) != "" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	j := start(t, e, c, "leave")
	jobstest.End(t, j)
	got, err := c.Cleanup(t.Context(), j.ID(), jobs.Stop{From: jobs.Kill})
	if got.Err == nil || got.Err.Error() != "no /proc" {
		t.Error(got.Err)
	}
	got.Err, remains.Err, remains.Ended[0].Program = nil, nil, `a\x1b`
	if d := cmp.Diff(remains, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

// answersOf returns answers in the form in which a job here has them.
func answersOf(l *far.Live) (a jobs.Live) {
	if l.Probe != nil {
		a.Probe = l.Probe
	}
	if l.Looked != nil {
		a.Looker = l.Looked
	}
	if l.Hold != nil {
		a.Hold = func() (jobs.Hold, bool) { return *l.Hold, true }
	}
	if l.OnLoop != nil {
		a.OnLoop = func() []string { return l.OnLoop }
	}
	return a
}

// probe is a probe with an answer to each question.
type probe struct{ err error }

func (p probe) Usage() (jobs.ProcessUsage, error) {
	return jobs.ProcessUsage{CPU: time.Second, Memory: 1 << 40, Processes: 3}, p.err
}
func (p probe) Busiest() (jobs.Process, float64, error) {
	return jobs.Process{PID: 8, Program: "cc"}, 99.5, p.err
}
func (p probe) Waits(pid int) (jobs.Process, string, time.Duration) {
	return jobs.Process{PID: pid, Program: "p"}, fmt.Sprint("waits for ", pid), time.Duration(pid) * time.Second
}
func (p probe) Stopped() ([]jobs.StoppedProcess, error) {
	return []jobs.StoppedProcess{{Process: jobs.Process{PID: 9, Program: "vi"}, Signal: "SIGSTOP"}}, p.err
}

// looker counts its looks: a question for something else must not be one.
type looker struct {
	looks atomic.Int64
	err   error
}

func (l *looker) Look() (callstack.Stack, error) {
	l.looks.Add(1)
	return callstack.Stack{Calls: []callstack.Call{{File: "train.py", Function: "step", Line: 41, Source: "x = 1"}}, Outer: 2, Awaits: true, Since: callstack.Moved, Own: "train.py"}, l.err
}

// What a job says of itself there is said here by the same interfaces.
func TestLive(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no /proc")} {
		looks := &looker{err: failure}
		e, c := engine(t, linktest.Runners{"work": func(ctx context.Context, p *jobs.Port) jobs.Outcome {
			p.SetProbe(probe{failure})
			p.SetLooker(looks)
			p.SetOnLoop(func() []string { return []string{"127.0.0.1:80"} })
			p.SetHolder(func() (jobs.Hold, bool) { return jobs.Hold{Why: "svd", Reached: true, Variables: 3}, failure == nil })
			return waits(ctx, p)
		}})
		j := start(t, e, c, "work")
		j.AwaitStart(t.Context())
		there := j.Live()
		answer, err := c.Live(t.Context(), j.ID(), false, false)
		must.Do(t, err)
		if looks.looks.Load() != 0 || answersOf(answer).Looker != nil {
			t.Error("it was looked at")
		}
		if p := answer.Probe; p.Watched || p.Busy.PID != 0 || len(p.Halted) != 1 {
			t.Errorf("%+v", p)
		}
		answer, err = c.Live(t.Context(), j.ID(), true, true)
		must.Do(t, err)
		if d := cmp.Diff(said(there), said(answersOf(answer))); d != "" {
			t.Error(d)
		}
		must.Do(t, c.Stop(t.Context(), j.ID(), jobs.Stop{}))
		jobstest.End(t, j)
		answer, err = c.Live(t.Context(), j.ID(), true, true)
		must.Do(t, err)
		if l := answersOf(answer); l.Probe != nil || l.Looker != nil || l.Hold != nil || l.OnLoop != nil {
			t.Errorf("an ended job answers: %+v", answer)
		}
	}
}

// said is everything that a job says of itself, as text.
func said(l jobs.Live) (all []string) {
	add := func(v ...any) { all = append(all, fmt.Sprintf("%+v", v)) }
	usage, err := l.Probe.Usage()
	add(usage, err)
	busy, percent, err := l.Probe.Busiest()
	add(busy, percent, err)
	for _, pid := range []int{0, busy.PID} {
		p, words, since := l.Probe.Waits(pid)
		add(p, words, since)
	}
	halted, err := l.Probe.Stopped()
	add(halted, err)
	line, list := callstack.Describe(l.Looker, 1000)
	add(line, list)
	if l.Hold != nil {
		if h, held := l.Hold(); held {
			add(h)
		}
	}
	add(l.OnLoop())
	return all
}

func TestLookThatWasSaidBefore(t *testing.T) {
	e, c := engine(t, linktest.Runners{"work": func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.SetLooker(&looker{err: callstack.ErrSaid})
		return waits(ctx, p)
	}})
	j := start(t, e, c, "work")
	j.AwaitStart(t.Context())
	answer, err := c.Live(t.Context(), j.ID(), true, true)
	must.Do(t, err)
	if _, err := answersOf(answer).Looker.Look(); err != callstack.ErrSaid {
		t.Error(err)
	}
}

func TestCallStateAndEnd(t *testing.T) {
	all := jobstest.Registry(t)
	state := far.State{Unused: true, Since: time.Minute, Jobs: 1, Names: []string{"a", "b"}, Python: []overview.Session{{Name: "a", PID: 7, Idle: time.Hour}}}
	ended, answered := make(chan struct{}), make(chan struct{}) // the one end; it waits for its answer
	seen := make(chan struct{})                                 // the slow call was seen to begin
	e := linktest.Serve(t, all, far.Handler(far.Config{
		Start: linktest.Start, Jobs: all,
		Call: func(_ context.Context, tool string, args json.RawMessage, begun func()) (string, bool) {
			begun()
			if tool == "slow" {
				<-seen // before the answer
			}
			begun()
			return tool + " \x1b[2J\u202e\n\tof " + string(args), tool == "bad"
		},
		State: func() far.State { return state },
		End: func() {
			<-answered
			close(ended)
		},
	}))
	// A connection without pings: they would push out an answer that is held back.
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return e.Dial(t), nil }}
	conn := must.Get(transport.NewClientConn(t.Context(), "http", "place:80"))(t)
	defer conn.Close()
	c := far.NewClient(conn.RoundTrip, linktest.Start)
	for _, tool := range []string{"good", "slow", "bad"} {
		n := 0
		text, isError, err := c.Call(t.Context(), tool, json.RawMessage(`{"a":1}`), func() {
			n++
			if tool == "slow" {
				close(seen)
			}
		})
		if want := tool + ` \x1b[2J\u202e` + "\n\t" + `of {"a":1}`; text != want || isError != (tool == "bad") || err != nil || n != 1 {
			t.Errorf("%q, %v, %v, begun %d times", text, isError, err, n)
		}
	}
	got, err := c.State(t.Context())
	if d := cmp.Diff(state, got); d != "" || err != nil {
		t.Error(d, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), jobstest.Patience)
	defer cancel()
	must.Do(t, c.End(ctx))
	close(answered)
	<-ended
}

// asks waits for one input and keeps it.
func asks(got chan<- jobs.Input, answer func(ctx context.Context) (jobs.Delivery, error)) linktest.Runner {
	return func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.SetInput(func(ctx context.Context, in jobs.Input) (jobs.Delivery, error) {
			got <- in
			return answer(ctx)
		})
		return waits(ctx, p)
	}
}

// Input comes as it was sent, and its delivery as it was made.
func TestInput(t *testing.T) {
	up, _ := keys.Parse("up")
	sent := jobs.Input{By: jobs.Person, Size: jobs.Size{Rows: 10, Cols: 20}, Signal: "SIGUSR1", Text: "é\x00\n", Line: true, Paste: true, Keys: keys.Sequence{up, keys.Text("q")}, EOF: true, Secret: true}
	made := jobs.Delivery{Waiting: true, Unsure: true, Untaken: true, Unseen: true, Outside: true, Note: "n", Behind: true, Signalled: "sleep (pid 812)", Made: "SIGINT", Rest: true}
	got := make(chan jobs.Input, 1)
	e, c := engine(t, linktest.Runners{"ask": asks(got, func(context.Context) (jobs.Delivery, error) { return made, nil })})
	j := start(t, e, c, "ask")
	j.AwaitStart(t.Context())
	d, err := c.Input(t.Context(), j.ID(), "1", sent)
	must.Do(t, err)
	if diff := cmp.Diff(made, d); diff != "" {
		t.Error(diff)
	}
	in := <-got
	for _, m := range []keys.Modes{{}, {ApplicationCursor: true}} {
		if diff := cmp.Diff(sent.Keys.Bytes(m), in.Keys.Bytes(m)); diff != "" {
			t.Error(diff)
		}
	}
	in.Keys, sent.Keys = nil, nil
	if diff := cmp.Diff(sent, in); diff != "" {
		t.Error(diff)
	}
}

// An id is delivered once, and the engine remembers what became of it.
func TestInputIsDeliveredOnce(t *testing.T) {
	got := make(chan jobs.Input, 10_000)
	e, c := engine(t, linktest.Runners{"ask": asks(got, func(context.Context) (jobs.Delivery, error) { return jobs.Delivery{Waiting: true}, nil })})
	j := start(t, e, c, "ask")
	j.AwaitStart(t.Context())
	// What had not come when it was asked for is not delivered later.
	_, err := c.InputState(t.Context(), "0")
	refused(t, err, 404, "No such input had come")
	_, err = c.Input(t.Context(), j.ID(), "0", jobs.Input{Text: "x"})
	refused(t, err, 404, "No such input had come")
	for range 3 {
		d, err := c.Input(t.Context(), j.ID(), "1", jobs.Input{Text: "x"})
		if !d.Waiting || err != nil {
			t.Error(d, err)
		}
		if d, err = c.InputState(t.Context(), "1"); !d.Waiting || err != nil {
			t.Error(d, err)
		}
	}
	if len(got) != 1 {
		t.Errorf("it was delivered %d times", len(got))
	}
	for i := range 1000 {
		must.Get(c.Input(t.Context(), j.ID(), fmt.Sprint("later ", i), jobs.Input{Text: "x"}))(t)
	}
	_, err = c.InputState(t.Context(), "1")
	refused(t, err, 404, "No such input")
	must.Get(c.InputState(t.Context(), "later 1"))(t)
}

// Input that has come is delivered although its link is lost, and the next link says so.
func TestInputOutlivesItsLink(t *testing.T) {
	got, takes, gone := make(chan jobs.Input, 1), make(chan struct{}), make(chan struct{})
	all := jobstest.Registry(t)
	h := far.Handler(linktest.Config(all, linktest.Runners{"ask": asks(got, func(ctx context.Context) (jobs.Delivery, error) {
		select {
		case <-takes:
			return jobs.Delivery{Waiting: true}, nil
		case <-ctx.Done():
			return jobs.Delivery{}, ctx.Err()
		}
	})}))
	e := linktest.Serve(t, all, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/input") {
			context.AfterFunc(r.Context(), func() { close(gone) })
		}
		h.ServeHTTP(w, r)
	}))
	c := e.Connect(t)
	j := start(t, e, c, "ask")
	j.AwaitStart(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() { // joined below
		_, err := e.Connect(t).Input(ctx, j.ID(), "1", jobs.Input{Text: "x"})
		lost <- err
	}()
	<-got
	cancel()
	if err := <-lost; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-gone
	close(takes)
	d, err := c.InputState(t.Context(), "1") // waits for it
	if !d.Waiting || err != nil {
		t.Error(d, err)
	}
}

// Input that is refused is refused for the same reason here, also when it is asked for later.
func TestRefusedInput(t *testing.T) {
	e, c := engine(t, linktest.Runners{
		"deaf":  waits,
		"hello": prints("hello\n"),
		"busy": asks(make(chan jobs.Input, 10), func(ctx context.Context) (jobs.Delivery, error) {
			<-ctx.Done()
			return jobs.Delivery{}, context.Cause(ctx)
		}),
		"raw": asks(make(chan jobs.Input, 10), func(context.Context) (jobs.Delivery, error) {
			return jobs.Delivery{}, errors.New("the terminal is in raw mode\nStatus: completed")
		}),
	})
	ended := start(t, e, c, "hello")
	jobstest.End(t, ended)
	for id, want := range map[string]struct {
		job    *jobs.Job
		reason error
		says   string
	}{
		"1": {ended, jobs.ErrEnded, "has ended"},
		"2": {start(t, e, c, "deaf"), jobs.ErrNotReading, "not reading"},
		"3": {start(t, e, c, "busy"), context.DeadlineExceeded, "deadline"},
		"4": {start(t, e, c, "raw"), nil, "raw mode"},
	} {
		want.job.AwaitStart(t.Context())
		sendWithin(t, e, want.job.ID(), id, time.Millisecond)
		_, err := c.InputState(t.Context(), id)
		for range 2 {
			refused(t, err, 422, want.says)
			if r, ok := errors.AsType[*far.Refused](err); ok && r.Unwrap() != want.reason {
				t.Errorf("%s: the reason is %v", id, r.Unwrap())
			}
			_, err = c.Input(t.Context(), want.job.ID(), id, jobs.Input{Text: "x"})
		}
	}
}

// sendWithin sends input that must be delivered within a time, and does not say what became of it.
func sendWithin(t *testing.T, e *linktest.Engine, job, id string, wait time.Duration) {
	t.Helper()
	raw(t, e, http.MethodPost, "/link/jobs/"+job+"/input", fmt.Sprintf(`{"id":%q,"wait_ns":%d,"input":{"Text":"x"}}`, id, wait))
}

// An engine is told to answer before its caller stops waiting.
func TestInputIsAnsweredInTime(t *testing.T) {
	const limit = time.Hour
	got := make(chan time.Duration, 1)
	c := linktest.Serve(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Wait time.Duration `json:"wait_ns"`
		}
		json.NewDecoder(r.Body).Decode(&body)
		got <- body.Wait
		io.WriteString(w, `{"delivered":{}}`)
	})).Connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	must.Get(c.Input(ctx, "x", "1", jobs.Input{}))(t)
	if wait := <-got; wait < limit/2 || wait > limit*3/4 {
		t.Errorf("of %v, it is told %v", limit, wait)
	}
}

// typing is keys that are typed one at a time.
type typing struct {
	done   chan struct{}
	err    error
	behind bool
}

func (t typing) Done() <-chan struct{}       { return t.done }
func (t typing) Behind() bool                { return t.behind }
func (t typing) Progress() (int, int, error) { return 2, 5, t.err }

// Keys that are typed one at a time are reported as far as they are when the answer must come.
func TestTyping(t *testing.T) {
	done := make(chan struct{})
	close(done)
	for _, want := range []typing{{done: done}, {done: done, err: errors.New("raw mode")}, {done: make(chan struct{}), behind: true}} {
		got := make(chan jobs.Input, 1)
		e, c := engine(t, linktest.Runners{"ask": asks(got, func(context.Context) (jobs.Delivery, error) { return jobs.Delivery{Typing: want}, nil })})
		j := start(t, e, c, "ask")
		j.AwaitStart(t.Context())
		sendWithin(t, e, j.ID(), "1", time.Millisecond)
		d, err := c.InputState(t.Context(), "1")
		must.Do(t, err)
		typed, all, err := d.Typing.Progress()
		ended := false
		select {
		case <-d.Typing.Done():
			ended = true
		default:
		}
		if typed != 2 || all != 5 || fmt.Sprint(err) != fmt.Sprint(want.err) || d.Typing.Behind() != want.behind || ended != (want.done == done) {
			t.Errorf("%+v: %d of %d, %v, %v, %v", want, typed, all, err, d.Typing.Behind(), ended)
		}
	}
}

// A client bounds and escapes what an engine answers.
func TestClientBelievesNothing(t *testing.T) {
	answers := func(status int, body string) *far.Client {
		return linktest.Serve(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		})).Connect(t)
	}
	huge := answers(200, strings.Repeat(" ", 5<<20)+"{}")
	_, err := huge.State(t.Context())
	if err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Error(err)
	}
	_, _, err = answers(503, strings.Repeat("\x1b", 1<<20)).Call(t.Context(), "x", nil, func() { t.Error("a refused call has begun") })
	if r, ok := errors.AsType[*far.Refused](err); !ok || r.Code != 503 || len(r.Text) > 4*64<<10 || strings.Contains(r.Text, "\x1b") {
		t.Errorf("%.100v", err)
	}
	refused(t, answers(302, "").End(t.Context()), 302, "the status 302")
	_, err = answers(200, "\x1b").State(t.Context())
	if err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
	s, err := answers(200, `{"jobs":-1,"since_ns":-5,"names":["a\nb"],"python":[{"Name":"\u0007"}]}`).State(t.Context())
	want := far.State{Names: []string{`a\nb`}, Python: []overview.Session{{Name: `\x07`}}}
	if d := cmp.Diff(want, s); d != "" || err != nil {
		t.Error(d, err)
	}
	live, err := answers(200, `{"looked":{"stack":{"Since":99,"Outer":-3,"Calls":[{"Function":"\u001b"}]}},"probe":{"waiters":[{"words":"\n"}]}}`).Live(t.Context(), "x", true, true)
	must.Do(t, err)
	line, list := callstack.Describe(answersOf(live).Looker, 100)
	_, words, _ := answersOf(live).Probe.Waits(0)
	if strings.ContainsAny(line+words, "\x1b\n") || strings.Contains(list, "\x1b") {
		t.Errorf("%q, %q, %q", line, list, words)
	}
	d, err := answers(200, `{"delivered":{"Note":"\n","Signalled":"\u001b","Made":"\r","Typing":{"typed":9,"keys":-1,"error":"\n"}}}`).Input(t.Context(), "x", "1", jobs.Input{})
	must.Do(t, err)
	typed, all, err := d.Typing.Progress()
	if d.Note+d.Signalled+d.Made+err.Error() != `\n\x1b\r\n` || typed != 0 || all != 0 {
		t.Errorf("%+v, %d of %d, %q", d, typed, all, err)
	}
	if _, err = answers(200, `{}`).Input(t.Context(), "x", "1", jobs.Input{}); err == nil {
		t.Error("an answer of nothing is a delivery")
	}
}

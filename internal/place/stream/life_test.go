package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
	"asyncrepl/jobs/jobstest"
)

// A mirror is what a reader knows of a job.
type mirror struct {
	id       string
	log      []byte           // the output, skipped bytes as '-'
	streams  []byte           // of each byte
	displays []jobs.Display   // as they came
	forms    map[int][][]byte // by the number of the display
	skips    []stream.Skip
	records  []jobs.Record
	behind   []int64
}

func (m *mirror) position() stream.Position {
	p := stream.Position{Cursor: int64(len(m.log))}
	if n := len(m.displays); n > 0 {
		p.Displays = m.displays[n-1].Number
	}
	return p
}

// follow reads a life into the mirror until it is complete or the link breaks.
func (m *mirror) follow(r *stream.Reader) error {
	for {
		f, err := r.Next()
		if err != nil {
			return err
		}
		m.add(f)
	}
}

func (m *mirror) add(f stream.Frame) {
	switch {
	case f.Record != nil:
		m.records, m.behind = append(m.records, *f.Record), append(m.behind, f.Behind)
	case f.Display != nil:
		m.displays = append(m.displays, *f.Display)
		if m.forms == nil {
			m.forms = make(map[int][][]byte)
		}
		m.forms[f.Display.Number] = f.Forms
	case f.Skip != nil:
		m.skips = append(m.skips, *f.Skip)
		gap := int(f.Skip.To) - len(m.log)
		m.log = append(m.log, bytes.Repeat([]byte("-"), gap)...)
		m.streams = append(m.streams, make([]byte, gap)...)
	default:
		m.log = append(m.log, f.Data...)
		m.streams = append(m.streams, bytes.Repeat([]byte{byte(f.Stream)}, len(f.Data))...)
	}
}

// same compares the mirror with its job.
func (m *mirror) same(t *testing.T, j *jobs.Job) {
	t.Helper()
	var log []byte
	var streams []byte
	for at := int64(0); at < j.Log().Stat().End; {
		c := j.Log().Read(at, 1<<20)
		log = append(log, bytes.Repeat([]byte("-"), int(c.Dropped))...)
		streams = append(streams, make([]byte, c.Dropped)...)
		for _, s := range c.Spans {
			log = append(log, s.Data...)
			streams = append(streams, bytes.Repeat([]byte{byte(s.Stream)}, len(s.Data))...)
		}
		at = c.Next
	}
	if !bytes.Equal(log, m.log) {
		t.Errorf("%d bytes came; the job has %d, and they differ", len(m.log), len(log))
	}
	if !bytes.Equal(streams, m.streams) {
		t.Error("the streams of the output differ")
	}
}

// run starts a job in an engine behind a link. It returns the job and a reader of its life.
func run(t *testing.T, f linktest.Runner) (*jobs.Job, *far.Client, *stream.Reader) {
	t.Helper()
	return runIn(t, jobstest.Registry(t), f)
}

func runIn(t *testing.T, all *jobs.Registry, f linktest.Runner) (*jobs.Job, *far.Client, *stream.Reader) {
	t.Helper()
	e := linktest.Serve(t, all, far.Handler(linktest.Config(all, linktest.Runners{"run": f})))
	c := e.Connect(t)
	id := ulid.Make().String()
	r, body, err := c.Start(t.Context(), id, "run", nil, false, stream.Position{})
	must.Do(t, err)
	t.Cleanup(func() { body.Close() })
	return all.Lookup(id), c, r
}

var returned = jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}, Result: "42", HasResult: true}

// Every kind of event comes, each in its place.
func TestLife(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan struct{})
	j, _, r := run(t, func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		p.SetTerminal(func() (int, int) { return 24, 80 })
		sink := display.NewSink(p)
		p.Write(output.Stdout, []byte("out"))
		p.Write(output.Stderr, []byte("err\n"))
		sink.Add("report", "", []display.Form{{MIME: "text/html", Data: []byte("<b>1</b>")}, {MIME: "text/plain", Data: []byte("1")}})
		sink.AddQuietly("table", "", []display.Form{{MIME: "text/html", Data: []byte{}}})
		p.Write(output.TTY, []byte("name: "))
		p.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) {
			p.SetRunning()
			close(asked)
			return jobs.Delivery{Waiting: true}, nil
		})
		p.SetWaiting(jobs.Question{Kind: "line", Prompt: "name: ", By: "sh"})
		<-asked
		p.SetListening([]jobs.Listener{{Address: "127.0.0.1:80"}})
		p.Write(output.TTY, []byte("done\n"))
		<-ended
		return returned
	})
	end := sync.OnceFunc(func() { close(ended) })
	m, listens := mirror{id: j.ID()}, false
	statuses := func() (ss []jobs.Status) {
		for _, r := range m.records {
			if n := len(ss); n == 0 || ss[n-1] != r.Status {
				ss = append(ss, r.Status)
			}
		}
		return ss
	}
	for {
		f, err := r.Next()
		if err == io.EOF {
			break
		}
		must.Do(t, err)
		m.add(f)
		if f.Record != nil {
			if f.Behind != 0 || f.Record.Output.End > int64(len(m.log)) || time.Since(f.Now).Abs() > time.Hour {
				t.Errorf("a record of %d bytes came after %d; behind %d, at %v", f.Record.Output.End, len(m.log), f.Behind, f.Now)
			}
			listens = listens || f.Record.Listening != nil
			if f.Record.Status == jobs.WaitingInput {
				if !strings.HasSuffix(string(m.log), f.Record.Question.Prompt) {
					t.Errorf("the question %q came after %q", f.Record.Question.Prompt, m.log)
				}
				jobstest.Send(t, j, jobs.Input{Text: "x", Line: true})
			}
		}
		if listens && strings.HasSuffix(string(m.log), "done\n") {
			end()
		}
	}
	m.same(t, j)
	// The first write can come before the job has begun to run, or to ask.
	came := slices.DeleteFunc(statuses(), func(s jobs.Status) bool { return s == jobs.Queued })
	if d := cmp.Diff([]jobs.Status{jobs.WaitingInput, jobs.Running, jobs.Completed}, came[max(0, len(came)-3):]); d != "" {
		t.Error(d)
	}
	last := m.records[len(m.records)-1]
	if last.Result != "42" || !last.HasResult || *last.Terminal != (jobs.Size{Rows: 24, Cols: 80}) {
		t.Errorf("%+v", last)
	}
	shown := j.Displays()
	if len(m.displays) != 2 || len(shown) != 2 {
		t.Fatalf("%+v, and the job has %+v", m.displays, shown)
	}
	for i, d := range m.displays {
		d.Forms = shown[i].Forms // an attachment has its number only there
		if diff := cmp.Diff(shown[i], d); diff != "" {
			t.Error(diff)
		}
	}
	if d := cmp.Diff([][]byte{[]byte("<b>1</b>"), []byte("1")}, m.forms[1]); d != "" {
		t.Error(d)
	}
	if forms := m.forms[2]; len(forms) != 1 || forms[0] == nil || len(forms[0]) != 0 {
		t.Errorf("an empty form came as %#v", forms)
	}
}

// A cut link loses and doubles nothing, wherever it is cut: within a frame, before the line of a display.
func TestCutLinkContinues(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	all := jobstest.Registry(t)
	turns := make(chan struct{}, 1000) // the job goes on when something has come, or the link was cut
	e := linktest.Serve(t, all, far.Handler(linktest.Config(all, linktest.Runners{"run": func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		sink := display.NewSink(p)
		for i := range 60 {
			<-turns
			for range 50 {
				p.Write(output.Stream(i%3), fmt.Appendf(nil, "%060d\n", i))
			}
			sink.Add("figure", "", []display.Form{{MIME: "text/html", Data: bytes.Repeat([]byte{byte(i)}, 5000)}})
		}
		return returned
	}})))
	offer := func() {
		select {
		case turns <- struct{}{}:
		default:
		}
	}
	m := mirror{id: ulid.Make().String()}
	cuts := 0
	for err := error(nil); err != io.EOF; cuts++ {
		offer()
		pipe := &cutPipe{Conn: e.Dial(t), left: 500 + rng.IntN(100_000)}
		conn := must.Get(far.Connect(t.Context(), pipe))(t)
		c := far.NewClient(conn.RoundTrip, linktest.Start)
		var r *stream.Reader
		var body io.Closer
		r, body, err = c.Start(t.Context(), m.id, "run", nil, false, m.position())
		if err == nil {
			for err == nil {
				var f stream.Frame
				if f, err = r.Next(); err == nil {
					m.add(f)
					offer()
				}
			}
			body.Close()
		}
		conn.Close()
		if _, lies := errors.AsType[*stream.Error](err); lies {
			t.Fatal(err)
		}
	}
	m.same(t, all.Lookup(m.id))
	if len(m.displays) != 60 || cuts < 5 {
		t.Errorf("%d displays came, and the link was cut %d times", len(m.displays), cuts)
	}
	for i, d := range m.displays {
		if d.Number != i+1 || !bytes.Equal(m.forms[i+1][0], bytes.Repeat([]byte{byte(i)}, 5000)) {
			t.Errorf("display %d: %+v", i+1, d)
		}
	}
}

// A cutPipe ends after some bytes were read.
type cutPipe struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (p *cutPipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	left := p.left
	p.mu.Unlock()
	if left == 0 {
		p.Close()
		return 0, io.EOF
	}
	n, err := p.Conn.Read(b[:min(len(b), left)])
	p.mu.Lock()
	p.left -= n
	p.mu.Unlock()
	return n, err
}

// What the log there has dropped is skipped, with its cause, while the job runs and after its end.
func TestDroppedOutputIsSkipped(t *testing.T) {
	dir := t.TempDir()
	logs := output.NewStore(output.Config{Cap: 1 << 20, Dir: func() (string, error) { return dir, nil }})
	all := jobs.NewRegistry(jobs.Config{Logs: logs})
	defer all.Close(jobs.Stop{By: jobs.Shutdown})
	printed, ends := make(chan struct{}), make(chan struct{})
	j, c, _ := runIn(t, all, func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		for i := range 400 {
			p.Write(output.Stdout, fmt.Appendf(nil, "%09999d\n", i))
		}
		close(printed)
		<-ends
		return returned
	})
	<-printed
	follow := func(came func()) (m mirror) {
		r, body, err := c.Follow(t.Context(), j.ID(), stream.Position{})
		must.Do(t, err)
		defer body.Close()
		for {
			f, err := r.Next()
			if err == io.EOF {
				break
			}
			must.Do(t, err)
			if m.add(f); len(m.log) == 4_000_000 {
				came()
			}
		}
		m.same(t, j)
		var why output.Loss
		for _, s := range m.skips {
			why.Cap += s.Why.Cap
			why.Disk += s.Why.Disk
			why.Limit += s.Why.Limit
		}
		if stat := j.Log().Stat(); why != stat.Loss || why.Cap == 0 {
			t.Errorf("lost %+v; the log has lost %+v", why, stat.Loss)
		}
		return m
	}
	follow(sync.OnceFunc(func() { close(ends) }))
	m := follow(func() {})
	// The record of the end comes before so much output, and again after it.
	if !m.records[0].Status.Final() || m.behind[0] < 2<<20 || m.behind[len(m.behind)-1] != 0 {
		t.Errorf("behind %d", m.behind)
	}
}

// The life goes on after the end of a job that has left a process, until that has ended: late output, and the
// receipt that says so.
func TestLifeOfWhatIsLeft(t *testing.T) {
	port := make(chan *jobs.Port, 1)
	left := []jobs.Process{{PID: 7, Program: "sleep"}}
	j, _, r := run(t, func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		port <- p
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Left: left}}
	})
	p := <-port
	m := mirror{id: j.ID()}
	for end := false; !end; {
		f, err := r.Next()
		must.Do(t, err)
		m.add(f)
		end = f.Record != nil && f.Record.Status.Final()
	}
	p.Write(output.Stdout, []byte("late"))
	for string(m.log) != "late" {
		f, err := r.Next()
		must.Do(t, err)
		m.add(f)
	}
	p.AmendReceipt(func(r *jobs.Receipt) { r.Left, r.Notes = nil, []string{"ended since"} })
	if err := m.follow(r); err != io.EOF {
		t.Fatal(err)
	}
	m.same(t, j)
	if last := m.records[len(m.records)-1].Receipt; last.Left != nil || last.Notes == nil {
		t.Errorf("%+v", last)
	}
}

// A display whose bytes are lost comes without them, and one that is replaced does not come.
func TestDisplaysThatAreGone(t *testing.T) {
	dir := t.TempDir()
	all := jobs.NewRegistry(jobs.Config{Logs: output.NewStore(output.Config{Dir: func() (string, error) { return dir, nil }})})
	defer all.Close(jobs.Stop{By: jobs.Shutdown})
	j, c, _ := runIn(t, all, func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		sink := display.NewSink(p)
		for i := range 3 {
			sink.Add("figure", "", []display.Form{{MIME: "text/html", Data: []byte("<b>")}, {MIME: "text/plain", Data: []byte("b")}})
			if i == 0 {
				p.Clear(false)
			}
		}
		return returned
	})
	<-j.Done()
	must.Do(t, os.Remove(fmt.Sprintf("%s/%s/display-%d", dir, j.ID(), j.Displays()[0].Forms[1].Attachment)))
	r, body, err := c.Follow(t.Context(), j.ID(), stream.Position{})
	must.Do(t, err)
	defer body.Close()
	m := mirror{id: j.ID()}
	if err := m.follow(r); err != io.EOF {
		t.Fatal(err)
	}
	m.same(t, j)
	want := map[int][][]byte{2: {[]byte("<b>"), nil}, 3: {[]byte("<b>"), []byte("b")}}
	if d := cmp.Diff(want, m.forms); d != "" {
		t.Error(d)
	}
}

// discarded is a ResponseWriter that counts flushes.
type discarded struct {
	mu      sync.Mutex
	flushes []time.Duration
	begin   time.Time
}

func (*discarded) Header() http.Header           { return http.Header{} }
func (*discarded) WriteHeader(int)               {}
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarded) Flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushes = append(d.flushes, time.Since(d.begin))
}

// A quiet job is said to live every 15 s, and the first write waits for its end as long as it is told. If the life did not sleep
// between, it would take a processor, and the time of this bubble would stand still.
func TestQuietLifeIsAlive(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, c := range map[string]struct {
		run  linktest.Runner
		want []time.Duration
	}{
		"it runs": {func(ctx context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			<-ctx.Done()
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: p.Stop()}}
		}, []time.Duration{20 * ms, 15*s + 20*ms, 30*s + 20*ms}},
		"it has ended, and left a process": {func(ctx context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			p.Write(output.Stdout, []byte("x"))
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Left: []jobs.Process{{PID: 7}}}}
		}, []time.Duration{0, 15 * s, 30 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := jobs.NewRegistry(jobs.Config{})
				j, err := all.Start(jobs.Spec{Kind: jobs.Shell}, c.run)
				must.Do(t, err)
				synctest.Wait() // it has got to where it waits, or has ended
				d := &discarded{begin: time.Now()}
				ctx, cancel := context.WithTimeout(t.Context(), 40*s)
				defer cancel()
				if err := stream.Write(ctx, d, j, stream.Position{Quick: 20 * ms}); err != context.DeadlineExceeded {
					t.Error(err)
				}
				if diff := cmp.Diff(c.want, d.flushes); diff != "" {
					t.Error(diff)
				}
				all.Close(jobs.Stop{By: jobs.Shutdown})
			})
		})
	}
}

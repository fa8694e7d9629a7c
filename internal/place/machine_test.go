package place

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// bubble runs a test in which time passes only when everything waits: a minute of backoff costs nothing. It fails if
// a goroutine is left.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	// net/http keeps channels for later requests, and a channel of one bubble can't be used in another one.
	runtime.GC()
	runtime.GC()
	synctest.Test(t, f)
}

// A machine is the one on which the engines of a test run. Carriers that reach it are pipes of this process.
type machine struct {
	t     testing.TB
	name  string
	tools linktest.Runners
	wrap  wrapper            // serves the requests; nil: far's handler does
	works func(begun func()) // is called by each call of a tool; nil: the call answers at once

	served sync.WaitGroup // the goroutines of engines

	mu       sync.Mutex
	engine   *engine            // nil: none runs
	engines  int                // how many have been started
	fails    error              // why no carrier gets in; nil: they do
	slow     time.Duration      // how long a carrier takes
	tried    []time.Time        // when a carrier was started
	wires    []*wire            // those that got in
	cutAfter func() int64       // bytes to this side after which a wire is cut; nil: never
	holds    bool               // something there is used although no job runs
	python   []overview.Session // its sessions
	isOff    bool               // the test has ended
}

// An engine serves far's handler, with jobs that are runners of the test.
type engine struct {
	machine *machine
	start   string
	jobs    *jobs.Registry
	conns   chan net.Conn
	server  *http.Server
	unused  time.Time
	ended   chan struct{}
	once    sync.Once
	calls   []string  // tools that were called, guarded by machine.mu
	trims   []jobs.By // the causes of its trims, guarded by machine.mu
}

func newMachine(t testing.TB, tools linktest.Runners) *machine {
	m := &machine{t: t, name: "gpu-box", tools: tools}
	t.Cleanup(m.off)
	return m
}

// off ends the engine. No goroutine is started from then on: a request can still be served.
func (m *machine) off() {
	m.set(func() { m.isOff, m.fails = true, errors.New("it is off") })
	if e := m.running(); e != nil {
		e.kill()
	}
	m.served.Wait()
}

// running returns the engine, or nil.
func (m *machine) running() *engine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.engine
}

// set changes the machine.
func (m *machine) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// run starts an engine. The caller holds m.mu.
func (m *machine) run() {
	m.engines++
	e := &engine{machine: m, start: fmt.Sprintf("%s-%d-%s", m.name, m.engines, rand.Text()[:4]), jobs: jobstest.Registry(m.t), conns: make(chan net.Conn), unused: time.Now(), ended: make(chan struct{})}
	c := linktest.Config(e.jobs, m.tools)
	c.Start, c.State = e.start, e.state
	c.End = func() {
		m.set(func() {
			if !m.isOff {
				m.served.Go(func() { e.end(true) })
			}
		})
	}
	c.Trim = e.trim
	c.Call = func(_ context.Context, tool string, args json.RawMessage, begun func()) (string, bool) {
		m.set(func() { e.calls = append(e.calls, tool) })
		if m.works != nil {
			m.works(begun)
		}
		return "called " + tool + " " + string(args), strings.HasPrefix(tool, "bad") || strings.Contains(string(args), "bad")
	}
	h := far.Handler(c)
	if m.wrap != nil {
		next := h
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.wrap(w, r, next) })
	}
	e.server = far.NewServer(h)
	m.served.Go(func() { e.server.Serve(far.Listener{Listener: pipes{e}}) })
	m.engine = e
}

// A pipes is a listener for connections of this process.
type pipes struct{ e *engine }

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.e.conns:
		return c, nil
	case <-p.e.ended:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (e *engine) state() far.State {
	s := far.State{Jobs: len(e.jobs.List(jobs.Filter{Status: unended}))}
	e.machine.mu.Lock()
	defer e.machine.mu.Unlock()
	s.Python = e.machine.python
	if s.Unused = s.Jobs == 0 && !e.machine.holds; s.Unused {
		for r := range e.jobs.All(jobs.Filter{}) {
			if r.Ended.After(e.unused) {
				e.unused = r.Ended
			}
		}
		s.Since = time.Since(e.unused)
	} else {
		e.unused = time.Now()
	}
	return s
}

var unended = []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput}

// end is a goodbye.
func (e *engine) end(keep bool) {
	kept := 0
	for _, r := range e.jobs.List(jobs.Filter{Status: unended}) {
		if keep && r.Keep {
			kept++
			continue
		}
		j := e.jobs.Lookup(r.ID)
		j.Stop(jobs.Stop{By: jobs.Shutdown, From: jobs.Terminate})
		<-j.Done()
	}
	if kept == 0 {
		e.machine.set(func() { e.machine.engine = nil }) // no carrier finds it any more
		select {
		case <-time.After(100 * time.Millisecond): // the last words are on their way
		case <-e.ended:
		}
		e.kill()
	}
}

// trim ends what is not kept.
func (e *engine) trim(cause jobs.By) {
	e.machine.set(func() { e.trims = append(e.trims, cause) })
	for _, r := range e.jobs.List(jobs.Filter{Status: unended}) {
		if !r.Keep {
			e.jobs.Lookup(r.ID).Stop(jobs.Stop{By: cause, From: jobs.Terminate})
		}
	}
}

// trimmed waits until the engine was trimmed, for these causes.
func (e *engine) trimmed(causes ...jobs.By) {
	e.machine.t.Helper()
	var got []jobs.By
	for end := time.Now().Add(time.Hour); time.Now().Before(end); time.Sleep(time.Millisecond) {
		e.machine.set(func() { got = slices.Clone(e.trims) })
		if slices.Equal(got, causes) {
			return
		}
	}
	e.machine.t.Fatalf("the engine was trimmed for %q, want %q", got, causes)
}

// kill ends the engine as SIGKILL does.
func (e *engine) kill() {
	e.once.Do(func() {
		close(e.ended)
		e.server.Close()
		e.machine.set(func() {
			if e.machine.engine == e {
				e.machine.engine = nil
			}
		})
		e.jobs.Close(jobs.Stop{By: jobs.Unknown, From: jobs.Kill})
	})
}

// join is what a carrier and dial do.
func (m *machine) join(ctx context.Context, spec carry.Spec) (net.Conn, far.Greeting, error) {
	m.mu.Lock()
	m.tried = append(m.tried, time.Now())
	slow := m.slow
	m.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, far.Greeting{}, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails != nil {
		return nil, far.Greeting{}, m.fails
	}
	known := ""
	if i := slices.Index(spec.Command, "-start"); i >= 0 {
		known = spec.Command[i+1]
	}
	g := far.Greeting{Protocol: far.Protocol, Version: "9", Machine: m.name, Boot: "boot"}
	if known != "" && (m.engine == nil || m.engine.start != known) {
		return nil, g, carry.ErrGone
	}
	if m.engine == nil {
		m.run()
	}
	e := m.engine
	g.Start = e.start
	here, there := net.Pipe()
	w := &wire{Conn: here, left: -1, closed: make(chan struct{})}
	if m.cutAfter != nil {
		w.left = m.cutAfter()
	}
	m.wires = append(m.wires, w)
	select {
	case e.conns <- there:
		return w, g, nil
	case <-e.ended:
		return nil, g, errors.New("it has just ended")
	}
}

// attempts returns when carriers were started, after the first n.
func (m *machine) attempts(n int) []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tried[n:])
}

// wire returns the newest wire.
func (m *machine) wire() *wire {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wires[len(m.wires)-1]
}

// A wire is this side of a connection, which can be cut, after some bytes, and paused.
type wire struct {
	net.Conn
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	left   int64         // bytes to this side until it is cut; negative: it is not
	paused chan struct{} // closed when it goes on; nil: it is not paused
	held   []byte        // written while it is paused
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// pause lets nothing through until resume is called. What is written meanwhile is held, as the buffer of a pipe does.
func (w *wire) pause() (resume func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := make(chan struct{})
	w.paused = p
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.paused = nil
		close(p)
		w.Conn.Write(w.held) // an error: it is closed
		w.held = nil
	}
}

// flows waits while the wire is paused.
func (w *wire) flows() error {
	w.mu.Lock()
	p := w.paused
	w.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p:
		return nil
	case <-w.closed:
		return net.ErrClosed
	}
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if held := w.flows(); held != nil {
		return 0, held
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left >= 0 {
		if n = min(n, int(w.left)); n == int(w.left) {
			w.Close()
		}
		w.left -= int64(n)
	}
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	if w.paused != nil {
		defer w.mu.Unlock()
		w.held = append(w.held, b...)
		return len(b), nil
	}
	w.mu.Unlock()
	return w.Conn.Write(b)
}

// A stage is a server with a place on a machine.
type stage struct {
	t    *testing.T
	m    *machine
	ps   *Places
	here *jobs.Registry
	conf config.Place
	file *keyfile.File
}

func newStage(t *testing.T, tools linktest.Runners) *stage {
	return serve(t, newMachine(t, tools), nil)
}

// serve starts a server for a machine.
func serve(t *testing.T, m *machine, file *keyfile.File) *stage {
	t.Helper()
	s := &stage{t: t, m: m, here: jobstest.Registry(t), file: file, conf: config.Place{Name: "gpu", SSH: []string{"gpu-box"}, Workspace: "/w", Linger: time.Hour}}
	s.ps = must.Get(New(Config{Places: []config.Place{s.conf}, Jobs: s.here, Key: "key", File: file, Version: "9"}))(t)
	s.ps.join = m.join
	t.Cleanup(s.close)
	return s
}

// close ends the server.
func (s *stage) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.ps.Close(ctx)
}

// host returns the host of the place.
func (s *stage) host() *host {
	p := s.ps.places["gpu"]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosts["gpu"]
}

// start starts a job of a tool there.
func (s *stage) start(tool string) *jobs.Job {
	return s.startAs(server.Start{Tool: tool, Kind: jobs.Shell})
}

func (s *stage) startAs(st server.Start) *jobs.Job {
	s.t.Helper()
	run := must.Get(s.ps.Runner("gpu", st))(s.t)
	return jobstest.Start(s.t, s.here, jobs.Spec{Kind: st.Kind, Title: st.Tool, Session: st.Session, Keep: st.Keep, Place: "gpu"}, run)
}

// there returns the job in the engine that runs now.
func (s *stage) there(j *jobs.Job) *jobs.Job {
	e := s.m.running()
	if e == nil {
		return nil
	}
	return e.jobs.Lookup(j.ID())
}

// runs waits until a job runs.
func runs(t testing.TB, j *jobs.Job) {
	t.Helper()
	becomes(t, j, "run", func(r jobs.Record, _ jobs.Link) bool { return r.Status == jobs.Running })
}

// lost waits until the link of a job is lost.
func lost(t testing.TB, j *jobs.Job) jobs.Link {
	t.Helper()
	becomes(t, j, "be out of reach", func(_ jobs.Record, l jobs.Link) bool { return !l.Lost.IsZero() })
	return j.Live().Link()
}

// await waits until something is true, for an hour of the bubble's time.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Hour); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited an hour without success for %s", what)
		}
	}
}

// becomes waits until something is true of a job that has not ended.
func becomes(t testing.TB, j *jobs.Job, what string, is func(jobs.Record, jobs.Link) bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(time.Millisecond) {
		var l jobs.Link
		if f := j.Live().Link; f != nil {
			l = f()
		}
		if is(j.Record(), l) {
			return
		}
		if time.Now().After(end) || j.Record().Status.Final() {
			t.Fatalf("the job does not %s: %+v, %+v", what, j.Record(), l)
		}
	}
}

// A wrapper serves a request in its own way, or by next, which is far's handler.
type wrapper func(w http.ResponseWriter, r *http.Request, next http.Handler)

// on returns a wrapper in which f answers what has a path that ends so.
func on(path string, f wrapper) wrapper {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, path) {
			f(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}
}

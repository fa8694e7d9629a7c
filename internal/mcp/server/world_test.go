package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/engine"
	mcpclient "asyncrepl/internal/mcp/client"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A world is an engine with programs for Python and shell.
type world struct {
	t         testing.TB
	config    Config
	jobs      *jobs.Registry
	grace     time.Duration                        // of connections
	timeout   time.Duration                        // of connections
	status    func(engine.Scope, *overview.Server) // if set, adds to what Status returns
	drain     time.Duration                        // of connections
	sandbox   string                               // what the Backend says of it
	workspace string
	log       *syncBuffer   // of connections that have none of their own
	wroteLate chan struct{} // closed when late output was written

	mu          sync.Mutex
	gates       map[string]chan struct{}
	vars        map[string]engine.Variables
	sessions    map[string]engine.SessionSpec // the sessions that exist
	histories   map[string]engine.History
	losses      []*engine.Loss
	unprotected []string
	kept        []string // the sessions that calls have kept
	requests    []engine.Command
	asked       []engine.Request
	order       []string    // the codes that Python was given
	note        string      // the note that TakeNote returns
	begun       chan string // if set, takes the id of the next job that begins

	restarted chan struct{} // if set, closed when a session has been restarted
}

func newWorld(t testing.TB) *world {
	w := &world{
		t:         t,
		jobs:      jobstest.Registry(t),
		grace:     jobstest.Patience, // a busy machine must not make a job "running"
		workspace: t.TempDir(),
		log:       &syncBuffer{},
		wroteLate: make(chan struct{}),
		gates:     map[string]chan struct{}{},
		vars:      map[string]engine.Variables{},
		sessions:  map[string]engine.SessionSpec{"default": {Name: "default"}},
		histories: map[string]engine.History{},
	}
	w.config = Config{Backend: w, Version: "test"}
	return w
}

// gate returns a channel that is closed when the test opens it.
func (w *world) gate(name string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gates[name] == nil {
		w.gates[name] = make(chan struct{})
	}
	return w.gates[name]
}

// nextJob returns a channel for the id of the next job that begins.
func (w *world) nextJob() <-chan string {
	begun := make(chan string, 1) // one job is waited for
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = begun
	return begun
}

// begins reports that a job begins.
func (w *world) begins(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun != nil {
		w.begun <- id
		w.begun = nil
	}
}

func (w *world) open(name string) { close(w.gate(name)) }

// Jobs implements Backend.
func (w *world) Jobs() *jobs.Registry { return w.jobs }

// Status implements Backend.
func (w *world) Status(sc engine.Scope) overview.Server {
	s := overview.Server{Version: "test", PID: os.Getpid(), Workspace: sc.Workspace, Jobs: w.jobs.Count(), Disk: w.jobs.Usage()}
	if w.status != nil {
		w.status(sc, &s)
	}
	return s
}

// Killed and KilledSaid implement Backend.
func (w *world) Killed() []string { return nil }
func (w *world) KilledSaid()      {}

// Sandbox and Unprotected implement Backend.
func (w *world) Sandbox() string { return w.sandbox }
func (w *world) Unprotected() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unprotected
}

// Keep implements Backend.
func (w *world) Keep(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, session)
}

// Losses implements Backend.
func (w *world) Losses() []*engine.Loss {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.losses
}

// Session implements Backend.
func (w *world) Session(session string) (engine.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, made := w.sessions[session]
	if _, used := w.vars[session]; !made && !used {
		return nil, &engine.NoSessionError{Name: session, Names: slices.Sorted(maps.Keys(w.sessions))}
	}
	return &testSession{w, session}, nil
}

// Open implements Backend.
func (w *world) Open(_ engine.Scope, session string) (_ engine.Session, made bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if session == "full" {
		return nil, false, &engine.TooManySessionsError{Open: 50, Idle: w.state("lab")}
	}
	if _, ok := w.sessions[session]; !ok {
		w.sessions[session] = engine.SessionSpec{Name: session}
		made = true
	}
	return &testSession{w, session}, made, nil
}

// Create implements Backend.
func (w *world) Create(_ context.Context, _ engine.Scope, spec engine.SessionSpec) (overview.Session, *engine.Install, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.sessions[spec.Name]; ok {
		return overview.Session{}, nil, &engine.SessionExistsError{Session: w.state(spec.Name)}
	}
	w.sessions[spec.Name] = spec
	if spec.Packages == "" {
		return w.state(spec.Name), nil, nil
	}
	return w.state(spec.Name), &engine.Install{Run: &program{w, spec.Packages}, Site: "site"}, nil
}

// Branch implements Backend. A busy session is never branched.
func (w *world) Branch(ctx context.Context, from, name string) (overview.Session, engine.Shared, error) {
	if from == "busy" || from == "asks" {
		return overview.Session{}, nil, &engine.BusyError{Session: from, Job: "J1", Waits: from == "asks"}
	}
	w.mu.Lock()
	spec, ok := w.sessions[from]
	w.mu.Unlock()
	if !ok {
		return overview.Session{}, nil, &engine.NoSessionError{Name: from, Names: []string{"lab"}}
	}
	spec.Name = name
	spec.Packages = ""
	status, _, err := w.Create(ctx, engine.Scope{}, spec)
	status.Parent = from
	return status, engine.Shared{"child 812 (sleep)"}, err
}

// Continue implements Backend: the states after the jobs of session kept are there.
func (w *world) Continue(ctx context.Context, job jobs.Record, name string) (overview.Session, engine.Shared, error) {
	switch {
	case name == "threads":
		return overview.Session{}, nil, fmt.Errorf("session %s can't be branched now: a thread runs", job.Session)
	case name == "busy":
		return overview.Session{}, nil, &engine.BusyError{Session: job.Session, Job: "J"}
	case job.Session != "kept":
		return overview.Session{}, nil, engine.ErrNotKept
	}
	status, _, err := w.Create(ctx, engine.Scope{}, engine.SessionSpec{Name: cmp.Or(name, "kept-2")})
	status.Parent = "kept"
	return status, engine.Shared{"child 812 (sleep)"}, err
}

// Sessions implements Backend.
func (w *world) Sessions() (list []overview.Session, limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.sessions)) {
		list = append(list, w.state(name))
	}
	return list, 50
}

// state returns the state of a session without Python. The caller holds mu.
func (w *world) state(name string) overview.Session {
	return overview.Session{Name: name, Dir: cmp.Or(w.sessions[name].Dir, "/lab")}
}

// Delete implements Backend.
func (w *world) Delete(name string, by jobs.By, reason string) (wait func(context.Context) (engine.End, error), kept func() string, err error) {
	s, err := w.Session(name)
	if err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	dir := ""
	if w.sessions[name].Venv == engine.OwnVenv {
		dir = "/lab/.venvs/" + name
	}
	delete(w.sessions, name)
	w.mu.Unlock()
	wait, err = s.Restart(by, reason)
	return wait, func() string { return dir }, err
}

// Replay implements Backend. Its jobs are those of the session's history, which took a second each.
func (w *world) Replay(job jobs.Record) (engine.Replay, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.sessions[job.Session]; !ok {
		return nil, &engine.NoSessionError{Name: job.Session}
	}
	steps, err := w.histories[job.Session].Until(job.ID)
	return &testReplay{w, job.Session, len(steps)}, err
}

type testReplay struct {
	w       *world
	session string
	steps   int
}

func (r *testReplay) Cost() (int, time.Duration) {
	return r.steps, time.Duration(r.steps) * time.Second
}

func (r *testReplay) Run(name string, work engine.Work) (string, jobs.Runner, error) {
	if name == "default" {
		return "", nil, &engine.SessionExistsError{}
	}
	if name == "" {
		name = r.session + "-2"
	}
	if _, _, err := r.w.Create(context.Background(), engine.Scope{}, engine.SessionSpec{Name: name}); err != nil {
		return "", nil, err
	}
	return name, &program{r.w, fmt.Sprintf("out \"again %d\\n\"\nresult %q", r.steps, work.Code)}, nil
}

// Shell implements Backend.
func (w *world) Shell(_ engine.Scope, c engine.Command) (jobs.Runner, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, c)
	return &program{w, c.Line}, nil
}

// Install implements Backend.
func (w *world) Install(sc engine.Scope, session, packages string) (_ *engine.Install, made bool, err error) {
	if strings.HasPrefix(packages, "-") {
		return nil, false, fmt.Errorf("%q looks like an option; name packages only", packages)
	}
	_, made, err = w.Open(sc, session)
	run := &program{w, fmt.Sprintf("out %q", "installed "+packages+" for "+session+"\n")}
	return &engine.Install{Run: run, Site: "site"}, made, err
}

// TakeNote implements Backend.
func (w *world) TakeNote(engine.Scope) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	note := w.note
	w.note = ""
	return note
}

// job returns the job that a reply is about.
func (w *world) job(reply string) *jobs.Job {
	w.t.Helper()
	j, err := w.jobs.Get(field(reply, "Job ID"))
	if err != nil {
		w.t.Fatalf("%v in reply:\n%s", err, reply)
	}
	return j
}

// The limits of replies, which package report sets.
const (
	lineMax    = 300 // of a header's value
	messageMax = 200 // of one progress message
	notesMax   = 20  // notes of a receipt
)

// beginning returns the part of a reply that a failing test shows.
func beginning(reply string) string { return reply[:min(len(reply), 2000)] }

// chars counts characters.
func chars(s string) int { return utf8.RuneCountInString(s) }

// field returns the value of a header line, "" if there is none.
func field(reply, name string) string { return mcpclient.Reply(reply).Header(name) }

// plain returns a reply without what differs between runs: ids are numbered in the order in which
// they are first seen, durations are T, times of day are NOW.
type plainer struct{ seen []string }

func (p *plainer) plain(reply string) string {
	reply = ids.ReplaceAllStringFunc(reply, func(id string) string {
		for i, s := range p.seen {
			if s == id {
				return fmt.Sprintf("ID%d", i+1)
			}
		}
		p.seen = append(p.seen, id)
		return fmt.Sprintf("ID%d", len(p.seen))
	})
	reply = clock.ReplaceAllString(times.ReplaceAllString(reply, "T"), "NOW")
	return spans.ReplaceAllString(reply, "${1}0")
}

// real replaces ID1, ID2 … in arguments with the ids that they stand for.
func (p *plainer) real(t *testing.T, a given) (real given) {
	t.Helper()
	text := string(rawjson.Of(a))
	for i, id := range p.seen {
		text = strings.ReplaceAll(text, fmt.Sprintf("ID%d", i+1), id)
	}
	if err := json.Unmarshal([]byte(text), &real); err != nil {
		t.Fatal(err)
	}
	return real
}

// A syncBuffer is a buffer that several goroutines can write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

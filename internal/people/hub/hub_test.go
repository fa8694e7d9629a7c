//go:build unix

package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"asyncrepl/internal/client/keeper"
	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/page"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }

// A world has engines at sockets in a directory, and a hub that finds them, behind a server.
type world struct {
	t     *testing.T
	place string
	hub   *Hub
	url   string

	workspace, state string // the directories of engines; empty: each has its own

	mu   sync.Mutex
	said []string
	made int
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, place: filepath.Join(t.TempDir(), "sockets")}
	w.hub = w.newHub()
	server := httptest.NewServer(w.hub.API())
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// newHub returns a hub that runs until the end of the test.
func (w *world) newHub() *Hub {
	h := New([]string{w.place}, func(line string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.said = append(w.said, line)
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	w.t.Cleanup(func() { cancel(); running.Wait() })
	return h
}

// says waits until the hub has said a part of a line.
func (w *world) says(part string) {
	w.t.Helper()
	polltest.Check(w.t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if slices.ContainsFunc(w.said, func(line string) bool { return strings.Contains(line, part) }) {
			return nil
		}
		return fmt.Errorf("the hub says %q, and not %q", w.said, part)
	})
}

// identity returns the identity of the next engine.
func (w *world) identity() string {
	w.made++
	return fmt.Sprintf("%024x", w.made)
}

// A served is a real engine at a real socket. stop ends it as the end of its process does.
type served struct {
	*engine.Engine
	t    *testing.T
	id   string // on the page
	stop func()
}

func (w *world) serve() *served { return w.serveAs(w.identity()) }

func (w *world) serveAs(identity string) *served {
	t := w.t
	t.Helper()
	eng := must.Get(engine.New(engine.Config{
		Version: "test", Guard: processtest.Guard(t), GuardEnv: os.Environ(), Workspace: cmp.Or(w.workspace, t.TempDir()), Shell: "/bin/sh",
		StateDir: cmp.Or(w.state, t.TempDir()), MaxJobs: 1000, MaxSessions: 10, MaxOutput: 64 << 20, MaxState: 64 << 20,
	}))(t)
	k := keeper.New(keeper.Config{
		Engine: eng, Version: "test", Lone: "it is part of a test", Scope: eng.Scope(engine.Client{Env: os.Environ()}), Log: slog.New(slog.DiscardHandler),
		Around: sockets.Surroundings{Places: []string{w.place}, Search: []string{w.place}, Identity: func() (string, error) { return identity, nil }},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { // ends with stop
		defer close(ended)
		k.Run(ctx, nil)
		k.Wait(context.Background())
		eng.Close()
	}()
	var once sync.Once
	s := &served{Engine: eng, t: t, id: sockets.Name{Identity: identity, PID: os.Getpid()}.String(), stop: func() { once.Do(func() { cancel(); <-ended }) }}
	t.Cleanup(s.stop)
	return s
}

// start runs a command line as a job.
func (s *served) start(line string) *jobs.Job {
	s.t.Helper()
	run := must.Get(s.Shell(s.Scope(engine.Client{Env: os.Environ()}), engine.Command{Line: line, TTY: true}))(s.t)
	return jobstest.Start(s.t, s.Jobs(), jobs.Spec{Kind: jobs.Shell, Title: line, Code: line}, run)
}

// asking starts a job, which then asks for input.
func (s *served) asking(line string) *jobs.Job {
	s.t.Helper()
	j := s.start(line)
	jobstest.Asks(s.t, j)
	return j
}

// request makes a request of the page, and returns the answer with its body.
func (w *world) request(method, path, body string) (*http.Response, string) {
	w.t.Helper()
	r := must.Get(http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body)))(w.t)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	answer := must.Get(http.DefaultTransport.RoundTrip(r))(w.t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(w.t)
	return answer, string(text)
}

// get asks for a value.
func get[T any](w *world, path string) (v T) {
	w.t.Helper()
	answer, text := w.request(http.MethodGet, path, "")
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/json" {
		w.t.Fatalf("%s: %s: %s", path, answer.Status, text)
	}
	must.Do(w.t, json.Unmarshal([]byte(text), &v))
	return v
}

// refuses makes a request that must be refused.
func (w *world) refuses(method, path, body string, status int, why string) {
	w.t.Helper()
	if answer, text := w.request(method, path, body); answer.StatusCode != status || !strings.Contains(text, why) || strings.Count(text, "\n") != 1 {
		w.t.Errorf("%s %s: %s: %q; want %d with %q", method, path, answer.Status, text, status, why)
	}
}

// A viewer is a tab: what a page knows from its stream.
type viewer struct {
	t    *testing.T
	conn *websocket.Conn

	mu       sync.Mutex
	servers  []place
	jobs     map[string]page.Brief
	first    int // how often its list was emptied
	complete int
	job      *page.Document
	output   []byte
	outputs  int // messages
	next     int64
	gone     string
	errors   []string
}

// open opens a tab.
func (w *world) open() *viewer {
	w.t.Helper()
	conn, _, err := websocket.Dial(w.t.Context(), "ws"+strings.TrimPrefix(w.url, "http")+"/api/live", nil)
	must.Do(w.t, err)
	conn.SetReadLimit(8 << 20)
	v := &viewer{t: w.t, conn: conn, jobs: make(map[string]page.Brief)}
	var reading sync.WaitGroup
	reading.Go(func() { // joined by the end of the test; ends with the connection
		for {
			_, text, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			var m struct {
				page.Update
				Servers []place
			}
			if err := json.Unmarshal(text, &m); err != nil {
				w.t.Errorf("%.200q: %v", text, err)
			}
			v.take(m.Update)
			if m.Servers != nil {
				v.mu.Lock()
				v.servers = m.Servers
				v.mu.Unlock()
			}
		}
	})
	w.t.Cleanup(func() { conn.CloseNow(); reading.Wait() })
	return v
}

func (v *viewer) take(m page.Update) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m.First {
		v.first++
		clear(v.jobs)
	}
	if m.Jobs != nil {
		for _, b := range m.Jobs {
			v.jobs[b.ID] = b
		}
	}
	if m.Complete {
		v.complete++
	}
	for _, id := range m.Removed {
		delete(v.jobs, id)
	}
	if m.Job != nil {
		v.job = m.Job
	}
	if o := m.Output; o != nil {
		v.outputs++
		if v.next != 0 && o.From != v.next {
			v.t.Errorf("output from %d comes after that up to %d", o.From, v.next)
		}
		if v.next = o.Next; o.Parts == nil {
			v.t.Error("output has no parts")
		}
		for _, p := range o.Parts {
			v.output = append(v.output, p.Data...)
		}
		v.send(page.Request{Op: "drawn", Job: o.Job, Cursor: o.Next})
	}
	if m.Gone != "" {
		v.gone = m.Gone
	}
	if m.Error != "" {
		v.errors = append(v.errors, m.Error)
	}
}

func (v *viewer) send(o page.Request) {
	v.conn.Write(v.t.Context(), websocket.MessageText, must.Get(json.Marshal(o))(v.t)) // an error: the reader ends
}

// until waits until the viewer is in some state.
func (v *viewer) until(what string, is func() bool) {
	v.t.Helper()
	polltest.Check(v.t, func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if is() {
			return nil
		}
		return fmt.Errorf("waited without success for %s: servers %v, %d jobs, list %d/%d, job %v, gone %q, errors %q, output %.100q",
			what, v.servers, len(v.jobs), v.first, v.complete, v.job, v.gone, v.errors, v.output)
	})
}

// lost returns the ids of the servers that are not connected, and of those that are.
func (v *viewer) lost() (lost, up []string) {
	for _, s := range v.servers {
		if s.Lost {
			lost = append(lost, s.ID)
		} else {
			up = append(up, s.ID)
		}
	}
	return lost, up
}

// sees waits until the viewer has the whole list with these servers connected, and the jobs.
func (v *viewer) sees(servers []*served, list ...*jobs.Job) {
	v.t.Helper()
	v.until("servers and jobs", func() bool {
		_, up := v.lost()
		for _, s := range servers {
			if !slices.Contains(up, s.id) {
				return false
			}
		}
		for _, j := range list {
			if _, ok := v.jobs[j.ID()]; !ok {
				return false
			}
		}
		return v.complete == 1 && v.first == 1
	})
}

// Three engines are one list. An answer reaches the job that asks, and no other.
func TestServersAreJoined(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.serve(), w.serve(), w.serve()
	first, asks, other := a.start("echo first"), b.asking("printf 'Name? '; read x; echo hello $x"), c.asking("printf 'Name? '; read x")
	v := w.open()
	v.sees([]*served{a, b, c}, first, asks, other)
	v.until("the place of each job", func() bool {
		q := v.jobs[asks.ID()].Question
		return v.jobs[first.ID()].Server == a.id && v.jobs[asks.ID()].Server == b.id && v.jobs[other.ID()].Server == c.id && q != nil && q.Prompt == "Name? "
	})
	for _, s := range v.servers {
		if s.Version != "test" || !slices.Contains([]string{a.Workspace(), b.Workspace(), c.Workspace()}, s.Workspace) {
			t.Errorf("a server is %+v", s)
		}
	}
	list := get[struct{ Jobs []page.Brief }](w, "/api/jobs?limit=2").Jobs
	if len(list) != 2 || list[0].ID != other.ID() || list[0].Server != c.id || list[1].ID != asks.ID() {
		t.Errorf("the newest jobs are %+v", list)
	}
	if answer, text := w.request(http.MethodPost, "/api/jobs/"+asks.ID()+"/input", `{"text":"Ada\n"}`); answer.StatusCode != http.StatusNoContent {
		t.Fatalf("%s: %s", answer.Status, text)
	}
	jobstest.EndsAs(t, asks, "completed")
	v.until("its end", func() bool { return v.jobs[asks.ID()].Status == "completed" && v.jobs[asks.ID()].Question == nil })
	w.refuses(http.MethodPost, "/api/jobs/"+asks.ID()+"/input", `{"text":"again\n"}`, http.StatusConflict, "has ended: completed")
	if answer, text := w.request(http.MethodPost, "/api/jobs/"+other.ID()+"/cancel", `{"force":true}`); answer.StatusCode != http.StatusAccepted {
		t.Fatalf("%s: %s", answer.Status, text)
	}
	if r := jobstest.EndsAs(t, other, "cancelled (killed by person)"); r.Receipt.By != jobs.Person {
		t.Errorf("it was cancelled by %q", r.Receipt.By)
	}
}

// What an engine says of a job passes without a loss, and so do its output and its sessions.
func TestNothingIsLost(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	j := s.start("printf '\\033[1mbold\\033[0m <script>'; printf 'err\\n' >&2")
	jobstest.End(t, j)
	direct := httptest.NewServer(page.API(s.Engine))
	defer direct.Close()
	w.open().sees([]*served{s}, j)
	for _, path := range []string{"/api/jobs", "/api/jobs/" + j.ID(), "/api/sessions"} {
		var want, got map[string]any
		answer := must.Get(http.Get(direct.URL + path))(t)
		must.Do(t, json.NewDecoder(answer.Body).Decode(&want))
		answer.Body.Close()
		got = get[map[string]any](w, path)
		for _, m := range []map[string]any{want, got} {
			for _, one := range []string{"jobs", "sessions"} {
				if list, ok := m[one].([]any); ok && len(list) > 0 {
					delete(list[0].(map[string]any), "server")
				}
			}
			delete(m, "server")
		}
		if a, b := must.Get(json.Marshal(want))(t), must.Get(json.Marshal(got))(t); !bytes.Equal(a, b) {
			t.Errorf("%s: the engine says\n%s\nthe page gets\n%s", path, a, b)
		}
	}
	answer, text := w.request(http.MethodGet, "/api/jobs/"+j.ID()+"/output?cursor=4", "")
	if h := answer.Header; text != jobstest.Output(j)[4:] || h.Get("Content-Type") != "application/octet-stream" || h.Get("Content-Disposition") != `attachment; filename="`+j.ID()+`.log"` {
		t.Errorf("the output is %q with %v", text, h)
	}
	w.refuses(http.MethodGet, "/api/jobs/"+j.ID()+"/output?cursor=99", "", http.StatusBadRequest, "cursor must be")
	w.refuses(http.MethodGet, "/api/jobs/"+j.ID()+"/display/1", "", http.StatusNotFound, "no display")
	w.refuses(http.MethodGet, "/api/jobs/"+j.ID()+"/display/..%2f..", "", http.StatusNotFound, "number")
	w.refuses(http.MethodGet, "/api/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", http.StatusNotFound, "no server has this job")
	w.refuses(http.MethodGet, "/api/sessions/none", "", http.StatusNotFound, "There is no session none")
	w.refuses(http.MethodPost, "/api/jobs/"+j.ID()+"/input", `{"text":"x","more":1}`, http.StatusBadRequest, "more")
	w.refuses(http.MethodPost, "/api/jobs/"+j.ID()+"/input", `{"text":"`+strings.Repeat("x", 16<<20)+`"}`, http.StatusRequestEntityTooLarge, "64 KiB")
}

// The open job is that of one engine. Its output arrives whole, from where the page has it.
func TestOpenJob(t *testing.T) {
	w := newWorld(t)
	a, b := w.serve(), w.serve()
	other := a.asking("read x")
	j := b.asking("seq 20000; read x; echo got $x")
	v := w.open()
	v.send(page.Request{Op: "open", Job: j.ID()}) // before the lists are there, as a page that is loaded again does
	v.sees([]*served{a, b}, other, j)
	v.until("the output", func() bool { return string(v.output) == jobstest.Output(j) && v.job != nil && v.job.Server == b.id })
	v.send(page.Request{Op: "keys", Job: j.ID(), Text: "typed\r"})
	jobstest.EndsAs(t, j, "completed")
	v.until("the end of the output", func() bool {
		return strings.HasSuffix(string(v.output), "got typed\r\n") && string(v.output) == jobstest.Output(j) && v.job.Status == "completed"
	})
	v.send(page.Request{Op: "open", Job: other.ID()})
	v.until("another job", func() bool { v.next = 0; return v.job.ID == other.ID() })
	half := w.open()
	half.send(page.Request{Op: "open", Job: j.ID(), Cursor: 1000})
	half.until("the rest of the output", func() bool { return string(half.output) == jobstest.Output(j)[1000:] })
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	half.send(page.Request{Op: "open", Job: id})
	half.until("no such job", func() bool { return half.gone == id })
	half.send(page.Request{Op: "open", Job: "../x"})
	half.until("no job", func() bool { return half.gone == "../x" })
	half.send(page.Request{Op: "dance"})
	half.send(page.Request{Op: "keys", Job: id, Text: "x"})
	half.until("two errors", func() bool { return len(half.errors) == 2 })
	for i, bad := range []string{"what?", `{"op":"close","and":"quit"}`, `{"op":"close"} {}`} {
		must.Do(t, half.conn.Write(t.Context(), websocket.MessageText, []byte(bad)))
		half.until("an error for "+bad, func() bool { return len(half.errors) == 3+i })
	}
}

// A server that ends is shown as lost, with its jobs, and the next one of the same identity takes its
// place. The others are there all the time.
func TestLostServerComesBack(t *testing.T) {
	w := newWorld(t)
	stays, identity := w.serve(), w.identity()
	before := w.serveAs(identity)
	a, b := stays.asking("read x"), before.asking("read x")
	v := w.open()
	v.sees([]*served{stays, before}, a, b)
	v.send(page.Request{Op: "open", Job: b.ID()})
	v.until("the open job", func() bool { return v.job != nil })
	before.stop()
	v.until("the loss", func() bool {
		lost, up := v.lost()
		return slices.Equal(lost, []string{before.id}) && len(up) == 1 && len(v.jobs) == 2
	})
	polltest.Until(t, "the next search", func() bool { return w.hub.owner(b.ID()) == nil })
	loaded := w.open()
	loaded.sees([]*served{stays}, a)
	if len(loaded.servers) != 1 || len(loaded.jobs) != 1 {
		t.Errorf("a tab that is loaded again shows servers %v and %d jobs", loaded.servers, len(loaded.jobs))
	}
	w.refuses(http.MethodPost, "/api/jobs/"+b.ID()+"/input", `{"text":"x"}`, http.StatusNotFound, "no server has this job")
	if v.gone != "" {
		t.Error("the job of a lost server is gone")
	}
	v.send(page.Request{Op: "keys", Job: b.ID(), Text: "x"})
	v.until("an error", func() bool { return len(v.errors) == 1 })
	again := w.serveAs(identity)
	c := again.start("echo again")
	v.until("its return", func() bool {
		lost, up := v.lost()
		return len(lost) == 0 && len(up) == 2 && len(v.jobs) == 2 && v.jobs[c.ID()].Server == again.id
	})
	v.until("the end of the open job", func() bool { return v.gone == b.ID() })
}

// A server that returns is at the place of the list where it was.
func TestOrderOfServers(t *testing.T) {
	w := newWorld(t)
	w.workspace = filepath.Join(t.TempDir(), "a")
	must.Do(t, os.Mkdir(w.workspace, 0o700))
	first, identity := w.workspace, w.identity()
	before := w.serveAs(identity)
	w.workspace = filepath.Join(t.TempDir(), "b") // the directory sorts after the other
	must.Do(t, os.Mkdir(w.workspace, 0o700))
	stays := w.serve()
	a, b := before.start("echo a"), stays.start("echo b") // an engine without a job has no socket
	v := w.open()
	v.sees([]*served{before, stays}, a, b)
	order := []string{first, w.workspace}
	are := func(lost int) func() bool {
		return func() bool {
			gone, up := v.lost()
			var workspaces []string
			for _, s := range v.servers {
				workspaces = append(workspaces, s.Workspace)
			}
			return len(gone) == lost && len(up) == 2-lost && slices.Equal(workspaces, order)
		}
	}
	v.until("the servers in order", are(0))
	before.stop()
	v.until("the loss, in order", are(1))
	polltest.Until(t, "the next search", func() bool { return w.hub.owner(a.ID()) == nil })
	w.workspace = first
	again := w.serveAs(identity)
	v.sees([]*served{again, stays}, again.start("echo again"))
	v.until("the return, in order", are(0))
}

// Two pages at once are independent.
func TestTwoHubs(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	j := s.asking("read x; echo got $x")
	second := httptest.NewServer(w.newHub().API())
	defer second.Close()
	one := w.open()
	w.url = second.URL
	two := w.open()
	for _, v := range []*viewer{one, two} {
		v.sees([]*served{s}, j)
		v.send(page.Request{Op: "open", Job: j.ID()})
	}
	one.send(page.Request{Op: "keys", Job: j.ID(), Text: "a\r"})
	for _, v := range []*viewer{one, two} {
		v.until("the output", func() bool { return strings.HasSuffix(string(v.output), "got a\r\n") })
	}
}

// Engines of one workspace have records in common. A job belongs to the engine that runs it.
func TestEnginesOfOneWorkspace(t *testing.T) {
	w := newWorld(t)
	w.workspace, w.state = t.TempDir(), t.TempDir()
	a := w.serve()
	first := a.start("true")
	jobstest.End(t, first)
	b := w.serve()
	ended, asks := b.start("true"), b.asking("read x; echo got $x")
	jobstest.End(t, ended)
	v := w.open()
	v.sees([]*served{a, b}, first, ended, asks)
	v.until("the place of each job", func() bool { return v.jobs[asks.ID()].Server == b.id && v.jobs[ended.ID()].Server == b.id })
	if list := get[struct{ Jobs []page.Brief }](w, "/api/jobs").Jobs; len(list) != 3 {
		t.Errorf("the list is %+v", list)
	}
	if answer, text := w.request(http.MethodPost, "/api/jobs/"+asks.ID()+"/input", `{"text":"x\n"}`); answer.StatusCode != http.StatusNoContent {
		t.Errorf("%s: %s", answer.Status, text)
	}
	jobstest.EndsAs(t, asks, "completed")
	b.stop()
	v.until("the end of one", func() bool { lost, _ := v.lost(); return len(lost) == 1 && len(v.jobs) == 3 })
	c := w.serveAs(w.identity())
	c.start("true")
	v.until("the records of the next", func() bool {
		return v.jobs[asks.ID()].Server == c.id && v.jobs[ended.ID()].Server == c.id && len(v.jobs) == 4
	})
}

//go:build unix

package page_test

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
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/page"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }

// A world is a real engine, whose page is served over HTTP.
type world struct {
	t testing.TB
	*engine.Engine
	server *httptest.Server
	log    bytes.Buffer // what the engine has logged; to be read after its end
	output int64        // bytes that are kept of a job; 0: 16 MiB
	python string       // the interpreter of sessions; empty: tests have none
	// The directories of records and of work; empty: each engine has its own.
	state, workspace string
}

func newWorld(t testing.TB) *world { return (&world{t: t}).begin() }

// begin starts the engine and its page.
func (w *world) begin() *world {
	t := w.t
	t.Helper()
	w.state, w.workspace = cmp.Or(w.state, t.TempDir()), cmp.Or(w.workspace, t.TempDir())
	w.Engine = must.Get(engine.New(engine.Config{
		Version: "test", Guard: processtest.Guard(t), GuardEnv: os.Environ(), Workspace: w.workspace, Shell: "/bin/sh", Python: w.python,
		StateDir: w.state, MaxJobs: 100, MaxSessions: 10, MaxOutput: cmp.Or(w.output, 16<<20), MaxState: 1 << 30,
		Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}))(t)
	t.Cleanup(w.Engine.Close)
	w.server = httptest.NewServer(page.API(w.Engine))
	t.Cleanup(w.server.Close)
	return w
}

// A runs is a runner made of a function.
type runs func(ctx context.Context, p *jobs.Port)

func (f runs) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	f(ctx, p)
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}

// job starts a job that f runs.
func (w *world) job(title string, f runs) *jobs.Job {
	w.t.Helper()
	return startJob(w.t, w.Jobs(), title, f)
}

func startJob(t testing.TB, r *jobs.Registry, title string, f runs) *jobs.Job {
	t.Helper()
	return jobstest.Start(t, r, jobs.Spec{Kind: jobs.Shell, Title: title}, f)
}

// done starts jobs that end at once.
func (w *world) done(n int) (list []*jobs.Job) {
	w.t.Helper()
	for i := range n {
		j := w.job(fmt.Sprint("job ", i), func(context.Context, *jobs.Port) {})
		<-j.Done()
		list = append(list, j)
	}
	return list
}

// scope returns the scope of an agent.
func (w *world) scope() engine.Scope {
	return w.Scope(engine.Client{Env: os.Environ(), Grace: time.Second})
}

// shell runs a command on a terminal.
func (w *world) shell(line string) *jobs.Job {
	w.t.Helper()
	run := must.Get(w.Shell(w.scope(), engine.Command{Line: line, TTY: true}))(w.t)
	return jobstest.Start(w.t, w.Jobs(), jobs.Spec{Kind: jobs.Shell, Title: view.Title(line), Code: line}, run)
}

// code runs Python code in a session.
func (w *world) code(session, code string) *jobs.Job {
	w.t.Helper()
	py, _, err := w.Open(w.scope(), session)
	must.Do(w.t, err)
	return jobstest.Start(w.t, w.Jobs(), jobs.Spec{Kind: jobs.Python, Session: session, Title: "code", Code: code}, py.Exec(code))
}

// A result is an answer over HTTP.
type result struct {
	status int
	header http.Header
	body   string
}

// do sends a request. A body is JSON.
func (w *world) do(method, path, body string) result {
	w.t.Helper()
	req := must.Get(http.NewRequest(method, w.server.URL+path, strings.NewReader(body)))(w.t)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return w.send(req)
}

func (w *world) send(req *http.Request) result {
	w.t.Helper()
	res := must.Get(http.DefaultClient.Do(req))(w.t)
	defer res.Body.Close()
	return result{res.StatusCode, res.Header, string(must.Get(io.ReadAll(res.Body))(w.t))}
}

// get returns the JSON at a path.
func get[T any](w *world, path string) (v T) {
	w.t.Helper()
	r := w.do("GET", path, "")
	if r.status != http.StatusOK {
		w.t.Fatalf("GET %s: %d %s", path, r.status, r.body)
	}
	must.Do(w.t, json.Unmarshal([]byte(r.body), &v))
	return v
}

// refuses expects that a request is refused, in one sentence that has some words.
func (w *world) refuses(method, path, body string, status int, words string) {
	w.t.Helper()
	r := w.do(method, path, body)
	if r.status != status || !strings.Contains(r.body, words) || strings.Count(r.body, "\n") != 1 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		w.t.Errorf("%s %s: %d %s %q, want %d %q", method, path, r.status, r.header.Get("Content-Type"), r.body, status, words)
	}
}

// A row is a job in the list, as a page reads it.
type row struct {
	ID, Kind, Title, Session, Status string
	StatusText                       string `json:"status_text"`
	Past                             bool
	Created                          time.Time
	Question                         *struct{ Kind, Prompt, By string }
	Place                            string
	page.Away
}

// A state is a job, as a page reads it.
type state struct {
	row
	Code          string
	CodeBytes     int `json:"code_bytes"`
	Rows, Columns int
	Answered      *struct {
		By string
		At time.Time
	}
	Displays []struct {
		Number int
		Label  string
		MIME   string `json:"mime_type"`
		Served string `json:"served_type"`
		Size   int
		Cursor int64
	}
	Receipt *struct{ By string }
	Output  struct{ Cursor int64 }
}

// A message is one to a page.
type message struct {
	Jobs            []row
	First, Complete bool
	Removed         []string
	Job             *state
	Output          *struct {
		Job                 string
		From, Next, Skipped int64
		Parts               []struct {
			Stream string
			Data   []byte
		}
	}
	Gone, Error string
}

// A tab is an open page: what it has been sent.
type tab struct {
	t    testing.TB
	conn *websocket.Conn
	rows map[string]row

	complete bool
	lists    int // messages of the whole list
	removed  []string
	job      *state
	open     string
	output   []byte
	streams  string // the streams of the parts
	from     int64  // where it was opened
	at       int64  // the cursor after the output
	skipped  int64
	lazy     bool // it says of nothing that it is drawn
	gone     string
	refused  []string
	messages int
	heard    *bytes.Buffer // gets all messages; nil: they are not kept
}

// tab opens a page.
func (w *world) tab() *tab {
	w.t.Helper()
	return w.tabAt(w.server.URL)
}

func (w *world) tabAt(url string) *tab {
	w.t.Helper()
	return openTab(w.t, url+"/api/live", nil)
}

// openTab opens a page.
func openTab(t testing.TB, url string, client *http.Client) *tab {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), jobstest.Patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client})
	must.Do(t, err)
	conn.SetReadLimit(1 << 20) // the most that a message has
	t.Cleanup(func() { conn.CloseNow() })
	return &tab{t: t, conn: conn, rows: make(map[string]row)}
}

// says sends a message to the server.
func (p *tab) says(m map[string]any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), jobstest.Patience)
	defer cancel()
	must.Do(p.t, p.conn.Write(ctx, websocket.MessageText, must.Get(json.Marshal(m))(p.t)))
}

// opens opens a job.
func (p *tab) opens(j *jobs.Job, cursor int64) {
	p.t.Helper()
	p.open, p.job, p.output, p.from, p.at, p.skipped = j.ID(), nil, nil, cursor, cursor, 0
	p.says(map[string]any{"op": "open", "job": j.ID(), "cursor": cursor})
}

// step takes the next message.
func (p *tab) step(ctx context.Context) error {
	_, b, err := p.conn.Read(ctx)
	if err != nil {
		return err
	}
	if p.heard != nil {
		p.heard.Write(b)
	}
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	p.messages++
	if m.First {
		clear(p.rows)
		p.lists = 0
	}
	if m.Jobs != nil && !p.complete {
		p.lists++
	}
	p.complete = p.complete || m.Complete
	if len(m.Jobs) > page.ListMax {
		p.t.Errorf("a message has %d jobs", len(m.Jobs))
	}
	for _, r := range m.Jobs {
		p.rows[r.ID] = r
	}
	for _, id := range m.Removed {
		delete(p.rows, id)
	}
	p.removed = append(p.removed, m.Removed...)
	if m.Job != nil {
		p.job = m.Job
	}
	p.gone = cmp.Or(m.Gone, p.gone)
	if m.Error != "" {
		p.refused = append(p.refused, m.Error)
	}
	if o := m.Output; o != nil && o.Job == p.open {
		if len(o.Parts) > page.PartsMax {
			p.t.Errorf("a message has %d parts", len(o.Parts))
		}
		if o.From != p.at+o.Skipped {
			p.t.Errorf("output of %d..%d, %d skipped, comes after %d", o.From, o.Next, o.Skipped, p.at)
		}
		n := 0
		for _, part := range o.Parts {
			p.output = append(p.output, part.Data...)
			p.streams += " " + part.Stream
			n += len(part.Data)
		}
		if o.Next != o.From+int64(n) {
			p.t.Errorf("output of %d..%d has %d bytes", o.From, o.Next, n)
		}
		p.at, p.skipped = o.Next, p.skipped+o.Skipped
		if !p.lazy {
			p.draws()
		}
	}
	return nil
}

// draws says that all is drawn.
func (p *tab) draws() {
	p.t.Helper()
	p.says(map[string]any{"op": "drawn", "job": p.open, "cursor": p.at})
}

// until takes messages until is holds.
func (p *tab) until(what string, is func() bool) *tab {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), jobstest.Patience)
	defer cancel()
	for !is() {
		if err := p.step(ctx); err != nil {
			p.t.Fatalf("waiting for %s: %v; job %+v, output %d..%d, %d skipped, refused %q", what, err, p.job, p.from, p.at, p.skipped, p.refused)
		}
	}
	return p
}

// listed takes messages until the page has the whole list.
func (p *tab) listed() *tab {
	p.t.Helper()
	return p.until("the list", func() bool { return p.complete })
}

// shows takes messages until a job in the list is in a status.
func (p *tab) shows(j *jobs.Job, status string) *tab {
	p.t.Helper()
	return p.until(j.ID()+" "+status, func() bool { return p.rows[j.ID()].Status == status })
}

// prints takes messages until the output of the open job ends with text.
func (p *tab) prints(text string) *tab {
	p.t.Helper()
	return p.until(fmt.Sprintf("output %q", text), func() bool { return strings.HasSuffix(string(p.output), text) })
}

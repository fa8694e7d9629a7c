//go:build unix

package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/page"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/pythontest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
	"asyncrepl/jobs/jobstest"
)

// The list over HTTP has what it is asked for, the newest first.
func TestListOfJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := func(query string) string {
		t.Helper()
		var titles []string
		for _, r := range get[struct{ Jobs []row }](w, "/api/jobs"+query).Jobs {
			titles = append(titles, r.Title)
		}
		return strings.Join(titles, ",")
	}
	if r := w.do("GET", "/api/jobs", ""); r.body != "{\"jobs\":[]}\n" {
		t.Errorf("of no job: %s", r.body)
	}
	done := w.done(3)
	stop := make(chan struct{})
	defer close(stop)
	running := w.job("<script>", func(context.Context, *jobs.Port) { <-stop })
	running.AwaitStart(t.Context())
	for query, want := range map[string]string{
		"": "<script>,job 2,job 1,job 0", "?limit=2": "<script>,job 2", "?status=completed": "job 2,job 1,job 0", "?status=running": "<script>",
		"?session=lab": "", "?before=" + done[1].ID(): "job 0", "?status=completed&limit=1&before=" + done[2].ID(): "job 1",
	} {
		if got := list(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, words := range map[string]string{
		"?limit=0": "limit must be a number from 1 to 1000", "?limit=x": "limit must be", "?limit=1001": "limit must be", "?status=done": "status must be one of: queued running waiting_input completed failed cancelled.",
	} {
		w.refuses("GET", "/api/jobs"+query, "", http.StatusBadRequest, words)
	}
}

// A job has its record, and what only a page shows.
func TestJobHasItsCodeAndItsTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := "echo one\n# " + strings.Repeat("x", 20_000)
	j := w.shell(line)
	jobstest.End(t, j)
	s := get[state](w, "/api/jobs/"+strings.ToLower(j.ID()))
	if s.ID != j.ID() || s.Code != line[:16<<10] || s.CodeBytes != len(line) || s.Rows != 40 || s.Columns != 120 || s.Receipt == nil || s.Receipt.By != "program" || s.Answered != nil {
		t.Errorf("%+v", s)
	}
	short := w.shell("true")
	jobstest.End(t, short)
	if s := get[state](w, "/api/jobs/"+short.ID()); s.Code != "true" || s.CodeBytes != 0 {
		t.Errorf("short: %+v", s)
	}
	w.refuses("GET", "/api/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", http.StatusNotFound, "There is no job 01ARZ3NDEKTSV4RRFFQ69G5FAV.")
	w.refuses("GET", "/api/jobs/%0a%3Cb%3E/output", "", http.StatusNotFound, `There is no job \n<b>.`)
}

// The code and the displays of a job are there after a later server has read them from its records.
func TestPastJobHasItsCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := "echo one\necho two"
	j := w.shell(line)
	jobstest.End(t, j)
	w.Engine.Close()
	later := (&world{t: t, state: w.state, workspace: w.workspace}).begin()
	s := get[state](later, "/api/jobs/"+j.ID())
	if !s.Past || s.Code != line || s.CodeBytes != len(line) || s.Status != "completed" {
		t.Errorf("%+v", s)
	}
	p := later.tab().listed()
	if !p.rows[j.ID()].Past {
		t.Errorf("in the list: %+v", p.rows)
	}
	p.opens(j, 5)
	p.prints("two\r\n")
	if string(p.output) != "two\r\n" {
		t.Errorf("output %q", p.output)
	}
	later.refuses("POST", "/api/jobs/"+j.ID()+"/input", `{"text":"x"}`, http.StatusConflict, "has ended: completed. Nothing was sent.")
	later.refuses("POST", "/api/jobs/"+j.ID()+"/cancel", `{}`, http.StatusConflict, "has ended: completed. Nothing of it is running.")
}

// The output is a download, from the cursor on.
func TestOutputIsADownload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Repeat("0123456789\n", 20_000) + "\x1b[31m<script>\x00\xff"
	j := w.job("output", func(_ context.Context, p *jobs.Port) { p.Write(output.Stdout, []byte(text)) })
	jobstest.End(t, j)
	path := "/api/jobs/" + j.ID() + "/output"
	for query, want := range map[string]string{"": text, "?cursor=10": text[10:], fmt.Sprint("?cursor=", len(text)): ""} {
		r := w.do("GET", path+query, "")
		if r.body != want || r.header.Get("Content-Type") != "application/octet-stream" || r.header.Get("Content-Disposition") != `attachment; filename="`+j.ID()+`.log"` {
			t.Errorf("%s: %d bytes, %v", query, len(r.body), r.header)
		}
	}
	for _, cursor := range []string{"-1", "x", fmt.Sprint(len(text) + 1)} {
		w.refuses("GET", path+"?cursor="+cursor, "", http.StatusBadRequest, fmt.Sprintf("cursor must be a number from 0 to %d, the end of the output.", len(text)))
	}
}

// The record of a job says by which streams its newest output came. Their ranges have no gap and end with the
// output, however long it is and however often it changes between streams.
func TestRecordHasItsStreams(t *testing.T) {
	t.Parallel()
	w := (&world{t: t, output: 128 << 10}).begin()
	for name, c := range map[string]struct {
		run  runs
		want string // the first ranges
		n    int
	}{
		"nothing": {func(context.Context, *jobs.Port) {}, "", 0},
		"three": {func(_ context.Context, p *jobs.Port) {
			p.Write(output.Stdout, []byte("out"))
			p.Write(output.Stderr, []byte("oops"))
			p.Write(output.Stdout, []byte("on"))
		}, "stdout 0-3 stderr 3-7 stdout 7-9", 3},
		"much": {func(_ context.Context, p *jobs.Port) {
			p.Write(output.Stderr, make([]byte, 1<<20)) // of which the middle is dropped
			p.Write(output.Stdout, []byte("x"))
		}, fmt.Sprintf("stderr %d-%d stdout %[2]d-%d", 1<<20+1-64<<10, 1<<20, 1<<20+1), 2},
		"many": {func(_ context.Context, p *jobs.Port) {
			for i := range 3000 {
				p.Write(output.Stream(i%2), []byte("x"))
			}
		}, "stdout 2000-2001 stderr 2001-2002", 1000},
	} {
		j := w.job(name, c.run)
		jobstest.End(t, j)
		var words []string
		list := get[struct{ Streams []page.Stretch }](w, "/api/jobs/"+j.ID()).Streams
		for i, s := range list {
			words = append(words, fmt.Sprintf("%s %d-%d", s.Stream, s.From, s.To))
			if i > 0 && s.From != list[i-1].To {
				t.Errorf("%s: %v follows %v", name, s, list[i-1])
			}
		}
		if got := strings.Join(words, " "); !strings.HasPrefix(got, c.want) || len(list) != c.n {
			t.Errorf("%s: %d ranges, %.200s", name, len(list), got)
		}
		if n := len(list); n > 0 && list[n-1].To != j.Log().Stat().End {
			t.Errorf("%s: the last is %v", name, list[n-1])
		}
	}
}

// A display has its type if that is in the list, and is a download if not; it is never more than shown.
func TestDisplayIsServedByItsType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	png, html := "\x89PNG\r\n\x1a\n", "<script>alert(1)</script>"
	kinds := []struct {
		forms         []display.Form
		served, saved string
	}{
		{[]display.Form{{MIME: "image/gif", Data: []byte("GIF89a")}}, "image/gif", ".gif"},
		{[]display.Form{{MIME: "text/html", Data: []byte(html)}}, "text/html; charset=utf-8", ".html"},
		{[]display.Form{{MIME: "text/html; charset=utf-7", Data: []byte(html)}}, "text/html; charset=utf-8", ".html"},
		{[]display.Form{{MIME: "image/svg+xml", Data: []byte("<svg/>")}}, "image/svg+xml", ".svg"},
		{[]display.Form{{MIME: "text/markdown", Data: []byte("# x")}}, "text/plain; charset=utf-8", ".md"},
		{[]display.Form{{MIME: "text/javascript", Data: []byte("alert(1)")}}, "text/plain; charset=utf-8", ""},
		{[]display.Form{{MIME: "application/vnd.plotly.v1+json", Data: []byte("{}")}}, "text/plain; charset=utf-8", ".json"},
		{[]display.Form{{MIME: "application/xhtml+xml", Data: []byte("<html/>")}}, "text/plain; charset=utf-8", ""},
		{[]display.Form{{MIME: "application/pdf", Data: []byte("%PDF-")}}, "", ".pdf"},
		{[]display.Form{{MIME: "application/x-shockwave-flash", Data: []byte("FWS")}}, "", ""},
		{[]display.Form{{MIME: "image/x-unknown", Data: []byte("x")}}, "", ""},
		{[]display.Form{{MIME: "image/webp", Data: []byte(png)}, {MIME: "text/html", Data: []byte(html)}}, "image/webp", ".html"},
		{[]display.Form{{MIME: "text/html", Data: []byte(html)}, {MIME: "application/pdf", Data: []byte("%PDF-")}}, "text/html; charset=utf-8", ".pdf"},
	}
	j := w.job("displays", func(_ context.Context, p *jobs.Port) {
		sink := display.NewSink(p)
		for _, k := range kinds {
			sink.Add("figure <b>", "", k.forms)
		}
	})
	jobstest.End(t, j)
	s := get[state](w, "/api/jobs/"+j.ID())
	if len(s.Displays) != len(kinds) {
		t.Fatalf("%d displays of %d", len(s.Displays), len(kinds))
	}
	for i, k := range kinds {
		d, path := s.Displays[i], fmt.Sprintf("/api/jobs/%s/display/%d", j.ID(), i+1)
		if d.Number != i+1 || d.Served != k.served || d.Label != "figure <b>" {
			t.Errorf("%d: %+v", i+1, d)
		}
		saved := fmt.Sprintf(`attachment; filename="%s-%d%s"`, j.ID(), i+1, k.saved)
		kind, as := k.served, ""
		if kind == "" {
			kind, as = "application/octet-stream", saved
		}
		r, full := w.do("GET", path, ""), w.do("GET", path+"?download", "")
		if r.header.Get("Content-Type") != kind || r.header.Get("Content-Disposition") != as || r.body == "" {
			t.Errorf("%v: %v", k.forms[0].MIME, r.header)
		}
		last := k.forms[len(k.forms)-1]
		if full.body != string(last.Data) || full.header.Get("Content-Type") != "application/octet-stream" || full.header.Get("Content-Disposition") != saved {
			t.Errorf("%v as a download: %v", last.MIME, full.header)
		}
		for _, r := range []result{r, full} {
			if csp := r.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "sandbox;") || !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'self'") || strings.Contains(csp, "script") || strings.Contains(csp, "allow-") || r.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%d: %v", i+1, r.header)
			}
		}
	}
	for _, n := range []string{"0", "14", "x", "-1", "1%2F2"} {
		w.refuses("GET", "/api/jobs/"+j.ID()+"/display/"+n, "", http.StatusNotFound, "has no display ")
	}
}

// Every answer is protected, a refusal too, and data is not stored.
func TestEveryAnswerIsProtected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.done(1)[0]
	for path, status := range map[string]int{
		"/api/jobs": 200, "/api/jobs/" + j.ID(): 200, "/api/jobs/" + j.ID() + "/output": 200, "/api/sessions": 200, "/api/jobs/x": 404, "/api/nothing": 404, "/api/live": 426,
	} {
		r := w.do("GET", path, "")
		if r.status != status {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
		csp := r.header.Get("Content-Security-Policy")
		for _, directive := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "frame-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'self'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp+";", directive+";") {
				t.Errorf("%s: no %s in %s", path, directive, csp)
			}
		}
		if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Referrer-Policy") != "no-referrer" || r.header.Get("Cache-Control") != "no-store" || r.header.Get("Set-Cookie") != "" || r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, r.header)
		}
	}
}

// What changes something is a POST with JSON.
func TestGetChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.shell("read x; echo $x")
	jobstest.Asks(t, j)
	path := "/api/jobs/" + j.ID()
	for _, action := range []string{"/input", "/cancel", "/input?text=x", "/cancel?force=true"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"} {
			if r := w.do(method, path+action, ""); r.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d %s", method, action, r.status, r.body)
			}
		}
		req := must.Get(http.NewRequest("POST", w.server.URL+path+action, strings.NewReader("text=x&force=true")))(t)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if r := w.send(req); r.status != http.StatusUnsupportedMediaType || r.body != "The Content-Type must be application/json.\n" {
			t.Errorf("a form to %s: %d %s", action, r.status, r.body)
		}
	}
	for _, p := range []string{"", "/output"} { // reading does not, either
		w.do("GET", path+p, "")
		w.do("HEAD", path+p, "")
	}
	if r := j.Record(); r.Status != jobs.WaitingInput || r.Cancelling != "" || !r.Answered.IsZero() || j.Log().Stat().End != 0 {
		t.Errorf("%+v", r)
	}
}

// What can't be an answer is refused in a sentence, and nothing of it is sent.
func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.shell("head -c 65536 > /dev/null; echo got all; read x")
	jobstest.Asks(t, j)
	path := "/api/jobs/" + j.ID() + "/input"
	for _, bad := range []struct {
		body   string
		status int
		words  string
	}{
		{"what?", http.StatusBadRequest, "The body can't be read: invalid character"},
		{`{"text":"x"}{"text":"y"}`, http.StatusBadRequest, "The body can't be read: more than one value."},
		{`{"text":"x"} trailing`, http.StatusBadRequest, "The body can't be read: "},
		{`{"text":"x","who":"me"}`, http.StatusBadRequest, `unknown field "who"`},
		{`{"text":1}`, http.StatusBadRequest, "The body can't be read: "},
		{`[]`, http.StatusBadRequest, "The body can't be read: "},
		{`{}`, http.StatusConflict, "There is nothing to send."},
		{`{"text":"` + strings.Repeat("x", page.AnswerMax+1) + `"}`, http.StatusRequestEntityTooLarge, "64 KiB at most; nothing was sent."},
		{`{"text":"` + strings.Repeat("x", 16<<20) + `"}`, http.StatusRequestEntityTooLarge, "64 KiB at most; nothing was sent."},
	} {
		w.refuses("POST", path, bad.body, bad.status, bad.words)
	}
	w.refuses("POST", "/api/jobs/"+j.ID()+"/cancel", `{"force":true,"hard":true}`, http.StatusBadRequest, `unknown field "hard"`)
	w.refuses("POST", "/api/jobs/nothing/input", `{"text":"x"}`, http.StatusNotFound, "There is no job nothing.")
	if r := j.Record(); r.Status != jobs.WaitingInput || !r.Answered.IsZero() {
		t.Errorf("%+v", r)
	}
	j.Stop(jobs.Stop{From: jobs.Kill})
	jobstest.End(t, j)
	w.refuses("POST", path, `{"text":"x"}`, http.StatusConflict, "has ended: cancelled (killed). Nothing was sent.")
}

// An answer of 64 KiB is taken, even if its JSON is six times as long.
func TestLongAnswerIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := make(chan jobs.Input, 1) // the one answer
	j := w.job("asks", func(ctx context.Context, p *jobs.Port) {
		p.SetInput(func(_ context.Context, in jobs.Input) (jobs.Delivery, error) {
			p.SetRunning()
			got <- in
			return jobs.Delivery{}, nil
		})
		p.SetWaiting(jobs.Question{Kind: "secret", Prompt: "password: "})
		<-ctx.Done()
	})
	jobstest.Asks(t, j)
	if r := w.do("POST", "/api/jobs/"+j.ID()+"/input", `{"text":"`+strings.Repeat(`\u0001`, page.AnswerMax)+`"}`); r.status != http.StatusNoContent {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if in := <-got; in.Text != strings.Repeat("\x01", page.AnswerMax) || !in.Secret || in.By != jobs.Person {
		t.Errorf("%d bytes, secret %v, by %s", len(in.Text), in.Secret, in.By)
	}
	j.Stop(jobs.Stop{From: jobs.Kill})
}

// A secret that a person types reaches the program, and is in no reply, record, log, file and message. That the
// job was answered, and when, is.
func TestSecretIsNowhere(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-from-the-page"
	for name, answer := range map[string]func(w *world, p *tab, j *jobs.Job){
		"answered": func(w *world, _ *tab, j *jobs.Job) {
			if r := w.do("POST", "/api/jobs/"+j.ID()+"/input", `{"text":"`+secret+`\n","secret":true}`); r.status != http.StatusNoContent || r.body != "" {
				w.t.Fatalf("%d %q", r.status, r.body)
			}
		},
		"typed": func(_ *world, p *tab, j *jobs.Job) {
			for _, key := range secret + "\r" {
				p.says(map[string]any{"op": "keys", "job": j.ID(), "text": string(key)})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			j := w.shell(`stty -echo; printf 'Password: '; read x; stty echo; echo; echo "${#x} characters"`)
			if q := jobstest.Asks(t, j); q.Kind != "secret" {
				t.Fatalf("asks for a %s", q.Kind)
			}
			p := w.tab()
			p.heard = new(bytes.Buffer)
			p.listed()
			p.opens(j, 0)
			answer(w, p, j)
			record := jobstest.End(t, j)
			p.until("the end", func() bool { return p.job != nil && p.job.Status == "completed" && p.at == record.Output.End })
			if want := fmt.Sprint(len(secret), " characters"); !strings.Contains(string(p.output), want) {
				t.Errorf("output %q, not %q", p.output, want)
			}
			if a := p.job.Answered; a == nil || a.By != "person" || !a.At.Equal(record.Answered) {
				t.Errorf("answered %+v", a)
			}
			reporter := report.Reporter{Jobs: w.Jobs()}
			replies := reporter.Job(j, report.Window{MaxChars: 10_000, View: report.RawView, Notices: (&report.Notices{}).Call()}).String()
			if want := "Answered: by a person, " + record.Answered.Local().Format("15:04:05") + "\n"; !strings.Contains(replies, want) {
				t.Errorf("no %q in\n%s", want, replies)
			}
			kept := string(must.Get(json.Marshal(record))(t)) + string(p.output) + p.heard.String() + replies
			for _, path := range []string{"/api/jobs", "/api/jobs/" + j.ID(), "/api/jobs/" + j.ID() + "/output"} {
				kept += w.do("GET", path, "").body
			}
			w.Engine.Close() // all is written
			must.Do(t, filepath.WalkDir(w.state, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					kept += string(must.Get(os.ReadFile(path))(t))
				}
				return err
			}))
			kept += w.log.String()
			if !strings.Contains(kept, record.ID) {
				t.Error("no file has the job")
			}
			if strings.Contains(kept, "hunter2") || len(j.Answers()) > 0 {
				t.Errorf("the secret was kept; answers %+v", j.Answers())
			}
		})
	}
}

// A person's cancel says so, and force kills.
func TestCancelIsByAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for body, want := range map[string]string{`{}`: "cancelled (interrupted by person)", `{"force":true}`: "cancelled (killed by person)"} {
		j := w.shell("echo ready; sleep 1000")
		jobstest.Prints(t, j, "ready")
		p := w.tab()
		p.opens(j, 0)
		if r := w.do("POST", "/api/jobs/"+j.ID()+"/cancel", body); r.status != http.StatusAccepted || r.body != "" {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
		p.until("the end", func() bool { return p.job != nil && p.job.Receipt != nil })
		if p.job.StatusText != want || p.job.Receipt.By != "person" {
			t.Errorf("%s: %s by %s, want %s", body, p.job.StatusText, p.job.Receipt.By, want)
		}
		w.refuses("POST", "/api/jobs/"+j.ID()+"/cancel", body, http.StatusConflict, "has ended: "+want+". Nothing of it is running.")
	}
}

// Of a job that was given up, and can still run at its place, a cancel does not say that nothing runs.
func TestCancelOfAJobThatWasGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := jobstest.Start(t, w.Jobs(), jobs.Spec{Kind: jobs.Shell, Title: "train", Place: "gpu"}, givesUp{})
	jobstest.End(t, j)
	w.refuses("POST", "/api/jobs/"+j.ID()+"/cancel", `{}`, http.StatusConflict, "has ended: failed (it may still run there). Nothing of it can be ended from here.")
}

// givesUp is a job at a place that is out of reach.
type givesUp struct{}

func (givesUp) Run(context.Context, *jobs.Port) jobs.Outcome {
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.PlaceLost, Detail: "it may still run there"}}
}

// A cancel of a job that has ended ends what it left running.
func TestCancelEndsWhatAJobLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.shell("setsid sleep 1000 & sleep 0.2")
	record := jobstest.End(t, j)
	if len(record.Receipt.Left) != 1 {
		t.Fatalf("left %+v", record.Receipt.Left)
	}
	if r := w.do("POST", "/api/jobs/"+j.ID()+"/cancel", `{}`); r.status != http.StatusAccepted {
		t.Errorf("%d %s", r.status, r.body)
	}
	w.refuses("POST", "/api/jobs/"+j.ID()+"/cancel", `{}`, http.StatusConflict, "Nothing of it is running.")
}

// Python: input() is answered by a line, a cancel keeps the variables, and the session shows them.
func TestSessionOfPython(t *testing.T) {
	t.Parallel()
	w := (&world{t: t, python: pythontest.Real(t)}).begin()
	if r := w.do("GET", "/api/sessions", ""); r.body != "{\"sessions\":[]}\n" {
		t.Errorf("of no session: %s", r.body)
	}
	w.refuses("GET", "/api/sessions/%3Cb%3E", "", http.StatusNotFound, "There is no session <b>.")
	j := w.code("lab", "x = input('<b>name</b>? ')\nwords = ['a', 'b']\nimport math, time\ndef f(): pass\nprint('go', flush=True)\ntime.sleep(1000)")
	if q := jobstest.Asks(t, j); q.Prompt != "<b>name</b>? " {
		t.Errorf("asks %+v", q)
	}
	w.refuses("POST", "/api/jobs/"+j.ID()+"/input", `{"text":"a\nb"}`, http.StatusConflict, "An answer to Python is one line; nothing was sent.")
	if r := w.do("POST", "/api/jobs/"+j.ID()+"/input", `{"text":"<i>Ada</i>\n"}`); r.status != http.StatusNoContent {
		t.Fatalf("%d %s", r.status, r.body)
	}
	jobstest.Prints(t, j, "go")
	type session struct {
		Name, Job string
		Busy      string
		Total     int
		Variables []struct{ Name, Type, Size, Value string }
		Modules   []string
		Functions []string
	}
	if s := get[session](w, "/api/sessions/lab"); s.Busy != j.ID() {
		t.Errorf("busy: %+v", s)
	}
	if r := w.do("POST", "/api/jobs/"+j.ID()+"/cancel", `{}`); r.status != http.StatusAccepted {
		t.Errorf("%d %s", r.status, r.body)
	}
	if record := jobstest.End(t, j); !strings.Contains(record.Receipt.Text(), "by person") || record.Receipt.State != jobs.Kept {
		t.Errorf("ended as %s", record.Receipt.Text())
	}
	s := get[session](w, "/api/sessions/lab")
	if got := fmt.Sprint(s.Variables); s.Total != 5 || got != "[{words list 2 ['a', 'b']} {x str  '<i>Ada</i>'}]" || fmt.Sprint(s.Modules, s.Functions) != "[math time] [f]" {
		t.Errorf("%+v", s)
	}
	all := get[struct{ Sessions []map[string]any }](w, "/api/sessions").Sessions
	if len(all) != 1 || all[0]["name"] != "lab" || all[0]["variables"] != 5.0 {
		t.Errorf("%v", all)
	}
}

package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/resource"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// The limits of one read, of package report.
const (
	readBytes = 32 << 10
	readParts = 64
)

// A part is one content of a resource as a client decodes it.
type part struct {
	URI, MIMEType string
	Text          *string
	Blob          []byte
	Meta          map[string]resource.Range `json:"_meta"`
}

func (p part) stretch() resource.Range { return p.Meta[resource.OutputMeta] }

// data is what the part holds, which is either text or a blob.
func (p part) data(t *testing.T) string {
	t.Helper()
	if (p.Text == nil) == (p.Blob == nil) {
		t.Fatalf("neither text nor blob, or both: %+v", p)
	}
	if p.Text != nil {
		return *p.Text
	}
	return string(p.Blob)
}

// resource reads a resource that must be there.
func (c *client) resource(uri string) []part {
	c.t.Helper()
	m := c.request("resources/read", map[string]any{"uri": uri})
	if m.Error != nil {
		c.t.Fatalf("%s: %s", uri, m.Error.Message)
	}
	var r struct{ Contents []part }
	if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Contents) == 0 {
		c.t.Fatalf("%s: %v in %s", uri, err, m.Result)
	}
	return r.Contents
}

// jobRecord reads the record of a job.
func (c *client) jobRecord(id string) (r report.Document) {
	c.t.Helper()
	parts := c.resource(report.JobURI(id))
	if len(parts) != 1 || parts[0].MIMEType != "application/json" {
		c.t.Fatalf("%+v", parts)
	}
	if err := json.Unmarshal([]byte(*parts[0].Text), &r); err != nil {
		c.t.Fatal(err)
	}
	return r
}

// outputs reads all of a job's output as a program does: from next to next, until there is no more.
// It returns the output of each stream, and all output in order of arrival.
func (c *client) outputs(t *testing.T, id, view string) (streams map[string]string, all string) {
	t.Helper()
	streams = map[string]string{}
	for cursor := int64(0); ; {
		parts := c.resource(fmt.Sprintf("%s?cursor=%d&view=%s", report.OutputURI(id), cursor, view))
		size := 0
		for _, p := range parts {
			s := p.data(t)
			streams[p.stretch().Stream] += s
			all += s
			size += chars(s)
		}
		st := parts[0].stretch()
		if size > readBytes || len(parts) > readParts || st.From != cursor {
			t.Fatalf("%d characters in %d parts: %+v", size, len(parts), st)
		}
		if st.More != (st.Next < st.End) || st.More && st.Next == cursor {
			t.Fatalf("at %d: %+v", cursor, st)
		}
		if cursor = st.Next; !st.More {
			return streams, all
		}
	}
}

// A read at the end of the output waits for more, and for no longer than until the job ends.
func TestOutputResourceIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	id := c.begin("gate print", `out "news\n"`, "gate end")
	j := w.job("Job ID: " + id + "\n")
	at := fmt.Sprintf("%s?wait=100&cursor=", report.OutputURI(id[:len(id)-1]))
	time.AfterFunc(20*time.Millisecond, func() { w.open("print") })
	if got := c.resource(at + "0"); got[0].data(t) != "news\n" {
		t.Errorf("got %+v", got)
	}
	time.AfterFunc(20*time.Millisecond, func() { w.open("end") })
	for got := c.resource(at + "5"); !jobs.Status(got[0].stretch().Status).Final(); got = c.resource(at + "5") {
		if got[0].data(t) != "" {
			t.Errorf("got %+v", got)
		}
	}
	jobstest.End(t, j)
}

// Output of many kinds is read in pieces: nothing is lost, doubled or split inside a character.
func TestOutputResourceIsReadInPieces(t *testing.T) {
	racetest.Skip(t)
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	for name, tt := range map[string]string{
		"lines":     "flood 20000",
		"no lines":  code(`out "`+strings.Repeat("é€𝄞", 20_000)+`"`, "flood 10"),
		"two":       code("flood 3000", "errors 3000", "flood 5", `err "\xc3"`, `out "x"`, `err "\xa9"`),
		"in turn":   strings.Repeat("out \"a\"\nerr \"b\"\n", 300),
		"bytes":     code(`out "`+strings.Repeat(`\xe2\xff\x00`, 30_000)+`"`, `err "fine"`),
		"nothing":   `out ""`,
		"torn":      `out "caf\xc3"`,
		"a little ": `tty "\x1b[1mred\x1b[0m\r\n"`,
	} {
		j := w.job(c.call("execute_command_async", given{"command": tt, "wait_seconds": 60, "max_chars": 1}))
		want := map[string]string{}
		for cursor, end := int64(0), j.Log().Stat().End; cursor < end; {
			chunk := j.Log().Read(cursor, 1<<20)
			for _, s := range chunk.Spans {
				want[s.Stream.String()] += string(s.Data)
			}
			cursor = chunk.Next
		}
		if len(want) == 0 {
			want[""] = ""
		}
		raw, all := c.outputs(t, j.ID(), "raw")
		if d := cmp.Diff(want, raw); d != "" || all != jobstest.Output(j) {
			t.Errorf("%s, raw: %d bytes, want %d\n%.300s", name, len(all), len(jobstest.Output(j)), d)
		}
		text, _ := c.outputs(t, j.ID(), "text")
		switch name {
		case "lines", "no lines", "in turn", "nothing":
			if d := cmp.Diff(want, text); d != "" {
				t.Errorf("%s, text: %.300s", name, d)
			}
		case "two":
			if text["stdout"] != want["stdout"] || !strings.HasSuffix(text["stderr"], "\né") {
				t.Errorf("%s: %d bytes, stderr ends with %q", name, len(text["stdout"]), text["stderr"][len(text["stderr"])-5:])
			}
		case "torn", "a little":
			if s := text["stdout"] + text["tty"]; s != "caf\uFFFD" && s != "red\n" {
				t.Errorf("%s: %q", name, s)
			}
		}
	}
	kinds := map[string]bool{}
	for _, p := range c.resource(report.OutputURI(w.job(c.call("execute_command_async", given{"command": code(`out "\xff"`, `err "ok"`)})).ID()) + "?view=raw") {
		kinds[fmt.Sprintf("%s %s %t", p.stretch().Stream, p.MIMEType, p.Blob != nil)] = true
	}
	if !kinds["stdout application/octet-stream true"] || !kinds["stderr text/plain false"] {
		t.Errorf("parts: %v", kinds)
	}
}

func TestOutputResourceOfARunningJobEndsBetweenCharacters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	id := field(c.call("execute_python", given{"code": code(`out "one\ncaf\xc3"`, "gate go", `out "\xa9\n"`), "wait_seconds": 0}), "Job ID")
	jobstest.Prints(t, w.job("Job ID: "+id+"\n"), "caf\xc3")
	for _, view := range []string{"text", "raw"} {
		p := c.resource(report.OutputURI(id) + "?view=" + view)[0]
		if st := p.stretch(); *p.Text != "one\ncaf" || st.Next != 7 || st.End != 8 || st.More || st.Status != "running" {
			t.Errorf("%s: %q, %+v", view, *p.Text, st)
		}
	}
	w.open("go")
	jobstest.End(t, w.job("Job ID: "+id+"\n"))
	p := c.resource(report.OutputURI(id) + "?cursor=7")[0]
	if st := p.stretch(); *p.Text != "é\n" || st.Next != 10 || st.More || st.Status != "completed" {
		t.Errorf("%q, %+v", *p.Text, st)
	}
	r := c.jobRecord(id)
	if r.Output.Cursor != 10 || r.Output.Kept != 10 || r.Output.URI != report.OutputURI(id) {
		t.Errorf("%+v", r.Output)
	}
}

func TestOutputResourceCountsDroppedBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	w.jobs = jobs.NewRegistry(jobs.Config{Logs: output.NewStore(output.Config{Cap: 64 << 10, Dir: func() (string, error) { return dir, nil }})})
	defer w.jobs.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
	c := w.dial(engine.Scope{})
	id := field(c.call("execute_command_async", given{"command": "flood 20000", "wait_seconds": 60}), "Job ID")
	stat := w.job("Job ID: " + id + "\n").Log().Stat()
	got, dropped := int64(0), int64(0)
	for cursor := int64(0); ; {
		p := c.resource(fmt.Sprintf("%s?cursor=%d&view=raw", report.OutputURI(id), cursor))[0]
		st := p.stretch()
		got += int64(len(*p.Text))
		dropped += st.Dropped
		if st.From != cursor+st.Dropped || st.Next != st.From+int64(len(*p.Text)) {
			t.Fatalf("at %d: %+v", cursor, st)
		}
		if cursor = st.Next; !st.More {
			break
		}
	}
	if dropped != stat.Dropped || got+dropped != stat.End {
		t.Errorf("got %d, missed %d, want %+v", got, dropped, stat)
	}
	r := c.jobRecord(id).Output
	if r.Dropped != dropped || r.Kept != got || len(r.Gaps) != 1 || r.Gaps[0].To-r.Gaps[0].From != dropped {
		t.Errorf("%+v", r)
	}
}

func TestResourceMistakesSayHowToFixThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, other := w.dial(engine.Scope{}), newWorld(t).dial(engine.Scope{})
	id := field(c.call("execute_python", given{"code": `out "secret"`}), "Job ID")
	for uri, want := range map[string]string{
		"job://" + id + "/output?view=screen": "Job " + id + " is a Python job, which has no screen. Use view=text.",
		"job://" + id + "/output?cursor=7":    "cursor 7 is beyond the end of job " + id + "'s output, 6. Use the next of an earlier read.",
		"job://" + id + "/output?limit=7":     "Unknown parameter of a resource: limit. " + resourcesAre,
		"job://nobody":                        "No such job: NOBODY\nNearest:\n" + (&report.Reporter{}).Line(w.job("Job ID: "+id+"\n").Record()),
	} {
		m := c.request("resources/read", map[string]any{"uri": uri})
		if m.Error == nil || m.Error.Code != -32602 || m.Error.Message != want {
			t.Errorf("%s: %+v, want %q", uri, m.Error, want)
		}
	}
	for _, uri := range []string{report.JobURI(id), report.OutputURI(id)} {
		if m := other.request("resources/read", map[string]any{"uri": uri}); m.Error == nil || m.Error.Message != "No such job: "+id+"\nThere are no jobs yet." {
			t.Errorf("in another server %s: %+v, %s", uri, m.Error, m.Result)
		}
		c.resource(strings.ToLower(uri)) // a host may be written in small letters
	}
}

func TestResourceListPagesThroughAllJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	var want []string
	for range 2*resourcePage + 3 {
		want = append([]string{report.JobURI(field(c.call("execute_python", given{"code": `out "x"`}), "Job ID"))}, want...)
	}
	var got []string
	for cursor, pages := "", 1; ; pages++ {
		var page struct {
			Resources  []struct{ URI, Name, MIMEType string }
			NextCursor string
		}
		if err := json.Unmarshal(c.request("resources/list", map[string]any{"cursor": cursor}).Result, &page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Resources {
			got = append(got, r.URI)
		}
		if cursor = page.NextCursor; cursor == "" {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if m := c.request("resources/list", map[string]any{"cursor": "x"}); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("an unknown cursor: %+v", m)
	}
	var list struct{ Resources []any }
	m := newWorld(t).dial(engine.Scope{}).request("resources/list", nil)
	if err := json.Unmarshal(m.Result, &list); err != nil || list.Resources == nil || len(list.Resources) > 0 {
		t.Errorf("without jobs: %s", m.Result)
	}
}

// resourcesAre ends the refusal of an address that names no resource.
const resourcesAre = "The resources are job://{id}, job://{id}/output{?cursor,view,wait} and job://{id}/display/{n}."

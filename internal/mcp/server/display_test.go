package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
)

// A block is one content of a reply as a client decodes it.
type block struct {
	Type, Text, MIMEType string
	Data                 []byte
}

// blocks returns the content of a reply.
func blocks(t *testing.T, m message) []block {
	t.Helper()
	var r struct{ Content []block }
	if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Content) == 0 || r.Content[0].Type != "text" {
		t.Fatalf("%v in %.200s", err, m.Result)
	}
	return r.Content
}

// wantPictures fails the test unless a reply is a text followed by these pictures.
func wantPictures(t *testing.T, m message, size int, numbers ...int) (text string) {
	t.Helper()
	all := blocks(t, m)
	if len(all) != 1+len(numbers) {
		t.Errorf("%d blocks, want a text and pictures %v", len(all), numbers)
		return all[0].Text
	}
	for i, n := range numbers {
		if b := all[1+i]; b.Type != "image" || b.MIMEType != "image/png" || !bytes.Equal(b.Data, pngOf(n, size)) {
			t.Errorf("block %d: %s %s of %d bytes, want picture %d", i+1, b.Type, b.MIMEType, len(b.Data), n)
		}
	}
	return all[0].Text
}

// draws runs a command that shows pictures, and returns the id of its job once that has ended.
func (c *client) draws(command string) (job string) {
	c.t.Helper()
	m := c.request("tools/call", map[string]any{"name": "execute_command_async", "arguments": given{"command": command, "wait_seconds": 60}})
	return field(blocks(c.t.(*testing.T), m)[0].Text, "Job ID")
}

func TestReplyHasPicturesBehindItsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	run := func(lines ...string) message {
		return c.request("tools/call", map[string]any{"name": "execute_python", "arguments": given{"code": code(lines...)}})
	}
	text := wantPictures(t, run(`out "before\n"`, "pictures 2 100", `show text/html "<p>"`, `out "after\n"`, `result "<Figure>"`), 100, 1, 2)
	uri := "job://" + field(text, "Job ID") + "/display/"
	want := "--- STDOUT ---\nbefore\n[figure 1: PNG 1x1, " + uri + "1]\n[figure 2: PNG 1x1, " + uri + "2]\n[document, " + uri + "3]\nafter\n--- RESULT ---\n<Figure>\n"
	if _, body, _ := strings.Cut(text, "\n\n"); body != want {
		t.Errorf("text\n%s\nwant\n%s", body, want)
	}
	wantPictures(t, run(`out "[figure 1: PNG 1x1, `+uri+`1]\n"`), 0)
	wantPictures(t, run(`show image/png "no picture"`), 0)
}

// Some clients give a model images as base64 text. Without images the lines that name them stay, and
// so do the resources.
func TestNoImages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.NoImages, w.config.Toolsets = true, toolsets
	c := w.dial(engine.Scope{})
	m := c.request("tools/call", map[string]any{"name": "execute_python", "arguments": given{"code": code("pictures 9 100", "pictures 4 100")}})
	text := wantPictures(t, m, 0)
	uri := display.URI(field(text, "Job ID"), 13)
	if !strings.Contains(text, "[figure 4: PNG 1x1, "+uri+"]\n") || strings.Contains(text, "More images") {
		t.Errorf("text\n%s", text)
	}
	if m := c.request("resources/read", map[string]any{"uri": uri}); m.Error != nil {
		t.Errorf("the resource: %+v", m.Error)
	}
	if err := os.WriteFile(filepath.Join(w.workspace, "x.png"), pngOf(1, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	m = c.request("tools/call", map[string]any{"name": "read_file", "arguments": given{"path": "x.png"}})
	if text := wantPictures(t, m, 0); text != "File: x.png, 100 bytes, image/png\nNote: images are off (REPL_IMAGES); max_bytes shows it as base64\n" {
		t.Errorf("a file: %q", text)
	}
	if text := w.config.instructions(); strings.Contains(text, asImages) || !strings.Contains(text, asLines) {
		t.Errorf("the instructions promise images:\n%s", text)
	}
}

// A result with pictures has all that a result of text alone has, in both protocols.
func TestResultWithPicturesIsLikeAnyOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for era := range eras {
		c := w.connect(engine.Scope{})
		if era == "initialize" {
			c.handshake()
		}
		rest := func(code string) map[string]any {
			m := c.request("tools/call", map[string]any{"name": "execute_python", "arguments": given{"code": code}, "_meta": eras[era]})
			var r map[string]any
			if err := json.Unmarshal(m.Result, &r); err != nil {
				t.Fatal(err, m)
			}
			for _, content := range r["content"].([]any) {
				if b := content.(map[string]any); len(b) > 3 || b["type"] == nil {
					t.Errorf("%s: block %v", era, b)
				}
			}
			delete(r, "content")
			return r
		}
		if d := cmp.Diff(rest(`out "x"`), rest("pictures 1 100")); d != "" {
			t.Errorf("%s: %s", era, d)
		}
	}
}

func TestDisplaysAreResources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, other := w.dial(engine.Scope{}), newWorld(t).dial(engine.Scope{})
	j := w.job("Job ID: " + c.draws(code("pictures 2 100", `show image/svg+xml "<svg/>"`, `show image/png ""`, `show text/html "\xff"`, `out "x"`)) + "\n")
	empty := w.job(c.call("execute_python", given{"code": `out "x"`})).ID()
	svg, none := "<svg/>", ""
	for n, want := range []part{
		{MIMEType: "image/png", Blob: []byte("full size 1")},
		{MIMEType: "image/png", Blob: []byte("full size 2")},
		{MIMEType: "image/svg+xml", Text: &svg},
		{MIMEType: "image/png", Text: &none},
		{MIMEType: "text/html", Blob: []byte("\xff")},
	} {
		uri := display.URI(j.ID(), n+1)
		got := c.resource(uri)
		if len(got) != 1 || got[0].URI != uri || got[0].MIMEType != want.MIMEType || got[0].data(t) != want.data(t) || (got[0].Text == nil) != (want.Text == nil) {
			t.Errorf("%s: %+v", uri, got)
		}
		shown := c.jobRecord(j.ID()).Displays
		if d := shown[n]; len(shown) != 5 || d.URI != uri || d.MIME != want.MIMEType || d.Size != len(want.data(t)) || d.Cursor != j.Displays()[n].Line.From || !strings.Contains(string(output.Tail(j.Log(), 1000)), "["+d.Title+", "+uri+"]\n") {
			t.Errorf("in the record: %+v", shown)
		}
	}
	replaced := w.job(c.call("execute_python", given{"code": code("pictures 1 1", "clear", `out "x"`)})).ID()
	for uri, want := range map[string]string{
		display.URI(replaced, 1):            "Job " + replaced + " has replaced its display 1 (clear_output): only the later ones are kept.",
		display.URI(j.ID(), 6):              "Job " + j.ID() + " has no display 6: they are 1 to 5.",
		display.URI(empty, 1):               "Job " + empty + " has shown nothing.",
		display.URI(j.ID(), 0):              "No such resource: " + display.URI(j.ID(), 0) + ". " + resourcesAre,
		display.URI(j.ID(), 1) + "?cursor=": "Unknown parameter of a resource: cursor. " + resourcesAre,
	} {
		if m := c.request("resources/read", map[string]any{"uri": uri}); m.Error == nil || m.Error.Code != -32602 || m.Error.Message != want {
			t.Errorf("%s: %+v, want %q", uri, m.Error, want)
		}
	}
	if m := other.request("resources/read", map[string]any{"uri": display.URI(j.ID(), 1)}); m.Error == nil || !strings.HasPrefix(m.Error.Message, "No such job: ") {
		t.Errorf("in another server: %+v, %s", m.Error, m.Result)
	}
	if m := c.request("resources/templates/list", nil); !strings.Contains(string(m.Result), `"job://{id}/display/{n}"`) {
		t.Errorf("templates: %s", m.Result)
	}
}

// A countingStore counts the bytes that are read of attachments.
type countingStore struct {
	output.Store
	read *atomic.Int64
}

type countingLog struct {
	output.Log
	read *atomic.Int64
}

func (s countingStore) NewLog(id string) output.Log { return countingLog{s.Store.NewLog(id), s.read} }

func (l countingLog) Attachment(n int) ([]byte, error) {
	b, err := l.Log.Attachment(n)
	l.read.Add(int64(len(b)))
	return b, err
}

// Of the pictures and displays in answers that a client does not read, few are in memory. All come
// when it reads.
func TestUnreadPicturesAreBounded(t *testing.T) {
	t.Parallel()
	const calls, room, size = 8, 2_400_000, 1_200_000 // of an answer, which fills the queue of the connection
	for name, test := range map[string]struct {
		code   string
		method string
		params func(id string) any
		one    string // what an answer has once for each picture
		count  int
	}{
		"replies": {"pictures 4 300000", "tools/call", func(id string) any {
			return map[string]any{"name": "check_job_status", "arguments": given{"job_id": id, "cursor": 0}}
		}, `"image/png"`, 4},
		"resources": {`show image/gif "` + strings.Repeat("x", size) + `"`, "resources/read", func(id string) any {
			return map[string]any{"uri": display.URI(id, 1)}
		}, `"blob"`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var read atomic.Int64
			dir := t.TempDir()
			w.jobs = jobs.NewRegistry(jobs.Config{Logs: countingStore{output.NewStore(output.Config{Dir: func() (string, error) { return dir, nil }}), &read}})
			defer w.jobs.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
			c := w.serve(func(ctx context.Context, conn net.Conn) error {
				served := newConn(w.config, w.scope(engine.Scope{}))
				served.unread = delivery.NewRoom(room, 0)
				session, err := served.server(ctx).Connect(ctx, &stdio.Transport{Stream: conn, Ordered: true}, nil)
				if err != nil {
					return err
				}
				return session.Wait()
			})
			c.handshake()
			params := test.params(w.longest(1, test.code)[0])
			for range calls {
				c.start(test.method, params)
			}
			for got := range calls {
				// One answer can be queued, one in a write, and the end of one on its way.
				if n := read.Load() - int64(got)*size; n > room+3*size {
					t.Fatalf("%d answers were read, and %d bytes are in others", got, n)
				}
				line, err := c.lines.ReadBytes('\n')
				if n := bytes.Count(line, []byte(test.one)); err != nil || n != test.count {
					t.Fatalf("an answer of %d bytes with %d of %d pictures: %v", len(line), n, test.count, err)
				}
			}
			if got := read.Load(); got != calls*size {
				t.Errorf("%d bytes were read", got)
			}
		})
	}
}

// A client that reads nothing must not stop the answers of others on its connection: after a time
// they go without their pictures, and say so.
func TestPicturesDoNotWaitForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.PictureWait = time.Millisecond
	var room *delivery.Room
	c := w.serve(func(ctx context.Context, conn net.Conn) error {
		served := newConn(w.config, w.scope(engine.Scope{}))
		room = served.unread
		session, err := served.server(ctx).Connect(ctx, &stdio.Transport{Stream: conn, Ordered: true}, nil)
		if err != nil {
			return err
		}
		return session.Wait()
	})
	c.handshake()
	job := c.draws("pictures 1 100")
	read := func() message {
		return c.request("resources/read", map[string]any{"uri": display.URI(job, 1)})
	}
	show := func() message {
		return c.request("tools/call", map[string]any{"name": "check_job_status", "arguments": given{"job_id": job, "cursor": 0}})
	}
	release, err := room.Claim(t.Context(), unreadMax)
	if err != nil {
		t.Fatal(err)
	}
	const why = "other answers with pictures have not been read; try again later"
	if text := wantPictures(t, show(), 100); field(text, "Note") != "without its pictures: "+why+", or read the resources" {
		t.Errorf("no note in\n%s", text)
	}
	if m := read(); m.Error == nil || !strings.Contains(strings.ToLower(m.Error.Message), why) {
		t.Errorf("the resource: %+v", m)
	}
	release()
	wantPictures(t, show(), 100, 1)
	if m := read(); m.Error != nil {
		t.Errorf("the resource: %+v", m.Error)
	}
}

// A display that has lost its data stays as its line, and its resource says why.
func TestDisplayWithoutItsData(t *testing.T) {
	racetest.Skip(t)
	t.Parallel()
	for name, test := range map[string]struct {
		config output.Config
		why    string
	}{
		"limit": {output.Config{Disk: 4096, Dir: func() (string, error) { return t.TempDir(), nil }}, "the limit of all output on disk is reached (REPL_MAX_STATE)"},
		"disk":  {output.Config{Dir: func() (string, error) { return "", errors.New("no directory") }}, "no directory"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.jobs = jobs.NewRegistry(jobs.Config{Logs: output.NewStore(test.config)})
			defer w.jobs.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
			c := w.dial(engine.Scope{})
			// More than the 64 MiB of memory; the next one fits when this job has lost all of it.
			first := c.draws(strings.Repeat("pictures 1 1000000\n", 70))
			second := field(c.call("execute_python", given{"code": "show text/html \"" + strings.Repeat("x", 1_000_000) + "\""}), "Job ID")
			if m := c.request("resources/read", map[string]any{"uri": display.URI(second, 1)}); m.Error != nil {
				t.Errorf("the newest: %+v", m.Error)
			}
			reply := c.request("tools/call", map[string]any{"name": "check_job_status", "arguments": given{"job_id": first, "cursor": 0}})
			if text := wantPictures(t, reply, 0); !strings.Contains(text, ", "+display.URI(first, 1)+"]\n") {
				t.Errorf("text\n%s", text)
			}
			m := c.request("resources/read", map[string]any{"uri": display.URI(first, 1)})
			if want := fmt.Sprintf("The data of display 1 of job %s can't be read any more: %s.", first, test.why); m.Error == nil || m.Error.Message != want {
				t.Errorf("got %+v, want %q", m.Error, want)
			}
		})
	}
}

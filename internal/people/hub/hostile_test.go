//go:build unix

package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/page"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// A hostile is an engine in the hands of its jobs: a program that speaks the protocol of the socket, and
// then does what it wants.
type hostile struct {
	id     string
	listen *sockets.Listener

	mu    sync.Mutex
	paths []string // the paths of the requests
	read  string   // what came over its streams
}

// Accept returns the next connection of a page.
func (h *hostile) Accept() (net.Conn, error) {
	for {
		c, err := h.listen.Accept()
		if err != nil {
			return nil, err
		}
		if hello, err := c.Hear("test"); err == nil && hello.Role == sockets.Page && c.Welcome(sockets.Welcome{Workspace: "/evil\x1b[31m", Version: "<b>"}) == nil {
			return c, nil
		}
		c.Close()
	}
}

func (h *hostile) Close() error   { return h.listen.Close() }
func (h *hostile) Addr() net.Addr { return &net.UnixAddr{} }

// hostile starts an engine that answers every request by serve.
func (w *world) hostile(serve http.HandlerFunc) *hostile {
	t := w.t
	t.Helper()
	identity := w.identity()
	dir := must.Get(sockets.Open(w.place))(t)
	t.Cleanup(func() { dir.Close() })
	h := &hostile{id: sockets.Name{Identity: identity, PID: os.Getpid()}.String(), listen: must.Get(dir.Listen(identity))(t)}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.paths = append(h.paths, r.URL.Path)
		h.mu.Unlock()
		serve(w, r)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(h) }) // joined by the end of the test; ends with the server
	t.Cleanup(func() { server.Close(); serving.Wait() })
	return h
}

// streams returns a handler that speaks over each stream, and notes what it reads.
func (h *hostile) streams(speak func(context.Context, *websocket.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/live" {
			http.NotFound(w, r)
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var speaking sync.WaitGroup
		defer speaking.Wait()
		speaking.Go(func() { speak(ctx, c) }) // joined by the handler; ends with the connection
		for {
			_, text, err := c.Read(ctx)
			if err != nil {
				cancel()
				return
			}
			h.mu.Lock()
			h.read += string(text)
			h.mu.Unlock()
		}
	}
}

func say(ctx context.Context, c *websocket.Conn, texts ...string) error {
	for _, text := range texts {
		if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

const evilID = "01EVZ3NDEKTSV4RRFFQ69G5FAV"

// Whatever an engine answers, the page gets the types of the contract and none of its headers. The others
// are not disturbed.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const markup = "<script>alert(1)</script>"
	for name, c := range map[string]struct {
		serve  http.HandlerFunc
		status int // the status of answers about the record of a job
		text   string
	}{
		"markup": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, markup)
		}, 404, "no server has this job"},
		"script": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			io.WriteString(w, `alert(1)//{}`)
		}, 404, "no server has this job"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example/", http.StatusFound)
		}, 404, "no server has this job"},
		"cookie and headers": {func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Set-Cookie", "async-repl=evil")
			h.Set("Content-Security-Policy", "script-src *")
			h.Set("Access-Control-Allow-Origin", "*")
			h.Set("Refresh", "0; url=http://evil.example/")
			h.Set("Content-Type", "text/html")
			h.Set("Clear-Site-Data", `"*"`)
			fmt.Fprintf(w, `{"id":%q,"title":%q,"evil":"field","output":{"cursor":1}}`, evilID, markup)
		}, 200, `"title":"\u003cscript\u003e`},
		"another job": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`)
		}, 404, "no server has this job"},
		"other types": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"id":%q,"title":{"toString":1}}`, evilID)
		}, 404, "no server has this job"},
		"a flood": {func(w http.ResponseWriter, _ *http.Request) {
			for _, err := io.WriteString(w, `{"id":"`); err == nil; {
				_, err = io.WriteString(w, strings.Repeat("x", 1<<16))
			}
		}, 404, "no server has this job"},
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			for io.WriteString(c, "HTTP/1.1 200 OK\r\n"); err == nil; {
				_, err = io.WriteString(c, "X: "+strings.Repeat("x", 1000)+"\r\n")
			}
		}, 404, "no server has this job"},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
				io.WriteString(c, "220 evil ESMTP\r\n")
				c.Close()
			}
		}, 404, "no server has this job"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprintf(w, `{"id":%q}`, evilID)
		}, 404, "no server has this job"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.serve()
			j := s.asking("read x; echo got $x")
			h := w.hostile(c.serve)
			w.finds(2)
			answer, text := w.request(http.MethodGet, "/api/jobs/"+evilID, "")
			if answer.StatusCode != c.status || !strings.Contains(text, c.text) || strings.Contains(text, "evil") || strings.Contains(text, "<script") {
				t.Errorf("%s: %q", answer.Status, text)
			}
			for header := range answer.Header {
				if !slices.Contains([]string{"Content-Type", "Content-Length", "Date", "X-Content-Type-Options"}, header) {
					t.Errorf("the header %s is passed on: %q", header, answer.Header[header])
				}
			}
			if kind := answer.Header.Get("Content-Type"); kind != "application/json" && kind != "text/plain; charset=utf-8" {
				t.Errorf("its type is %s", kind)
			}
			if list := get[struct{ Jobs []page.Brief }](w, "/api/jobs").Jobs; len(list) != 1 || list[0].ID != j.ID() {
				t.Errorf("the list is %+v", list)
			}
			v := w.open()
			v.sees([]*served{s}, j)
			v.until("the loss of the other", func() bool { lost, _ := v.lost(); return slices.Equal(lost, []string{h.id}) })
			v.send(page.Request{Op: "open", Job: j.ID()})
			v.send(page.Request{Op: "keys", Job: j.ID(), Text: "x\r"})
			v.until("the output", func() bool { return strings.HasSuffix(string(v.output), "got x\r\n") })
			w.says("the connection to the engine of process")
		})
	}
}

// finds waits until the hub has found so many engines.
func (w *world) finds(n int) {
	w.t.Helper()
	polltest.Until(w.t, "the engines", func() bool { all := w.hub.list(); return len(all) == n })
}

// Whatever an engine says on its stream, the page gets what is of the contract, and the others are shown.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	good := `{"jobs":[{"id":"` + evilID + `","title":"good","status":"running","evil":1}],"first":true,"complete":true}`
	for name, c := range map[string]struct {
		speak func(context.Context, *websocket.Conn)
		shown bool   // its job is
		says  string // the hub
	}{
		"no JSON": {func(ctx context.Context, c *websocket.Conn) {
			say(ctx, c, append(slices.Repeat([]string{"<script>"}, 4*maxSaid), good)...)
		}, true, "a message of the engine of process"},
		"bytes": {func(ctx context.Context, c *websocket.Conn) {
			c.Write(ctx, websocket.MessageBinary, []byte(good))
		}, false, "it is no text"},
		"other types": {func(ctx context.Context, c *websocket.Conn) {
			say(ctx, c, `{"jobs":{"length":3}}`, `{"output":{"from":-1}}`, `{}`, `[]`, `null`, `{"job":{"code":"x"}}`,
				`{"jobs":[{"id":"<b>"}],"first":true}`, strings.Replace(good, `,"first":true`, "", 1))
		}, true, "a message of the engine of process"},
		"words of the page": {func(ctx context.Context, c *websocket.Conn) {
			say(ctx, c, `{"servers":[{"id":"x","workspace":"evil"}],"gone":"x"}`, `{"gone":"`+evilID+`"}`, `{"error":"evil"}`, `{"removed":["x"]}`,
				`{"job":{"id":"`+evilID+`"}}`, `{"output":{"job":"`+evilID+`","from":0,"next":1}}`, good)
		}, true, ""},
		"a large message": {func(ctx context.Context, c *websocket.Conn) {
			say(ctx, c, good, `{"error":"`+strings.Repeat("x", 2<<20)+`"}`)
		}, true, "read limited at"},
		"a large text": {func(ctx context.Context, c *websocket.Conn) {
			say(ctx, c, strings.Replace(good, `"evil":1`, `"session":"`+strings.Repeat("x", 500_000)+`"`, 1))
		}, true, ""},
		"half a frame": {func(ctx context.Context, c *websocket.Conn) {
			say(ctx, c, good)
			if w, err := c.Writer(ctx, websocket.MessageText); err == nil {
				io.WriteString(w, `{"jobs":[`)
				<-ctx.Done()
			}
		}, true, ""},
		"a flood": {func(ctx context.Context, c *websocket.Conn) {
			for say(ctx, c, good, `{"error":"evil"}`, "{") == nil {
			}
		}, true, "a message of the engine of process"},
		"many jobs": {func(ctx context.Context, c *websocket.Conn) {
			for i := 0; say(ctx, c, fmt.Sprintf(`{"jobs":[{"id":"01EVZ3NDEKTSV4%012d"}]}`, i)) == nil; i++ {
			}
		}, false, ""},
		"nothing": {func(context.Context, *websocket.Conn) {}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.serve()
			j := s.asking("read x; echo got $x")
			var h *hostile
			h = w.hostile(func(w http.ResponseWriter, r *http.Request) { h.streams(c.speak)(w, r) })
			w.finds(2)
			v := w.open()
			v.sees([]*served{s}, j)
			v.send(page.Request{Op: "open", Job: j.ID()})
			v.send(page.Request{Op: "keys", Job: j.ID(), Text: "x\r"})
			v.until("the output", func() bool { return strings.HasSuffix(string(v.output), "got x\r\n") })
			v.until("its job", func() bool { return !c.shown || v.jobs[evilID].Title == "good" && v.jobs[evilID].Server == h.id })
			if c.says != "" {
				w.says(c.says)
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			if len(v.errors) > 0 || v.gone != "" || v.job.ID != j.ID() || v.complete != 1 || len(v.servers) != 2 {
				t.Errorf("errors %q, gone %q, job %s, complete %d, servers %v", v.errors, v.gone, v.job.ID, v.complete, v.servers)
			}
			if n := len(v.jobs[evilID].Session); n > 1000 {
				t.Errorf("a text of its job has %d bytes", n)
			}
			for id := range v.jobs {
				if id != j.ID() && id != evilID && name != "many jobs" {
					t.Errorf("the page has a job %q", id)
				}
			}
			if i := slices.IndexFunc(v.servers, func(p place) bool { return p.ID == h.id }); strings.Contains(v.servers[i].Workspace, "\x1b") {
				t.Errorf("its workspace is %q", v.servers[i].Workspace)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.said) > 2*maxSaid {
				t.Errorf("%d lines were said", len(w.said))
			}
		})
	}
}

// What a person types for the job of one engine goes to no other, also if that names the job.
func TestClaimedJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.serve()
	j := s.asking("stty -echo; printf 'Password: '; read x; echo ${#x}")
	v := w.open()
	v.sees([]*served{s}, j)
	claim := `{"id":"` + j.ID() + `","title":"mine","status":"waiting_input"}`
	var h *hostile
	h = w.hostile(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/jobs" {
			io.WriteString(w, `{"jobs":[`+claim+`]}`)
			return
		}
		if r.URL.Path != "/api/live" {
			io.WriteString(w, claim)
			return
		}
		h.streams(func(ctx context.Context, c *websocket.Conn) {
			say(ctx, c, `{"jobs":[`+claim+`],"first":true,"complete":true}`, `{"removed":["`+j.ID()+`"]}`, `{"job":`+claim+`}`, `{"jobs":[{"id":"`+evilID+`"}]}`)
		})(w, r)
	})
	v.until("a job of its own", func() bool { return v.jobs[evilID].Server == h.id })
	if b := v.jobs[j.ID()]; b.Server != s.id || b.Title == "mine" {
		t.Errorf("the job is %+v", b)
	}
	list := get[struct{ Jobs []page.Brief }](w, "/api/jobs").Jobs
	if i := slices.IndexFunc(list, func(b page.Brief) bool { return b.ID == j.ID() }); i < 0 || list[i].Server != s.id || len(list) != 1 {
		t.Errorf("the list is %+v", list)
	}
	v = w.open() // this hub knows the other engine first
	v.sees([]*served{s}, j)
	v.send(page.Request{Op: "open", Job: j.ID()})
	v.send(page.Request{Op: "keys", Job: j.ID(), Text: "sec"})
	v.until("the open job", func() bool { return v.job != nil && v.job.Title != "mine" })
	if answer, text := w.request(http.MethodPost, "/api/jobs/"+j.ID()+"/input", `{"text":"ret\n","secret":true}`); answer.StatusCode != http.StatusNoContent {
		t.Fatalf("%s: %s", answer.Status, text)
	}
	jobstest.EndsAs(t, j, "completed")
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(h.read, "sec") || strings.Contains(h.read, j.ID()) || slices.ContainsFunc(h.paths, func(p string) bool { return strings.Contains(p, j.ID()) }) {
		t.Errorf("the other engine has read %q, and was asked for %q", h.read, h.paths)
	}
}

// Errors of an engine are a line of text with a status of a list. A request that is too large reaches none.
func TestHostileErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hostile(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		if _, err := fmt.Sscanf(r.URL.Path, "/api/jobs/"+evilID+"/display/%d", &n); err != nil {
			json.NewEncoder(w).Encode(map[string]any{"id": evilID})
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Location", "http://evil.example/")
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(n)
		io.WriteString(w, "<b>no</b>\x1b[31m\n\n"+strings.Repeat("x", 1<<20))
	})
	w.finds(1)
	for asked, want := range map[int]int{404: 404, 409: 409, 410: 410, 302: 502, 401: 502, 407: 502, 418: 502, 500: 502, 201: 502, 206: 502} {
		answer, text := w.request(http.MethodGet, fmt.Sprintf("/api/jobs/%s/display/%d", evilID, asked), "")
		if answer.StatusCode != want || answer.Header.Get("Content-Type") != "text/plain; charset=utf-8" || answer.Header.Get("Location") != "" || answer.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%d: %s with %v", asked, answer.Status, answer.Header)
		}
		if strings.Count(text, "\n") != 1 || strings.Contains(text, "\x1b") || len(text) > 2*maxLine {
			t.Errorf("%d: it says %.100q", asked, text)
		}
	}
	w.refuses(http.MethodPost, "/api/jobs/"+evilID+"/input", `{"text":"`+strings.Repeat("x", 16<<20)+`"}`, http.StatusRequestEntityTooLarge, "64 KiB")
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(h.paths, func(p string) bool { return strings.HasSuffix(p, "/input") }) {
		t.Error("the large request has reached the engine")
	}
}

// What an engine says of the open job is of the contract, too.
func TestHostileOpenJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var h *hostile
	h = w.hostile(func(w http.ResponseWriter, r *http.Request) {
		h.streams(func(ctx context.Context, c *websocket.Conn) {
			for say(ctx, c, `{"jobs":[{"id":"`+evilID+`"}],"first":true,"complete":true}`, `{"job":{"code":"x"}}`, `{"job":{"id":7}}`,
				`{"output":{"job":"`+evilID+`","from":0,"next":0}}`, `{"job":{"id":"`+evilID+`","title":"t"}}`) == nil {
			}
		})(w, r)
	})
	w.finds(1)
	v := w.open()
	v.send(page.Request{Op: "open", Job: evilID})
	v.until("the job", func() bool { return v.job != nil && v.job.Title == "t" && v.job.Server == h.id && v.outputs > 0 })
}

// Keys that an engine does not take are not typed later, and the page says so. The others are not disturbed.
func TestKeysThatNoEngineTakes(t *testing.T) {
	t.Parallel()
	list := `{"jobs":[{"id":"` + evilID + `"}],"first":true,"complete":true}`
	for name, serve := range map[string]http.HandlerFunc{
		"no stream": http.NotFound,
		"it reads nothing": func(w http.ResponseWriter, r *http.Request) {
			if c, err := websocket.Accept(w, r, nil); err == nil {
				defer c.CloseNow()
				say(r.Context(), c, list)
				<-r.Context().Done()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.serve()
			j := s.asking("read x; echo got $x")
			var h *hostile
			h = w.hostile(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Has("list") { // for the open job
					serve(w, r)
				} else {
					h.streams(func(ctx context.Context, c *websocket.Conn) { say(ctx, c, list) })(w, r)
				}
			})
			w.finds(2)
			v := w.open()
			v.sees([]*served{s}, j)
			v.until("its job", func() bool { return v.jobs[evilID].Server == h.id })
			v.send(page.Request{Op: "open", Job: evilID})
			for range 2 * maxOrders {
				v.send(page.Request{Op: "keys", Job: evilID, Text: strings.Repeat("x", 4<<10)})
			}
			v.until("an error", func() bool { return slices.Contains(v.errors, notTyped) })
			v.send(page.Request{Op: "open", Job: j.ID()})
			v.send(page.Request{Op: "keys", Job: j.ID(), Text: "x\r"})
			v.until("the output", func() bool { return strings.HasSuffix(string(v.output), "got x\r\n") })
		})
	}
}

// The engine of the open job gets no keys that are for another job.
func TestKeysForAnotherJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.serve()
	j := s.asking("read x; echo got $x")
	var h *hostile
	h = w.hostile(func(w http.ResponseWriter, r *http.Request) {
		h.streams(func(ctx context.Context, c *websocket.Conn) {
			say(ctx, c, `{"jobs":[{"id":"`+evilID+`"}],"first":true,"complete":true}`, `{"job":{"id":"`+evilID+`"}}`)
		})(w, r)
	})
	w.finds(2)
	v := w.open()
	v.sees([]*served{s}, j)
	v.until("its job", func() bool { return v.jobs[evilID].Server == h.id })
	v.send(page.Request{Op: "open", Job: evilID})
	v.until("the open job", func() bool { return v.job != nil })
	v.send(page.Request{Op: "keys", Job: j.ID(), Text: "secret\r"})
	v.until("an error", func() bool { return slices.Equal(v.errors, []string{notTyped}) })
	v.send(page.Request{Op: "keys", Job: evilID, Text: "last"})
	polltest.Until(t, "its own keys", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return strings.Contains(h.read, "last") })
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(h.read, "secret") {
		t.Errorf("it has read %s", h.read)
	}
}

// After the loss of a connection the output of the open job continues where it was.
func TestOpenJobAfterALoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var h *hostile
	var first sync.Once
	cut := make(chan struct{})
	h = w.hostile(func(w http.ResponseWriter, r *http.Request) {
		h.streams(func(ctx context.Context, c *websocket.Conn) {
			if !r.URL.Query().Has("list") {
				say(ctx, c, `{"jobs":[{"id":"`+evilID+`"}],"first":true,"complete":true}`)
				return
			}
			first.Do(func() {
				say(ctx, c, `{"output":{"job":"`+evilID+`","from":0,"next":3}}`)
				select {
				case <-cut:
					c.CloseNow()
				case <-ctx.Done():
				}
			})
		})(w, r)
	})
	w.finds(1)
	v := w.open()
	v.until("its job", func() bool { return v.jobs[evilID].Server == h.id })
	v.send(page.Request{Op: "open", Job: evilID})
	v.until("the output", func() bool { return v.next == 3 })
	cut <- struct{}{}
	polltest.Until(t, "the second connection", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return strings.Contains(h.read, `"open"`+`,"job":"`+evilID+`","cursor":3`)
	})
}

// The next process of a server takes the place of the one before, and has its records.
func TestNextProcessOfAServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var h *hostile
	h = w.hostile(func(w http.ResponseWriter, r *http.Request) {
		h.streams(func(ctx context.Context, c *websocket.Conn) {
			say(ctx, c, `{"jobs":[{"id":"`+evilID+`"}],"first":true,"complete":true}`)
		})(w, r)
	})
	v := w.open()
	v.until("its job", func() bool { return v.jobs[evilID].Server == h.id })
	next := sockets.Name{Identity: strings.Split(h.id, "-")[0], PID: os.Getppid()}.String()
	must.Do(t, os.Rename(filepath.Join(w.place, h.id), filepath.Join(w.place, next)))
	v.until("the next one", func() bool {
		return len(v.servers) == 1 && v.servers[0].ID == next && !v.servers[0].Lost && len(v.jobs) == 1 && v.jobs[evilID].Server == next
	})
}

// What an engine has no longer when it is connected again is removed.
func TestListAfterALoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const second = "01EVZ3NDEKTSV4RRFFQ69G5FAW"
	lists := make(chan string, 2) // buffered: one is for the next connection
	lists <- `{"jobs":[{"id":"` + evilID + `"},{"id":"` + second + `"}],"first":true,"complete":true}`
	lists <- `{"jobs":[{"id":"` + second + `"}],"first":true,"complete":true}`
	cut := make(chan struct{})
	var h *hostile
	h = w.hostile(func(w http.ResponseWriter, r *http.Request) {
		h.streams(func(ctx context.Context, c *websocket.Conn) {
			select {
			case list := <-lists:
				say(ctx, c, list)
			case <-ctx.Done():
			}
			select {
			case <-cut:
				c.CloseNow()
			case <-ctx.Done():
			}
		})(w, r)
	})
	w.finds(1)
	v := w.open()
	v.until("both jobs", func() bool { return len(v.jobs) == 2 && v.complete == 1 })
	cut <- struct{}{}
	v.until("the other job", func() bool { _, ok := v.jobs[second]; return ok && len(v.jobs) == 1 && !v.servers[0].Lost })
	if v.first != 1 || v.complete != 1 {
		t.Errorf("the list was emptied %d times, and complete %d times", v.first, v.complete)
	}
}

// A display is of a type that a browser runs nothing of, or it is a download.
func TestDisplays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hostile(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/display/") {
			json.NewEncoder(w).Encode(map[string]any{"id": evilID})
			return
		}
		w.Header().Set("Content-Type", r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		w.Header()["Content-Type"] = []string{map[string]string{
			"1": "image/png", "2": "text/html", "3": "text/javascript", "4": "application/x-evil", "5": "text/html, evil", "6": "image/svg+xml", "7": "",
		}[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]}
		w.Header().Set("Content-Security-Policy", "script-src *")
		w.Header().Set("Set-Cookie", "evil=1")
		w.Header().Set("Content-Disposition", "inline")
		io.WriteString(w, "data")
	})
	w.finds(1)
	for n, want := range map[int]string{
		1: "image/png", 2: "text/html; charset=utf-8", 3: "text/plain; charset=utf-8", 4: "", 5: "", 6: "image/svg+xml", 7: "",
	} {
		answer, text := w.request(http.MethodGet, fmt.Sprintf("/api/jobs/%s/display/%d", evilID, n), "")
		h := answer.Header
		kind, saved := h.Get("Content-Type"), strings.HasPrefix(h.Get("Content-Disposition"), "attachment; filename=")
		if text != "data" || h.Get("Set-Cookie") != "" || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox;") {
			t.Errorf("%d: %q with %v", n, text, h)
		}
		if want == "" && (kind != "application/octet-stream" || !saved) || want != "" && (kind != want || saved) {
			t.Errorf("%d: %s, saved %v; want %q", n, kind, saved, want)
		}
	}
}

// What is in the place of a socket is left out, with a word about the directory.
func TestPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must.Do(t, os.Mkdir(w.place, 0o700))
	name := func(n int) string { return filepath.Join(w.place, fmt.Sprintf("%024x-%d", n, os.Getppid())) }
	must.Do(t, os.Mkdir(name(100), 0o700))
	must.Do(t, os.WriteFile(name(101), nil, 0o600))
	must.Do(t, os.Symlink("/dev/zero", name(102)))
	s := w.serve()
	j := s.asking("read x")
	w.open().sees([]*served{s}, j)

	for what, make := range map[string]func(path string){
		"is a file or a link": func(path string) { must.Do(t, os.WriteFile(path, nil, 0o600)) },
		"should be yours":     func(path string) { must.Do(t, os.Mkdir(path, 0o755)) },
	} {
		path := filepath.Join(t.TempDir(), "sockets")
		make(path)
		said := ""
		h := New([]string{path, w.place}, func(line string) { said += line })
		h.Search(t.Context())
		h.Search(t.Context())
		if all := h.list(); len(all) != 1 || strings.Count(said, what) != 1 {
			t.Errorf("with %d servers it says %q; want %q once", len(all), said, what)
		}
	}
}

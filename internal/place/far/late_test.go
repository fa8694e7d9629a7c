package far_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// What a thread prints after the end of its job is found, whether the link was there then or not.
func TestLateOutput(t *testing.T) {
	ports := make(chan *jobs.Port, 1)
	e, c := engine(t, linktest.Runners{"hello": prints("hello\n"), "thread": func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		ports <- p
		return returned
	}})
	jobstest.End(t, start(t, e, c, "hello")) // has none, and is not named
	j := start(t, e, c, "thread")
	p := <-ports
	jobstest.End(t, j)
	p.Write(output.Stdout, []byte("one"))
	type named struct {
		id  string
		end int64
	}
	got := make(chan named)
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() { // joined below
		lost <- c.Late(ctx, func(id string, end int64) {
			select {
			case got <- named{id, end}:
			case <-ctx.Done():
			}
		})
	}()
	if n := <-got; n != (named{j.ID(), 3}) {
		t.Errorf("%+v", n)
	}
	p.Write(output.Stdout, []byte("two"))
	for n := (named{}); n != (named{j.ID(), 6}); { // a job is named again for other news, too
		if n = <-got; n.id != j.ID() {
			t.Fatalf("%+v", n)
		}
	}
	r, body, err := c.Follow(t.Context(), j.ID(), stream.Position{})
	must.Do(t, err)
	defer body.Close()
	if text, _ := read(t, r); text != "onetwo" {
		t.Errorf("%q", text)
	}
	cancel()
	if err := <-lost; err == nil {
		t.Error("a link that is lost is no error")
	}
}

// When the engine ends, the request ends with it, after the last news.
func TestLateEndsWithTheEngine(t *testing.T) {
	all := jobstest.Registry(t)
	ended, port := make(chan struct{}), make(chan *jobs.Port, 1)
	config := linktest.Config(all, linktest.Runners{"thread": func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		port <- p
		return returned
	}})
	config.Ended = ended
	e := linktest.Serve(t, all, far.Handler(config))
	c := e.Connect(t)
	j := start(t, e, c, "thread")
	jobstest.End(t, j)
	(<-port).Write(output.Stdout, []byte("late"))
	close(ended)
	named := false
	err := c.Late(t.Context(), func(id string, end int64) { named = named || id == j.ID() && end == 4 })
	if err != io.EOF || !named {
		t.Errorf("%v, named: %t", err, named)
	}
}

// A client takes only what can be the id of a job and the end of its output.
func TestLateBelievesNothing(t *testing.T) {
	for sent, says := range map[string]string{
		strings.Repeat("x", 200):             "too long",
		"x 7\n":                              "named no job",
		"01JD0000000000000000000000\n":       "named no job",
		"01JD0000000000000000000000 -1\n":    "named no job",
		"\x1b[2J 1\n":                        `\x1b`,
		"01JD0000000000000000000000 7\n\n\n": "EOF",
	} {
		c := linktest.Serve(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, sent) })).Connect(t)
		calls := 0
		err := c.Late(t.Context(), func(id string, end int64) { calls++ })
		if err == nil || !strings.Contains(err.Error(), says) || (calls == 1) != (says == "EOF") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v, %d calls", sent, err, calls)
		}
	}
}

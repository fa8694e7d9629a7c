package far_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// engine serves a registry whose tools are runners, and returns a client of it.
func engine(t testing.TB, tools linktest.Runners) (*linktest.Engine, *far.Client) {
	t.Helper()
	all := jobstest.Registry(t)
	e := linktest.Serve(t, all, far.Handler(linktest.Config(all, tools)))
	return e, e.Connect(t)
}

// returned is the outcome of a job that has run to its end.
var returned = jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}

// prints returns a runner that prints a text.
func prints(text string) linktest.Runner {
	return func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		p.Write(output.Stdout, []byte(text))
		return returned
	}
}

// read reads a life to its end and returns its output and its last record.
func read(t testing.TB, r *stream.Reader) (text string, last jobs.Record) {
	t.Helper()
	for {
		f, err := r.Next()
		switch {
		case err == io.EOF:
			return text, last
		case err != nil:
			t.Fatal(err)
		case f.Record != nil:
			last = *f.Record
		}
		text += string(f.Data)
	}
}

func refusal(err error) int {
	if r, ok := errors.AsType[*far.Refused](err); ok {
		return r.Code
	}
	return 0
}

func TestQuickJob(t *testing.T) {
	_, c := engine(t, linktest.Runners{"hello": prints("hello\n")})
	id := ulid.Make().String()
	r, body, err := c.Start(t.Context(), id, "hello", []byte(`{"a":1}`), true, stream.Position{})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	text, last := read(t, r)
	if text != "hello\n" || last.ID != id || last.Status != jobs.Completed || last.Code != `{"a":1}` || !last.Keep {
		t.Errorf("%q, %+v", text, last)
	}
}

// A quick job is one write of each side: srun(1) holds a second one back.
func TestQuickJobIsOneWrite(t *testing.T) {
	e, _ := engine(t, linktest.Runners{"hello": prints("hello\n")})
	var sent atomic.Int64
	c := linktest.Client(t, linktest.Counted{Conn: e.Dial(t), N: &sent})
	run := func() {
		r, body, err := c.Start(t.Context(), ulid.Make().String(), "hello", []byte(`{}`), false, stream.Position{})
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		read(t, r)
	}
	run()            // both sides have sent their settings after it
	for range 1000 { // on a busy machine a job is not quick
		here, there := sent.Load(), e.Writes.Load()
		run()
		if sent.Load()-here == 1 && e.Writes.Load()-there == 1 {
			return
		}
	}
	t.Error("no job of 1,000 took one write of each side")
}

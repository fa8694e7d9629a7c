// Package linktest connects the two ends of a link in tests: far's handler, served over HTTP/2 on a Unix socket, and
// its client.
package linktest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// Start is the start of the engine of every [Engine].
const Start = "start"

// An Engine is an engine at a place that is served on a Unix socket. It counts what its side of the link writes.
type Engine struct {
	Jobs   *jobs.Registry
	Writes atomic.Int64
	path   string
}

// Runners are what tools of an Engine run, by their names.
type Runners map[string]func(ctx context.Context, p *jobs.Port) jobs.Outcome

// Runner is a function that runs a job.
type Runner func(ctx context.Context, p *jobs.Port) jobs.Outcome

// Run calls the function.
func (f Runner) Run(ctx context.Context, p *jobs.Port) jobs.Outcome { return f(ctx, p) }

// Config returns the config of a handler whose tools are runners.
func Config(all *jobs.Registry, tools Runners) far.Config {
	return far.Config{Start: Start, Jobs: all, Run: func(_ context.Context, id, tool string, args json.RawMessage, keep bool) error {
		run := tools[tool]
		if run == nil {
			return errors.New("there is no tool " + tool)
		}
		_, err := all.StartAs(id, jobs.Spec{Kind: jobs.Shell, Title: tool, Code: string(args), Keep: keep}, Runner(run))
		return err
	}}
}

// Serve serves a handler until the test ends.
func Serve(t testing.TB, all *jobs.Registry, h http.Handler) *Engine {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "link"))(t) // the path of a socket must be short
	t.Cleanup(func() { os.RemoveAll(dir) })
	e := &Engine{Jobs: all, path: dir + "/s"}
	l := must.Get(net.Listen("unix", e.path))(t)
	server := far.NewServer(h)
	var served sync.WaitGroup
	served.Go(func() { server.Serve(far.Listener{Listener: counted{l, &e.Writes}}) })
	t.Cleanup(func() {
		server.Close()
		served.Wait()
	})
	return e
}

// Dial opens a connection to the engine's socket.
func (e *Engine) Dial(t testing.TB) net.Conn {
	t.Helper()
	return must.Get(net.Dial("unix", e.path))(t)
}

// Connect returns a client of the engine, whose connection lasts until the test ends.
func (e *Engine) Connect(t testing.TB) *far.Client {
	t.Helper()
	return Client(t, e.Dial(t))
}

// Client returns a client over a pipe, whose connection lasts until the test ends.
func Client(t testing.TB, pipe net.Conn) *far.Client {
	t.Helper()
	conn := must.Get(far.Connect(t.Context(), pipe))(t)
	t.Cleanup(func() { conn.Close() })
	return far.NewClient(conn.RoundTrip, Start)
}

// counted counts the writes of the connections that it accepts.
type counted struct {
	net.Listener
	writes *atomic.Int64
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return Counted{c, l.writes}, err
}

// Counted is a connection that counts its writes.
type Counted struct {
	net.Conn
	N *atomic.Int64
}

func (c Counted) Write(b []byte) (int, error) {
	c.N.Add(1)
	return c.Conn.Write(b)
}

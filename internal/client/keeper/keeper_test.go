package keeper_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/keeper"
	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
)

// These tests have the engine in their own process, so that they see how its jobs end. What needs a
// process for each is tested in cmd.

// A world is an engine and the connection of its first client.
type world struct {
	*client.Client
	t      *testing.T
	eng    *engine.Engine
	conn   *sockets.Conn
	ended  chan jobs.By
	places []string
	busy   atomic.Int64 // how long the machine takes for the name of the engine
}

func start(t *testing.T, linger time.Duration, change ...func(*keeper.Config)) *world {
	t.Helper()
	w := &world{t: t, ended: make(chan jobs.By, 1), places: []string{filepath.Join(t.TempDir(), "async-repl")}}
	w.eng = must.Get(engine.New(engine.Config{
		Version: "test", Workspace: t.TempDir(), Shell: "/bin/sh", StateDir: t.TempDir(),
		MaxJobs: 10, MaxSessions: 10, MaxOutput: 1 << 20, MaxState: 1 << 20,
	}))(t)
	t.Cleanup(w.eng.Close)
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t) // plays the standard error of the process
	t.Cleanup(func() { log.Close() })
	config := keeper.Config{
		Engine: w.eng, Version: "test", Linger: linger, Log: slog.New(slog.DiscardHandler),
		Around: sockets.Surroundings{Places: w.places, Search: w.places, Identity: func() (string, error) {
			<-time.After(time.Duration(w.busy.Load()))
			return sockets.Identity(w.eng.Workspace(), "", "", nil)
		}},
		Trail: &keeper.Trail{
			Stderr: log, Writer: log, Path: func() (string, error) { return filepath.Join(t.TempDir(), "warnings"), nil }, Level: func(slog.Level) {},
		},
	}
	for _, f := range change {
		f(&config)
	}
	k := keeper.New(config)
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0))(t)
	conns := make([]*sockets.Conn, 2)
	for i, fd := range fds {
		conns[i] = must.Get(sockets.FileConn(os.NewFile(uintptr(fd), "end")))(t)
		t.Cleanup(func() { conns[i].Close() })
	}
	w.conn = conns[0]
	ctx, cancel := context.WithCancel(context.Background())
	go func() { w.ended <- k.Run(ctx, conns[1]) }() // ends with cancel
	t.Cleanup(func() {
		cancel()
		k.Wait(context.Background())
	})
	mask := unix.Umask(0o22)
	unix.Umask(mask)
	must.Get(w.conn.Greet(t.Context(), sockets.Hello{Role: sockets.Client, Env: os.Environ(), Umask: mask}, sockets.HelloTime))(t)
	w.Client = client.New(w.conn, w.conn)
	must.Do(t, w.Initialize(t.Context()))
	return w
}

// waits starts a job that waits for input.
func (w *world) waits() *jobs.Job {
	w.t.Helper()
	r := must.Get(w.Call(w.t.Context(), "execute_command_async", map[string]any{"command": "read line", "wait_seconds": 0}))(w.t)
	return must.Get(w.eng.Jobs().Get(r.Header("Job ID")))(w.t)
}

// find waits until the engine listens, and returns the directory of its socket and its name.
func (w *world) find() (d *sockets.Dir, name sockets.Name) {
	w.t.Helper()
	d = must.Get(sockets.Open(w.places[0]))(w.t)
	w.t.Cleanup(func() { d.Close() })
	polltest.Until(w.t, "the socket", func() bool {
		names := must.Get(d.Names())(w.t)
		if len(names) > 0 {
			name = names[0]
		}
		return len(names) == 1
	})
	return d, name
}

// The receipt of a job says what its end was about.
func TestReceiptsNameTheEndOfTheClient(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(*world)
		want  jobs.By
	}{
		"lost":    {func(w *world) { w.conn.Close() }, jobs.ClientGone},
		"goodbye": {func(w *world) { io.WriteString(w.conn, sockets.Goodbye+"\n") }, jobs.Shutdown},
		"signal":  {func(w *world) { io.WriteString(w.conn, sockets.GoodbyeNow+"\n") }, jobs.Shutdown},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, 0)
			j := w.waits()
			c.leave(w)
			w.eng.CloseBy(<-w.ended)
			if record := j.Record(); record.Receipt.By != c.want || record.Status != jobs.Cancelled {
				t.Errorf("the job ended by %q as %s", record.Receipt.By, record.Status)
			}
		})
	}
}

// A client that is lost right after it was shown a job finds it again, on a busy machine, too.
func TestJobIsFoundOnceItIsShown(t *testing.T) {
	w := start(t, time.Hour)
	w.busy.Store(int64(50 * time.Millisecond))
	w.waits()
	d := must.Get(sockets.Open(w.places[0]))(t)
	defer d.Close()
	if names := must.Get(d.Names())(t); len(names) != 1 {
		t.Errorf("the names are %v", names)
	}
}

// The name is removed before anything else.
func TestNameIsRemovedBeforeTheEnd(t *testing.T) {
	w := start(t, 0)
	j := w.waits()
	d, _ := w.find()
	w.conn.Close()
	<-w.ended
	if names := must.Get(d.Names())(t); len(names) > 0 {
		t.Errorf("the names are %v", names)
	}
	if record := j.Record(); record.Status.Final() {
		t.Errorf("the job has ended before: %s", record.Status)
	}
}

func TestUnknownRoleIsRefused(t *testing.T) {
	w := start(t, time.Hour)
	w.waits()
	d, name := w.find()
	if _, _, err := d.Dial(t.Context(), name, sockets.Hello{Role: "guest"}); err == nil || !strings.Contains(err.Error(), "guest") {
		t.Errorf("Dial: %v", err)
	}
}

// A page asks over HTTP, again and again on one connection. It keeps the engine as little as a command
// does, and its connections end with the engine.
func TestPage(t *testing.T) {
	w := start(t, 0)
	j := w.waits()
	d, name := w.find()
	c, welcome, err := d.Dial(t.Context(), name, sockets.Hello{Role: sockets.Page})
	must.Do(t, err)
	defer c.Close()
	if welcome.Workspace != w.eng.Workspace() {
		t.Errorf("the engine says %+v", welcome)
	}
	answers := bufio.NewReader(c)
	for range 2 {
		io.WriteString(c, "GET /api/jobs/"+j.ID()+" HTTP/1.1\r\nHost: x\r\n\r\n")
		answer := must.Get(http.ReadResponse(answers, nil))(t)
		if text := must.Get(io.ReadAll(answer.Body))(t); answer.StatusCode != 200 || !strings.Contains(string(text), j.ID()) {
			t.Errorf("%s: %s", answer.Status, text)
		}
	}
	stream, _, err := d.Dial(t.Context(), name, sockets.Hello{Role: sockets.Page})
	must.Do(t, err)
	defer stream.Close()
	io.WriteString(stream, "GET /api/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	messages := bufio.NewReader(stream)
	if line := must.Get(messages.ReadString('\n'))(t); !strings.Contains(line, " 101 ") {
		t.Errorf("the stream begins with %q", line)
	}
	late := time.Now().Add(polltest.Patience)
	c.SetReadDeadline(late)
	stream.SetReadDeadline(late)
	w.conn.Close()
	<-w.ended
	for name, r := range map[string]io.Reader{"requests": answers, "stream": messages} {
		if _, err := io.Copy(io.Discard, r); err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("the connection of the %s ends with %v", name, err)
		}
	}
}

func TestPageIsRefused(t *testing.T) {
	w := start(t, time.Hour, func(c *keeper.Config) { c.NoPage = true })
	w.waits()
	d, name := w.find()
	_, _, err := d.Dial(t.Context(), name, sockets.Hello{Role: sockets.Page})
	if !errors.As(err, new(sockets.Refusal)) || !strings.Contains(err.Error(), "REPL_PAGE=off") {
		t.Errorf("Dial: %v", err)
	}
	if c, _, err := d.Dial(t.Context(), name, sockets.Hello{Role: sockets.Person}); err != nil {
		t.Errorf("a command: %v", err)
	} else {
		c.Close()
	}
}

// A client that comes while an engine ends is either served or refused at once, so that its front
// can start another engine. None is welcomed by an engine that ends without it.
func TestClientsThatComeAtTheEnd(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	served := 0
	for round := range rounds {
		w := start(t, time.Duration(round%5)*time.Millisecond)
		w.waits()
		d, name := w.find()
		var coming sync.WaitGroup
		var welcomed atomic.Int32
		for range 10 {
			coming.Go(func() { // joined below
				for begun := time.Now(); time.Since(begun) < sockets.HelloTime; {
					c, _, err := d.Dial(context.Background(), name, sockets.Hello{Role: sockets.Client, Env: os.Environ(), Umask: 0o22})
					switch {
					case errors.Is(err, sockets.ErrBusy): // the one before, or another of these
						continue
					case errors.Is(err, sockets.ErrGone):
						return
					case err != nil:
						t.Errorf("Dial: %v", err)
						return
					}
					welcomed.Add(1)
					next := client.New(c, c)
					if err := next.Initialize(t.Context()); err != nil {
						t.Errorf("a client was welcomed and not served: %v", err)
					}
					io.WriteString(c, sockets.Goodbye+"\n")
					c.Close()
					return
				}
			})
		}
		w.conn.Close()
		coming.Wait()
		<-w.ended
		served += int(welcomed.Load())
	}
	t.Logf("%d were served", served)
}

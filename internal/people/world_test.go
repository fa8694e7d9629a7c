//go:build unix

package people

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// commandArg makes the test binary play a command. The directory of the sockets and the arguments
// follow.
const commandArg = "people-command"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == commandArg {
		ctx, release := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
		defer release()
		w := &world{place: os.Args[2], stdin: os.Stdin}
		os.Exit(Run(ctx, os.Args[3:], w.config(os.Stdout, os.Stderr)))
	}
	if len(os.Args) == 5 && os.Args[1] == engineArg {
		os.Exit(playEngine(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(processtest.Main(m))
}

// command returns a command that runs in a process of its own.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{commandArg, w.place}, args...)...)
	cmd.Env = append(os.Environ(), "GORACE=exitcode=66")
	return cmd
}

// A world has engines at sockets in a directory, and commands that look for them there.
type world struct {
	t     *testing.T
	place string
	past  func(context.Context) (io.ReadWriteCloser, error)
	own   func() (*client.Client, io.Closer, error)
	stdin io.Reader

	browse func(address string) error // opens a browser

	confined error // why no server can be confined

	workspace, state string // the directories of engines; empty if each has its own

	served int    // the number of engines that listen
	python string // the interpreter of sessions; empty if there is none
}

func newWorld(t *testing.T) *world {
	return &world{t: t, place: filepath.Join(t.TempDir(), "sockets")}
}

// serving returns the world of a test that runs beside others, with one engine.
func serving(t *testing.T) (*world, *served) {
	t.Parallel()
	w := newWorld(t)
	return w, w.serve()
}

// remotely returns a world with one engine, which is a process of its own.
func remotely(t *testing.T) (*world, *remote) {
	t.Helper()
	w := newWorld(t)
	return w, w.remote()
}

// dir opens the directory of the sockets.
func (w *world) dir() *sockets.Dir {
	w.t.Helper()
	d := must.Get(sockets.Open(w.place))(w.t)
	w.t.Cleanup(func() { d.Close() })
	return d
}

// A served is a real engine at a real socket.
type served struct {
	*engine.Engine
	t       *testing.T
	welcome atomic.Pointer[sockets.Welcome]
	agent   *client.Client // the client of the engine
	stop    func()         // stops listening and closes all connections, as the end of its process does
}

// serve makes an engine that listens. The test plays only the protocol of the socket; the engine, its
// tools and sockets are real.
func (w *world) serve() *served {
	w.served++
	return w.serveAs(fmt.Sprintf("%024x", w.served))
}

// serveAs is serve for an engine with another identity than the others of this process.
func (w *world) serveAs(identity string) *served {
	t := w.t
	t.Helper()
	s := w.engine()
	s.welcomes(func(w *sockets.Welcome) {
		*w = sockets.Welcome{Version: "test", Workspace: s.Workspace(), PID: os.Getpid(), Since: time.Now().Add(-3 * time.Minute), Attended: true}
	})
	l := must.Get(w.dir().Listen(identity))(t)
	var mu sync.Mutex
	conns := []io.Closer{l}
	cut, lost := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { // joined by stop; ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			if h, err := conn.Hear("test"); err != nil || h.Role != sockets.Person {
				t.Errorf("a command says %+v, %v", h, err)
				conn.Close()
				continue
			}
			must.Do(t, conn.Welcome(*s.welcome.Load()))
			serving.Go(func() { s.connect(cut, conn, jobs.Person) }) // joined by stop; ends with the connection
		}
	})
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			lost()
			mu.Lock()
			for _, c := range conns {
				c.Close()
			}
			mu.Unlock()
			serving.Wait()
		})
	}
	t.Cleanup(s.stop)
	return s
}

// welcomes changes what the engine says of itself.
func (s *served) welcomes(change func(*sockets.Welcome)) {
	var w sockets.Welcome
	if old := s.welcome.Load(); old != nil {
		w = *old
	}
	change(&w)
	s.welcome.Store(&w)
}

// engine makes an engine with an agent.
func (w *world) engine() *served {
	t := w.t
	t.Helper()
	s := &served{t: t}
	s.Engine = must.Get(engine.New(engine.Config{
		Version: "test", Guard: processtest.Guard(t), GuardEnv: os.Environ(), Workspace: cmp.Or(w.workspace, t.TempDir()), Shell: "/bin/sh", Python: w.python,
		StateDir: cmp.Or(w.state, t.TempDir()), MaxJobs: 100, MaxSessions: 10, MaxOutput: 1 << 20, MaxState: 1 << 20,
	}))(t)
	t.Cleanup(s.Engine.Close)
	conn, theirs := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { s.connect(t.Context(), theirs, jobs.Agent) }) // joined by the test's end; ends with the connection
	t.Cleanup(func() { conn.Close(); serving.Wait() })
	s.agent = client.New(conn, conn)
	must.Do(t, s.agent.Initialize(t.Context()))
	return s
}

// connect serves a connection until it ends.
func (s *served) connect(cut context.Context, conn io.ReadWriteCloser, by jobs.By) {
	waits, leave := context.WithCancel(context.Background())
	defer leave()
	mcp := server.New(waits, server.Config{Backend: s.Engine, Version: "test", By: by, Keep: server.KeepLonger}, s.Scope(engine.Client{Env: os.Environ(), Grace: 2 * time.Second}))
	session, err := mcp.Connect(context.Background(), &stdio.Transport{Stream: conn, Ordered: true, Cut: cut, Leave: leave}, nil)
	if err == nil {
		session.Wait() // an error says how the connection has ended
	}
}

// start runs a command line as a job and returns it.
func (s *served) start(line string) *jobs.Job {
	s.t.Helper()
	reply := must.Get(s.agent.Call(s.t.Context(), "execute_command_async", map[string]any{"command": line, "wait_seconds": 0}))(s.t)
	return must.Get(s.Jobs().Get(reply.Header("Job ID")))(s.t)
}

// asking starts a job, which then asks for input.
func (s *served) asking(line string) *jobs.Job {
	s.t.Helper()
	j := s.start(line)
	jobstest.Asks(s.t, j)
	return j
}

// ended starts a job and waits for its end.
func (s *served) ended(line string) *jobs.Job {
	s.t.Helper()
	j := s.start(line)
	jobstest.End(s.t, j)
	return j
}

// A result is what a command has printed, and its exit status.
type result struct {
	out, err string
	code     int
}

func (w *world) run(args ...string) result {
	w.t.Helper()
	return w.runIn(w.t.Context(), args...)
}

func (w *world) runIn(ctx context.Context, args ...string) result {
	var out, err bytes.Buffer
	c := w.config(&out, &err)
	code := Run(ctx, args, c)
	return result{out.String(), err.String(), code}
}

// begin runs a command until it ends or ctx is done, and returns what it prints and its exit status.
func (w *world) begin(ctx context.Context, args ...string) (out io.Reader, code <-chan int) {
	read, write := io.Pipe()
	done := make(chan int, 1) // the test can have failed before
	go func() {               // ends with the command
		done <- Run(ctx, args, w.config(write, io.Discard))
		write.Close()
	}()
	return read, done
}

// config returns the configuration of a command that writes to out and err.
func (w *world) config(out, err io.Writer) Config {
	c := Config{Version: "test", Places: []string{w.place}, Past: w.past, Own: w.own, Confine: func(context.Context) error { return w.confined }, Browse: w.browse, Restorer: w.command("restore").Args, In: w.stdin, Out: out, Err: err}
	c.Rows = append(c.Rows, Row{Name: "restore"})
	for _, name := range strings.Fields("serve ps logs wait send cancel attach hook page completion doctor demo token version help") {
		c.Rows = append(c.Rows, Row{Name: name, Arguments: "ARGUMENTS", Summary: "the summary of " + name})
	}
	return c
}

// expect compares a result. A text that begins with "~" must be a part of what was printed.
func (r result) expect(t *testing.T, out, err string, code int) {
	t.Helper()
	equal := func(got, want string) bool {
		if part, ok := strings.CutPrefix(want, "~"); ok {
			return strings.Contains(got, part)
		}
		return got == want
	}
	if !equal(r.out, out) || !equal(r.err, err) || r.code != code {
		t.Errorf("got %q, %q, exit %d\nwant %q, %q, exit %d", r.out, r.err, r.code, out, err, code)
	}
}

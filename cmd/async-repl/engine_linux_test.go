package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// These tests play the fronts of an engine: they start it as a front does and speak over its sockets.

// An attached is a client of an engine in a process of its own.
type attached struct {
	*started
	conn    *sockets.Conn
	runtime string // XDG_RUNTIME_DIR
}

// startEngine starts an engine as a front does, and opens a session.
func startEngine(t testing.TB, env ...string) *attached {
	t.Helper()
	return startEngineIn(t, runtimeDir(t), env...)
}

// runtimeDir returns a directory for an engine's sockets.
func runtimeDir(t testing.TB) string {
	dir := must.Get(os.MkdirTemp("", "runtime"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func startEngineIn(t testing.TB, runtime string, env ...string) *attached {
	t.Helper()
	a := &attached{started: prepare(t, append([]string{"REPL_PYTHON=" + realPython(), "CI=", "XDG_RUNTIME_DIR=" + runtime}, env...)...), runtime: runtime}
	a.launch()
	a.greet(sockets.Hello{Role: sockets.Client, Env: a.cmd.Env, Umask: 0o22})
	must.Get(a.conn.Answer())(t)
	a.talk()
	return a
}

// launch starts the engine, which waits for a hello then.
func (a *attached) launch() {
	t := a.t
	t.Helper()
	overStdio(t, "the test reaches the engine itself")
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))(t)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	a.cmd.Args = append(a.cmd.Args, engineCommand)
	a.cmd.ExtraFiles = append([]*os.File{theirs}, a.cmd.ExtraFiles...)
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must.Do(t, a.cmd.Start())
	t.Cleanup(func() {
		a.cmd.Process.Kill() // the guard ends the rest
		a.cmd.Wait()
		if t.Failed() {
			t.Logf("the log of engine %d:\n%s", a.cmd.Process.Pid, a.log)
		}
	})
	c := must.Get(net.FileConn(ours))(t)
	t.Cleanup(func() { c.Close() })
	a.conn = sockets.NewConn(c.(*net.UnixConn))
}

func (a *attached) greet(h sockets.Hello) { a.t.Helper(); must.Do(a.t, a.conn.Greet(h)) }

// talk opens a session over the connection.
func (a *attached) talk() {
	a.t.Helper()
	a.Client = client.New(a.conn, a.conn)
	must.Do(a.t, a.Initialize(a.ctx()))
}

// open opens the directory of the engine's socket.
func (a *attached) sockets() *sockets.Dir {
	a.t.Helper()
	d := must.Get(sockets.Open(filepath.Join(a.runtime, "async-repl")))(a.t)
	a.t.Cleanup(func() { d.Close() })
	return d
}

// names returns the names of the engines.
func (a *attached) names() []sockets.Name { a.t.Helper(); return must.Get(a.sockets().Names())(a.t) }

// name returns the name of the engine, which must listen or be about to.
func (a *attached) name() (name sockets.Name) {
	a.t.Helper()
	polltest.Check(a.t, func() error {
		for _, name = range a.names() {
			if name.PID == a.cmd.Process.Pid {
				return nil
			}
		}
		return errors.New("the engine does not listen")
	})
	return name
}

// lose closes the connection without a goodbye.
func (a *attached) lose() { a.conn.Close() }

// leave says goodbye.
func (a *attached) leave(goodbye string) {
	a.t.Helper()
	must.Get(io.WriteString(a.conn, goodbye+"\n"))(a.t)
}

// takeOver connects another client to the engine.
func (a *attached) takeOver(h sockets.Hello) *attached {
	a.t.Helper()
	h.Role = sockets.Client
	return a.dial(h)
}

func (a *attached) dial(h sockets.Hello) *attached {
	a.t.Helper()
	c, _, err := a.sockets().Dial(context.Background(), a.name(), h)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.Close() })
	next := *a.started
	b := &attached{started: &next, conn: c, runtime: a.runtime}
	b.talk()
	return b
}

// run runs Python that must complete.
func (a *attached) run(code string, more ...any) client.Reply {
	a.t.Helper()
	r := a.do("execute_python", append([]any{"code", code, "wait_seconds", 50}, more...)...)
	if status := r.Header("Status"); status != "completed" {
		a.t.Fatalf("%s: %s", code, r)
	}
	return r
}

// gone waits for the exit of the engine, after which its socket has no name.
func (a *attached) gone() string {
	a.t.Helper()
	status := a.exit()
	for _, n := range a.names() {
		if n.PID == a.cmd.Process.Pid {
			a.t.Errorf("the name of engine %v is left", n)
		}
	}
	return status
}

func TestEngineListensWithItsFirstJob(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	a.do("server_status")
	if entries, err := os.ReadDir(a.runtime); err != nil || len(entries) > 0 {
		t.Errorf("without a job there is %v, %v", entries, err)
	}
	a.run("x = 1")
	a.name()
	a.leave(sockets.Goodbye)
	if status := a.gone(); status != "exit status 0" {
		t.Errorf("after a goodbye: %s", status)
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	a.run("x = list(range(1000))")
	a.run("y = 2", "checkpoint", true)
	a.do("create_session", "name", "branch", "from_session", "default")
	a.do("execute_command_async", "command", "cd / && answer=42", "shell_session", "sh", "wait_seconds", 50)
	asks := a.do("execute_python", "code", "name = input('Name? ')", "session", "asks").Header("Job ID")
	screen := a.do("execute_command_async", "command", "printf '\\033[2J\\033[3;5HHello'; read line").Header("Job ID")
	a.prints(screen, "Hello")
	a.lose()

	b := a.takeOver(sockets.Hello{Env: append(a.cmd.Env, "MINE=new"), Umask: 0o77})
	r := b.do("list_jobs")
	resumed := r.Header("Resumed")
	for _, want := range []string{"job " + asks + " waits for input", "job " + screen, "session default with 2 variables", "session branch with 2 variables"} {
		if !strings.Contains(resumed, want) {
			t.Errorf("Resumed lacks %q: %s", want, r)
		}
	}
	if again := b.do("list_jobs"); again.Header("Resumed") != "" {
		t.Errorf("said twice: %s", again)
	}
	if got := b.run("print(len(x), y)"); !strings.Contains(string(got), "1000 2") {
		t.Errorf("the variables: %s", got)
	}
	if got := b.run("print(len(x))", "session", "branch"); !strings.Contains(string(got), "1000") {
		t.Errorf("the branch: %s", got)
	}
	b.do("restart_python_worker", "checkpoint", "latest")
	if got := b.run("print(y)"); !strings.Contains(string(got), "2") {
		t.Errorf("the checkpoint: %s", got)
	}
	if got := b.do("execute_command_async", "command", "echo $PWD $answer", "shell_session", "sh", "wait_seconds", 50); !strings.Contains(string(got), "/ 42") {
		t.Errorf("the shell session: %s", got)
	}
	b.do("send_python_input", "job_id", asks, "text", "Ada")
	if got := b.run("print(name)", "session", "asks"); !strings.Contains(string(got), "Ada") {
		t.Errorf("the question: %s", got)
	}
	if got := b.do("check_job_status", "job_id", screen); !strings.Contains(string(got), "Hello") {
		t.Errorf("the screen: %s", got)
	}
	if got := b.do("execute_command_async", "command", "echo $MINE; umask", "wait_seconds", 50); !strings.Contains(string(got), "new\n0077") {
		t.Errorf("environment and umask of the new client: %s", got)
	}
	if got := b.run("import os; print(os.environ.get('MINE'))"); !strings.Contains(string(got), "None") {
		t.Errorf("the environment of a session: %s", got)
	}
}

func TestEngineHasOneClient(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	a.run("x = 1")
	for range 3 {
		if _, _, err := a.sockets().Dial(t.Context(), a.name(), sockets.Hello{Role: sockets.Client}); !errors.Is(err, sockets.ErrBusy) {
			t.Errorf("a second client: %v", err)
		}
	}
	a.run("print(x)")
}

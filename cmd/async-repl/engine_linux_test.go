package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// These tests play the fronts of an engine: they start it as a front does and speak over its
// sockets.

// An attached is a client of an engine in a process of its own.
type attached struct {
	*started
	conn    *sockets.Conn
	runtime string       // XDG_RUNTIME_DIR
	opened  *sockets.Dir // see sockets
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
	a := prepareEngine(t, runtime, env...)
	a.launch()
	a.greet(sockets.Hello{})
	return a
}

// prepareEngine returns an engine that has not been started.
func prepareEngine(t testing.TB, runtime string, env ...string) *attached {
	t.Helper()
	env = append([]string{"REPL_PYTHON=" + realPython(), "CI=", "REPL_LINGER=", "XDG_RUNTIME_DIR=" + runtime}, env...)
	return &attached{started: prepare(t, env...), runtime: runtime}
}

// launch starts the engine, which waits for a hello then.
func (a *attached) launch() {
	t := a.t
	t.Helper()
	overStdio(t, "the test reaches the engine itself")
	notAgain(t)
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))(t)
	theirs := os.NewFile(uintptr(fds[1]), "theirs")
	defer theirs.Close()
	a.conn = must.Get(sockets.FileConn(os.NewFile(uintptr(fds[0]), "ours")))(t)
	t.Cleanup(func() { a.conn.Close() })
	a.cmd.Args = append(a.cmd.Args, a.commandOfEngines())
	a.cmd.ExtraFiles = append([]*os.File{theirs}, a.cmd.ExtraFiles...)
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must.Do(t, a.cmd.Start())
	t.Cleanup(a.quitBeforeTheTimeout())
	t.Cleanup(func() {
		a.cmd.Process.Kill() // the guard ends the rest
		a.cmd.Wait()
		if t.Failed() {
			t.Logf("the log of engine %d:\n%s", a.cmd.Process.Pid, a.log)
		}
	})
}

// greet says hello as the first client, and opens a session.
func (a *attached) greet(h sockets.Hello) {
	a.t.Helper()
	h.Role, h.Env, h.Umask = sockets.Client, a.cmd.Env, 0o22
	must.Get(a.conn.Greet(a.ctx(), h, patience))(a.t)
	a.talk()
}

// talk opens a session over the connection.
func (a *attached) talk() {
	a.t.Helper()
	a.Client = client.New(a.conn, a.conn)
	must.Do(a.t, a.Initialize(a.ctx()))
}

// sockets returns the directory of the engine's socket.
func (a *attached) sockets() *sockets.Dir {
	a.t.Helper()
	if a.opened == nil {
		a.opened = must.Get(sockets.Open(filepath.Join(a.runtime, "async-repl")))(a.t)
		a.t.Cleanup(func() { a.opened.Close() })
	}
	return a.opened
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

// lose closes the connection without a goodbye. It also shuts the socket down: a process that
// another test has just forked holds it until its exec.
func (a *attached) lose() {
	a.conn.CloseRead()
	a.conn.CloseWrite()
	a.conn.Close()
}

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
func (s *started) run(code string, more ...any) client.Reply {
	s.t.Helper()
	r := s.do("execute_python", append([]any{"code", code, "wait_seconds", 50}, more...)...)
	if status := r.Header("Status"); status != "completed" {
		s.t.Fatalf("%s: %s", code, r)
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
	if names := a.names(); len(names) > 0 {
		t.Errorf("without a job there are %v", names)
	}
	a.run("x = 1")
	a.name()
	a.leave(sockets.Goodbye)
	if status := a.gone(); status != "exit status 0" {
		t.Errorf("after a goodbye: %s", status)
	}
}

// A take-over brings what the new client has. What runs stays as it is; see
// TestStateOutlivesTakeOvers, too.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	a.run("x = list(range(1000)); y = 2")
	asks := a.do("execute_python", "wait_seconds", 60, "code", "name = input('Name? ')", "session", "asks").Header("Job ID")
	runs := a.do("execute_command_async", "command", "exec sleep 1000", "wait_seconds", 0).Header("Job ID")
	a.lose()

	b := a.takeOver(sockets.Hello{Env: append(a.cmd.Env, "MINE=new"), Umask: 0o77})
	r := b.do("list_jobs")
	for _, want := range []string{"job " + asks + " waits for input", "job " + runs, "session default with 2 variables"} {
		if !strings.Contains(r.Header("Resumed"), want) {
			t.Errorf("Resumed lacks %q: %s", want, r)
		}
	}
	if again := b.do("list_jobs"); again.Header("Resumed") != "" {
		t.Errorf("said twice: %s", again)
	}
	if got := b.run("print(len(x), y)"); !strings.Contains(string(got), "1000 2") {
		t.Errorf("the variables: %s", got)
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

// A command sees jobs and answers them. It takes nothing over, and news for the client stays there.
func TestPersonTakesNothingOver(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	id := a.do("execute_python", "wait_seconds", 60, "code", "name = input('Name? ')").Header("Job ID")
	person := a.dial(sockets.Hello{Role: sockets.Person})
	person.do("send_python_input", "job_id", id, "text", "Ada", "wait_seconds", 50)
	if r := person.do("list_jobs"); r.Header("Also") != "" || r.Header("Resumed") != "" || !strings.Contains(string(r), id) {
		t.Errorf("the person reads %s", r)
	}
	if r := a.run("print(name)"); !strings.Contains(r.Header("Also"), id+" completed") || !strings.Contains(string(r), "Ada") {
		t.Errorf("the client reads %s", r)
	}
	person.lose()
	a.run("print(name)")
	a.lose()
	late := a.dial(sockets.Hello{Role: sockets.Person}) // while no client is there
	if r := late.do("list_jobs"); !strings.Contains(string(r), id) || r.Header("Resumed") != "" {
		t.Errorf("the person reads %s", r)
	}
	b := a.takeOver(sockets.Hello{Env: a.cmd.Env})
	if r := b.do("list_jobs"); !strings.Contains(r.Header("Resumed"), "session default with 1 variable") {
		t.Errorf("the next client reads %s", r)
	}
}

// Also says which jobs ended while no client was there.
func TestJobsThatEndWithoutAClientAreSaid(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	a.run("x = 1")
	a.write("go", "")
	id := a.do("execute_command_async", "command", "while test -e go; do sleep 0.01; done; echo done", "wait_seconds", 0).Header("Job ID")
	a.lose()
	must.Do(t, os.Remove(filepath.Join(a.dir, "go")))
	person := a.dial(sockets.Hello{Role: sockets.Person})
	person.end(id)
	b := a.takeOver(sockets.Hello{Env: a.cmd.Env})
	if r := b.run("x"); !strings.Contains(r.Header("Also"), id+" completed") || !strings.Contains(r.Header("Resumed"), "session default") {
		t.Errorf("the next client reads %s", r)
	}
}

func TestEngineHasNothingOfItsClient(t *testing.T) {
	t.Parallel()
	a := prepareEngine(t, runtimeDir(t))
	inherited, theirs := must.Get2(os.Pipe())(t) // a client can leave one open
	defer inherited.Close()
	a.cmd.ExtraFiles = []*os.File{theirs}
	a.launch()
	theirs.Close()
	a.greet(sockets.Hello{})
	must.Do(t, inherited.SetReadDeadline(time.Now().Add(patience)))
	if n, err := inherited.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a descriptor of the client is open: %d, %v", n, err)
	}
	pid := a.cmd.Process.Pid
	if dir := must.Get(os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)))(t); dir != "/" {
		t.Errorf("the engine works in %s", dir)
	}
	if session, err := unix.Getsid(pid); session != pid || err != nil {
		t.Errorf("the engine is in session %d, %v", session, err)
	}
	if got := a.do("execute_command_async", "command", "pwd; trap", "wait_seconds", 50); !strings.Contains(string(got), a.dir+"\n") {
		t.Errorf("its jobs work in %s", got)
	}
	status := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))
	if !strings.Contains(status, "SigIgn:\t0000000000000000\n") {
		t.Errorf("the engine ignores signals: %s", status)
	}
}

// Without a client an engine that would lose nothing ends at once, and so does one that no client
// reaches.
func TestEngineWithoutAnythingToLoseEnds(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*attached){
		"unused":            func(*attached) {},
		"no variables":      func(a *attached) { a.run("print(1)") },
		"only a command":    func(a *attached) { a.do("execute_command_async", "command", "true", "wait_seconds", 50) },
		"deleted variables": func(a *attached) { a.run("x = 1"); a.do("restart_python_worker") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startEngine(t, "REPL_LINGER=1h")
			do(a)
			a.lose()
			if status := a.gone(); status != "exit status 0" {
				t.Errorf("it ends with %s", status)
			}
		})
	}
	for name, line := range map[string]string{"no hello": "", "rubbish": "{}\n", "another protocol": `{"Protocol":9}` + "\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := prepareEngine(t, runtimeDir(t))
			a.launch()
			io.WriteString(a.conn, line)
			if status := a.gone(); status != "exit status 0" {
				t.Errorf("it ends with %s", status)
			}
		})
	}
}

func TestEngineWaitsForItsClient(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*attached){
		"variable": func(a *attached) { a.run("x = 1") },
		"job":      func(a *attached) { a.do("execute_command_async", "command", "read line", "wait_seconds", 0) },
		"process":  func(a *attached) { a.do("execute_command_async", "command", "sleep 1000 & disown", "wait_seconds", 50) },
		"shell session": func(a *attached) {
			a.do("execute_command_async", "command", "cd /", "shell_session", "sh", "wait_seconds", 50)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startEngine(t, "REPL_LINGER=2")
			do(a)
			a.lose()
			w := a.waits()
			if left := w.Ends.Sub(w.Left); left != 2*time.Second {
				t.Errorf("it waits for %v", left)
			}
			a.gone()
			if now := time.Now(); now.Before(w.Ends) {
				t.Errorf("it has ended %v before its time", w.Ends.Sub(now))
			}
		})
	}
}

// waits waits until the engine knows that its client is gone.
func (a *attached) waits() (w sockets.Welcome) {
	a.t.Helper()
	d, name := a.sockets(), a.name()
	polltest.Check(a.t, func() error {
		c, welcome, err := d.Dial(context.Background(), name, sockets.Hello{Role: sockets.Person})
		if err != nil {
			return err
		}
		c.Close()
		if w = welcome; w.Attended {
			return errors.New("a client is there")
		}
		return nil
	})
	return w
}

func TestEngineLingersAfterAGoodbyeIfToldSo(t *testing.T) {
	t.Parallel()
	a := startEngine(t, "REPL_LINGER_GOODBYE=1h", "REPL_LINGER=0")
	a.run("x = 1")
	a.leave(sockets.Goodbye)
	a.waits()
	b := a.takeOver(sockets.Hello{Env: a.cmd.Env})
	b.run("print(x)")
	b.lose()
	b.gone()
}

// CI has a machine be left as it was found.
func TestEngineDoesNotLingerInCI(t *testing.T) {
	t.Parallel()
	a := startEngine(t, "CI=true")
	a.run("x = 1")
	a.lose()
	a.gone()
}

// At a goodbye at the end of input, calls in flight are answered as usual. At a signal they are
// answered at once.
func TestCallsAreAnsweredAtAGoodbye(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		goodbye string
		status  []string
	}{
		"end of input": {sockets.Goodbye, []string{"completed"}},
		"signal":       {sockets.GoodbyeNow, []string{"running", "cancelled (stopped by shutdown)"}}, // it is being ended
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startEngine(t)
			a.write("go", "")
			call := must.Get(a.Start("execute_command_async", map[string]any{"command": "touch begun; while test -e go; do sleep 0.01; done", "wait_seconds": 50}))(t)
			polltest.Until(t, "the job", func() bool { _, err := os.Stat(filepath.Join(a.dir, "begun")); return err == nil })
			polltest.Until(t, "its status", func() bool { return strings.Contains(string(a.do("list_jobs", "status", "running")), "touch begun") })
			a.leave(c.goodbye)
			if c.goodbye == sockets.Goodbye {
				must.Do(t, a.conn.CloseWrite())
				must.Do(t, os.Remove(filepath.Join(a.dir, "go")))
			}
			r, err := call.Reply(a.ctx())
			if status := r.Header("Status"); err != nil || !slices.Contains(c.status, status) {
				t.Errorf("the call is answered %v, %s", err, r)
			}
			a.gone()
		})
	}
}

// A signal can end an engine whose client is there, and will not be told by the end of the connection.
func TestEndBySignalIsSaid(t *testing.T) {
	t.Parallel()
	runtime, state, workspace := runtimeDir(t), newState(t), t.TempDir()
	env := []string{"REPL_WORKDIR=" + workspace, "REPL_STATE_DIR=" + state}
	a := startEngineIn(t, runtime, env...)
	job := a.do("execute_command_async", "command", "read line", "wait_seconds", 0).Header("Job ID")
	a.run("x = 1")
	must.Do(t, a.cmd.Process.Signal(syscall.SIGTERM))
	a.gone()
	said := startEngineIn(t, runtime, env...).run("1").Header("Also")
	for _, want := range []string{"job " + job + " cancelled (", "session default ended with 1 variable"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
}

// What an engine could not say reaches the next reply in the workspace, also that of another engine.
func TestEndIsSaidToTheClientOfAnotherEngine(t *testing.T) {
	t.Parallel()
	runtime, state, workspace := runtimeDir(t), newState(t), t.TempDir()
	env := []string{"REPL_WORKDIR=" + workspace, "REPL_STATE_DIR=" + state, "REPL_LINGER=1h"}
	a, b := startEngineIn(t, runtime, env...), startEngineIn(t, runtime, env...)
	a.run("x = 1")
	b.run("x = 2")
	b.lose()
	b.waits()
	must.Do(t, a.cmd.Process.Signal(syscall.SIGTERM))
	a.gone()
	if said := b.takeOver(sockets.Hello{}).run("1").Header("Also"); said != "session default ended with 1 variable" {
		t.Errorf("the client that takes over reads Also: %q", said)
	}
}

func TestFiveEnginesOfAWorkspace(t *testing.T) {
	t.Parallel()
	runtime, workspace := runtimeDir(t), t.TempDir()
	elsewhere := startEngineIn(t, runtime)
	elsewhere.run("x = 1")
	elsewhere.lose()
	elsewhere.waits()
	var engines []*attached
	for range maxLingering + 1 {
		a := startEngineIn(t, runtime, "REPL_WORKDIR="+workspace)
		a.run("x = 1")
		engines = append(engines, a)
	}
	attended := startEngineIn(t, runtime, "REPL_WORKDIR="+workspace)
	attended.run("x = 1")
	for _, a := range engines {
		a.lose()
		a.waits()
	}
	engines[0].gone()
	for _, a := range append(engines[1:], elsewhere) {
		a.waits()
	}
	attended.run("print(x)")
}

// maxLingering is the number of engines of a workspace that can wait for a client.
const maxLingering = 4

func TestSignalEndsAnEngine(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			if sig == syscall.SIGHUP {
				notApart(t, "the process outside leaves it to the front what a hangup means")
			}
			t.Parallel()
			a := startEngine(t, "REPL_LINGER=1h")
			pid := a.sleeper()
			must.Do(t, a.cmd.Process.Signal(sig))
			a.gone()
			processtest.Gone(t, pid)
		})
	}
}

// sleeper starts a job that is a process, and returns its pid as the test sees it.
func (a *attached) sleeper() (pid int) {
	a.t.Helper()
	r := a.do("execute_command_async", "command", "echo pid $$; exec sleep 1000", "wait_seconds", 0)
	r = a.prints(r.Header("Job ID"), "pid ")
	_, after, _ := strings.Cut(r.Section("STDOUT"), "pid ")
	number, _, _ := strings.Cut(after, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		a.t.Fatalf("no pid: %s", r)
	}
	return a.seen(pid)
}

func TestKilledEngineLeavesNothing(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	pid := a.sleeper()
	name := a.name()
	must.Do(t, a.cmd.Process.Kill())
	a.exit()
	processtest.Gone(t, pid)
	if _, _, err := a.sockets().Dial(t.Context(), name, sockets.Hello{Role: sockets.Client}); !errors.Is(err, sockets.ErrGone) {
		t.Errorf("dialing it: %v", err)
	}
	if names := a.names(); len(names) > 0 {
		t.Errorf("the names are %v", names)
	}
}

// A client that was killed and started again can be there before the engine knows.
func TestClientFollowsAtOnce(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	a.run("n = 0")
	for range 20 {
		call := must.Get(a.Start("wait_for_jobs", map[string]any{"job_ids": []string{}, "wait_seconds": 100}))(t)
		a.lose()
		a = a.takeOver(sockets.Hello{Env: a.cmd.Env})
		a.run("n += 1")
		_ = call
	}
	if r := a.run("print(n)"); !strings.Contains(string(r), "20") {
		t.Errorf("%s", r)
	}
}

// Without a client warnings go to a file, and the next front says how many.
func TestWarningsWithoutAClient(t *testing.T) {
	t.Parallel()
	a := startEngine(t, "REPL_LINGER=1h")
	a.run("x = 1")
	a.lose()
	a.waits()
	_, guard, ok := strings.Cut(string(a.dial(sockets.Hello{Role: sockets.Person}).do("server_status")), "guard (pid ")
	number, _, _ := strings.Cut(guard, ")")
	pid, err := strconv.Atoi(number)
	if !ok || err != nil {
		t.Fatal("no guard is named")
	}
	must.Do(t, syscall.Kill(a.seen(pid), syscall.SIGKILL))
	runs := filepath.Join(a.records(), "runs", "*", "*")
	var path string
	polltest.Check(t, func() error {
		path = soleFile(t, filepath.Join(runs, "log"))
		if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "guard exited") {
			return fmt.Errorf("%s has %q, %v", path, b, err)
		}
		return nil
	})
	log, theirs := must.Get2(os.Pipe())(t)
	defer log.Close()
	b := a.takeOver(sockets.Hello{Env: a.cmd.Env, Stderr: theirs})
	theirs.Close()
	b.leave(sockets.Goodbye)
	b.gone()
	if text := string(must.Get(io.ReadAll(log))(t)); !strings.Contains(text, "async-repl: 1 warning was logged to "+path+" while no client was connected\n") {
		t.Errorf("the next front's log: %q", text)
	}

	quiet := startEngine(t)
	quiet.run("x = 1")
	quiet.leave(sockets.Goodbye)
	quiet.gone()
	run := soleFile(t, filepath.Join(quiet.records(), "runs", "*", "*"))
	if entries := must.Get(os.ReadDir(run))(t); len(entries) != 3 {
		t.Errorf("an engine that has logged nothing leaves %v, not just run.json, journal.jsonl and its lock", entries)
	}
	if left := must.Get(filepath.Glob(filepath.Join(quiet.records(), "*.log")))(t); left != nil {
		t.Errorf("it leaves %s", left)
	}
}

// An engine without a socket can't be found: it keeps nothing and waits for no client.
func TestEngineWithoutASocket(t *testing.T) {
	t.Parallel()
	open := t.TempDir()
	must.Do(t, os.Chmod(open, 0o777))
	a := startEngineIn(t, open, "TMPDIR="+open, "REPL_LINGER=1h")
	for range 2 { // also before its first job
		text := a.refused("execute_command_async", "command", "sleep 100", "keep", true)
		if !strings.Contains(text, "could reach the job ("+open+" can be changed by other users") || strings.Contains(text, "\n") {
			t.Errorf("keep: %s", text)
		}
		a.run("x = 1")
	}
	a.lose()
	a.exit()
}

// The name of an engine is made again if something removes it: others find the engine with its next
// call, and when its client has left.
func TestRemovedNameIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]func(*attached) string{
		"socket":    func(a *attached) string { return filepath.Join(a.sockets().Path(), a.name().String()) },
		"directory": func(a *attached) string { return a.sockets().Path() },
		"logout":    func(a *attached) string { return a.runtime },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startEngine(t)
			a.run("x = 1")
			for _, after := range []func(){func() { a.do("server_status") }, func() { a.lose() }} {
				a.name()
				must.Do(t, os.RemoveAll(path(a)))
				must.Do(t, os.MkdirAll(a.runtime, 0o700))
				a.opened = nil
				after()
				a.name()
			}
			b := a.takeOver(sockets.Hello{Env: a.cmd.Env})
			b.run("print(x)")
		})
	}
}

// soleFile returns the only file of a pattern.
func soleFile(t *testing.T, pattern string) string {
	t.Helper()
	paths := must.Get(filepath.Glob(pattern))(t)
	if len(paths) != 1 {
		t.Fatalf("%s has %q", pattern, paths)
	}
	return paths[0]
}

// A server that is one process has a socket for commands, too.
func TestCommandsReachAServerOfOneProcess(t *testing.T) {
	t.Parallel()
	overStdio(t, "the test is about the process that the client starts")
	a := &attached{runtime: runtimeDir(t)}
	a.started = startServer(t, "REPL_KEEPER=off", "XDG_RUNTIME_DIR="+a.runtime)
	id := a.do("execute_python", "wait_seconds", 60, "code", "input()").Header("Job ID")
	name := a.name()
	if _, _, err := a.sockets().Dial(t.Context(), name, sockets.Hello{Role: sockets.Client}); err == nil || !strings.Contains(err.Error(), "REPL_KEEPER=off") {
		t.Errorf("another client: %v", err)
	}
	person := a.dial(sockets.Hello{Role: sockets.Person})
	if r := person.do("list_jobs"); !strings.Contains(string(r), id) {
		t.Errorf("the person reads %s", r)
	}
	a.stop()
	a.gone()
}

// A server without a place for its socket works, and its status says why no command can reach it.
func TestServerWithoutASocket(t *testing.T) {
	t.Parallel()
	overStdio(t, "the test is about the process that the client starts")
	open := t.TempDir()
	must.Do(t, os.Chmod(open, 0o777))
	a := startServer(t, "XDG_RUNTIME_DIR="+open, "TMPDIR="+open)
	a.end(a.do("execute_python", "code", "1").Header("Job ID"))
	polltest.Check(t, func() error {
		if r := a.do("server_status"); !strings.Contains(string(r), "reach this server: "+open+" can be changed by other users") {
			return fmt.Errorf("the status is %s", r)
		}
		return nil
	})
}

// A goodbye ends everything but what is kept.
func TestKeptJobsOutliveAGoodbye(t *testing.T) {
	t.Parallel()
	a := startEngine(t, "REPL_LINGER=1h")
	a.write("go", "")
	const wait = "while test -e go; do sleep 0.01; done"
	command := a.do("execute_command_async", "command", wait+"; echo done", "keep", true, "wait_seconds", 0)
	if keep := command.Header("Keep"); !strings.HasPrefix(keep, "continues when this client quits") {
		t.Errorf("Keep: %q in %s", keep, command)
	}
	if r := a.run("import os, time; x = 1", "keep", true); r.Header("Keep") != "the session stays when this client quits, until it was idle for 24 hours" {
		t.Errorf("of a job that has ended: %s", r)
	}
	python := a.do("execute_python", "code", "while os.path.exists('go'): time.sleep(0.01)\ny = 2", "keep", true, "wait_seconds", 0).Header("Job ID")
	queued := a.do("execute_python", "code", "z = 3", "wait_seconds", 0).Header("Job ID")
	a.run("lost = 1", "session", "other")
	sleeper := a.sleeper()
	a.do("execute_command_async", "command", "cd /", "shell_session", "sh", "wait_seconds", 50)
	a.leave(sockets.Goodbye)
	processtest.Gone(t, sleeper)
	w := a.waits()
	if w.Kept != 2 || !w.Ends.IsZero() {
		t.Errorf("the engine keeps %d and ends %v", w.Kept, w.Ends)
	}
	must.Do(t, os.Remove(filepath.Join(a.dir, "go")))

	b := a.takeOver(sockets.Hello{Env: a.cmd.Env})
	if r := b.end(python); r.Header("Status") != "completed" {
		t.Errorf("the kept job of Python: %s", r)
	}
	if r := b.end(command.Header("Job ID")); !strings.Contains(string(r), "done") {
		t.Errorf("the kept command: %s", r)
	}
	if r := b.end(queued); !strings.HasPrefix(r.Header("Status"), "cancelled") || r.Header("Ended by") != "shutdown" {
		t.Errorf("the job that was not kept: %s", r)
	}
	if r := b.run("print(x + y)"); !strings.Contains(string(r), "3") {
		t.Errorf("the kept session: %s", r)
	}
	if r := b.do("list_sessions"); strings.Contains(string(r), "other") {
		t.Errorf("the other session is there: %s", r)
	}
	if r := b.do("execute_command_async", "command", "pwd", "shell_session", "sh", "wait_seconds", 50); !strings.Contains(string(r), a.dir) {
		t.Errorf("the shell session is the old one: %s", r)
	}
	b.leave(sockets.Goodbye)
	if w := b.waits(); w.Kept != 1 {
		t.Errorf("with the session alone the engine keeps %d", w.Kept)
	}
	c := b.takeOver(sockets.Hello{Env: a.cmd.Env})
	c.run("print(x + y)")
	c.do("delete_session", "session", "default")
	c.leave(sockets.Goodbye)
	c.gone()
}

// An engine whose kept jobs have ended ends itself. Without records it waits for a client that
// reads how they have ended.
func TestEngineEndsWithItsLastKeptJob(t *testing.T) {
	t.Parallel()
	runtime, state, workspace := runtimeDir(t), newState(t), t.TempDir()
	env := []string{"REPL_WORKDIR=" + workspace, "REPL_STATE_DIR=" + state}
	ended := func(env []string) (a *attached, id string) {
		a = startEngineIn(t, runtime, env...)
		id = a.do("execute_command_async", "command", "read line", "keep", true, "wait_seconds", 0).Header("Job ID")
		a.leave(sockets.Goodbye)
		a.waits()
		a.dial(sockets.Hello{Role: sockets.Person}).do("cancel_job", "job_id", id)
		return a, id
	}
	a, id := ended(env)
	a.gone()
	b := startEngineIn(t, runtime, env...)
	if r := b.do("check_job_status", "job_id", id); r.Header("Ended by") != "person" || r.Header("Past") == "" {
		t.Errorf("the kept job: %s", r)
	}
	b.leave(sockets.Goodbye)
	b.gone()

	env = append(env, "REPL_HISTORY=0")
	a, id = ended(env)
	a.dial(sockets.Hello{Role: sockets.Person}).end(id)
	if w := a.waits(); w.Ends.Sub(w.Left) != 24*time.Hour {
		t.Errorf("without records it waits for %v", w.Ends.Sub(w.Left))
	}
	b = a.takeOver(sockets.Hello{Env: a.cmd.Env})
	if r := b.do("check_job_status", "job_id", id); r.Header("Ended by") != "person" {
		t.Errorf("the kept job, without records: %s", r)
	}
	b.leave(sockets.Goodbye)
	b.gone()
}

func TestKeptElsewhere(t *testing.T) {
	t.Parallel()
	runtime, workspace := runtimeDir(t), t.TempDir()
	a := startEngineIn(t, runtime, "REPL_WORKDIR="+workspace, "REPL_MAX_JOBS=7")
	a.do("execute_command_async", "command", "read line", "keep", true, "wait_seconds", 0)
	a.do("execute_command_async", "command", "read line", "keep", true, "wait_seconds", 0)
	a.leave(sockets.Goodbye)
	a.waits()
	began := time.Now()
	b := startEngineIn(t, runtime, "REPL_WORKDIR="+workspace)
	b.saysElsewhere(began, "2 jobs (async-repl ps)")
	if said := b.do("list_jobs").Header("Kept elsewhere"); said != "" {
		t.Errorf("said again: %q", said)
	}
	c := startEngineIn(t, runtime) // another workspace
	if said := c.do("list_jobs").Header("Kept elsewhere"); said != "" {
		t.Errorf("in another workspace: %q", said)
	}
}

// elsewhereTime bounds how long the first reply waits for other engines.
const elsewhereTime = 250 * time.Millisecond

// saysElsewhere checks that the first reply says what other engines keep. A later one can say it if
// they were slow.
func (s *started) saysElsewhere(began time.Time, want string) {
	s.t.Helper()
	for {
		said := s.do("list_jobs").Header("Kept elsewhere")
		switch took := time.Since(began); {
		case said == want:
			return
		case said != "" || took < elsewhereTime || took > patience:
			s.t.Fatalf("after %v, Kept elsewhere: %q", took, said)
		}
	}
}

// Engines with kept jobs are not ended because others wait for a client, too.
func TestKeptEnginesDontCount(t *testing.T) {
	t.Parallel()
	runtime, workspace := runtimeDir(t), t.TempDir()
	var engines []*attached
	for i := range maxLingering + 2 {
		a := startEngineIn(t, runtime, "REPL_WORKDIR="+workspace)
		a.do("execute_command_async", "command", "read line", "keep", i < 2, "wait_seconds", 0)
		engines = append(engines, a)
	}
	for _, a := range engines {
		a.lose()
		a.waits()
	}
	for _, a := range engines {
		a.waits()
	}
}

func TestServerOfOneProcessKeepsNothing(t *testing.T) {
	t.Parallel()
	overStdio(t, "over HTTP jobs are kept until the server ends")
	a := startServer(t, "REPL_KEEPER=off")
	for tool, code := range map[string]string{"execute_python": "code", "execute_command_async": "command"} {
		if said := a.refused(tool, code, "1", "keep", true); !strings.Contains(said, "REPL_KEEPER") {
			t.Errorf("%s: %s", tool, said)
		}
	}
}

// Other engines of the workspace that speak another protocol are named.
func TestOlderEngineIsNamed(t *testing.T) {
	t.Parallel()
	a := prepareEngine(t, runtimeDir(t))
	a.launch()
	a.greet(sockets.Hello{Older: "the engine of process 4711 is not resumed"})
	if said := a.do("list_jobs").Header("Resumed"); said != "the engine of process 4711 is not resumed" {
		t.Errorf("Resumed: %q", said)
	}
}

// Commands reach the engine of each tenant of a server over HTTP, also if they share a workspace. A
// kept job ends with the server.
func TestCommandsReachAServerOverHTTP(t *testing.T) {
	t.Parallel()
	file := newTokens(t, "one", "two")
	a := &attached{started: prepare(t), runtime: runtimeDir(t)}
	overStdio(t, "the test has clients of its own")
	a.cmd.Env = append(a.cmd.Env, "XDG_RUNTIME_DIR="+a.runtime)
	a.cmd.Args = append(a.cmd.Args, "serve", "-port", "0", "-tokens", file.path, "-trusted-tenants", "-session-ttl", "10ms")
	a.begin()
	var ids []string
	for _, tenant := range []string{"one", "two"} {
		r := a.join(client.Older, file.tokens[tenant])
		reply := must.Get(r.Call(a.ctx(), "execute_command_async", map[string]any{"command": "read line", "keep": true, "wait_seconds": 0}))(t)
		if keep := reply.Header("Keep"); keep != "continues when this client quits, and ends with the server" {
			t.Errorf("Keep: %q", keep)
		}
		ids = append(ids, reply.Header("Job ID"))
	}
	d := a.sockets()
	var names []sockets.Name
	polltest.Check(t, func() error {
		if names = must.Get(d.Names())(t); len(names) != 2 {
			return fmt.Errorf("the names are %v", names)
		}
		return nil
	})
	var seen string
	for _, name := range names {
		if _, _, err := d.Dial(t.Context(), name, sockets.Hello{Role: sockets.Client}); err == nil || !strings.Contains(err.Error(), "HTTP") {
			t.Errorf("a client: %v", err)
		}
		c, _, err := d.Dial(t.Context(), name, sockets.Hello{Role: sockets.Person})
		must.Do(t, err)
		defer c.Close()
		a.conn = c
		a.talk()
		list := string(a.do("list_jobs"))
		if strings.Contains(list, ids[0]) == strings.Contains(list, ids[1]) {
			t.Errorf("the jobs of one tenant: %s", list)
		}
		seen += list
	}
	if !strings.Contains(seen, ids[0]) || !strings.Contains(seen, ids[1]) {
		t.Errorf("the jobs of both: %s", seen)
	}
	// The socket of a tenant without a token is closed with its engine.
	one := must.Get(a.join(client.Older, file.tokens["one"]).Call(a.ctx(), "cancel_job", map[string]any{"job_id": ids[0], "force": true}))(t)
	if status := one.Header("Status"); !strings.HasPrefix(status, "cancelled") {
		t.Errorf("the job of one: %s", one)
	}
	file.write(t, file.lines(t)[1])
	must.Do(t, a.cmd.Process.Signal(syscall.SIGHUP))
	polltest.Check(t, func() error {
		if names := must.Get(d.Names())(t); len(names) != 1 {
			return fmt.Errorf("after the tenant has left the names are %v", names)
		}
		return nil
	})
	must.Do(t, a.cmd.Process.Signal(syscall.SIGTERM))
	a.gone()
}

// The ends of jobs are said even if their engine has ended since. After a goodbye there is nothing
// to say.
func TestJobsOfAnEndedEngineAreSaid(t *testing.T) {
	t.Parallel()
	runtime, state, workspace := runtimeDir(t), newState(t), t.TempDir()
	env := []string{"REPL_WORKDIR=" + workspace, "REPL_STATE_DIR=" + state, "REPL_LINGER=1"}
	a := startEngineIn(t, runtime, env...)
	quick := a.do("execute_command_async", "command", "read line || true", "wait_seconds", 0).Header("Job ID")
	stays := a.do("execute_command_async", "command", "read line", "wait_seconds", 0).Header("Job ID")
	a.run("x = 1; y = 2")
	a.lose()
	a.waits()
	person := a.dial(sockets.Hello{Role: sockets.Person})
	person.do("send_command_input", "job_id", quick, "text", "x\n")
	person.end(quick)
	a.gone()

	other := startEngineIn(t, runtime, "REPL_STATE_DIR="+state)
	if said := other.run("1").Header("Also"); said != "" {
		t.Errorf("in another workspace: %q", said)
	}
	b := startEngineIn(t, runtime, env...)
	said := b.run("1").Header("Also")
	for _, want := range []string{"job " + quick + " completed", "job " + stays + " cancelled (", "by client gone)", "session default ended with 2 variables"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	if said := b.run("1").Header("Also"); said != "" {
		t.Errorf("said again: %q", said)
	}
	b.do("execute_command_async", "command", "read line", "wait_seconds", 0)
	b.leave(sockets.Goodbye)
	b.gone()
	c := startEngineIn(t, runtime, env...)
	if said := c.run("1").Header("Also"); said != "" {
		t.Errorf("after a goodbye: %q", said)
	}
}

// A call that can't be cut short does not keep the next client out.
func TestCallsOfALostClientKeepNoClientOut(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	slow := filepath.Join(a.dir, "python")
	a.write("python", "#!/bin/sh\necho begun > "+a.dir+"/begun\nsleep 1000\n") // an interpreter that does not answer
	must.Do(t, os.Chmod(slow, 0o700))
	a.run("x = 1")
	must.Get(a.Start("create_session", map[string]any{"name": "slow", "python": slow}))(t)
	polltest.Until(t, "the interpreter", func() bool { _, err := os.Stat(filepath.Join(a.dir, "begun")); return err == nil })
	a.lose()
	began := time.Now()
	b := a.takeOver(sockets.Hello{Env: a.cmd.Env})
	b.run("print(x)")
	t.Logf("it took %v", time.Since(began))
}

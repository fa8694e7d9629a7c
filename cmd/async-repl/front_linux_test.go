package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// prepareFront returns a server with a front that has not been started. Its engines have a
// directory of sockets of their own, and wait for long if their client is lost.
func prepareFront(t testing.TB, env ...string) *started {
	t.Helper()
	overStdio(t, "there is no front")
	notAgain(t)
	return prepare(t, append([]string{"REPL_PYTHON=" + realPython(), "REPL_KEEPER=on", "REPL_LINGER=1h", "XDG_RUNTIME_DIR=" + t.TempDir()}, env...)...)
}

// startFront starts a server with a front and opens a session.
func startFront(t testing.TB, env ...string) *started {
	t.Helper()
	s := prepareFront(t, env...)
	s.open()
	return s
}

// next starts another server like s, as the next client does.
func (s *started) next() *started {
	s.t.Helper()
	n := s.another()
	n.open()
	return n
}

// another returns another server like s, which has not been started.
func (s *started) another() *started {
	n := *s
	n.cmd = exec.Command(s.cmd.Path, s.cmd.Args[1:]...)
	n.cmd.Dir, n.cmd.Env, n.log, n.cmd.WaitDelay = s.cmd.Dir, slices.Clone(s.cmd.Env), new(lockedBuffer), s.cmd.WaitDelay
	n.cmd.Stderr = n.log
	return &n
}

// lose kills the client: a process that has our ends of the streams dies, and the kernel closes one
// after the other, the front's input first.
func (s *started) lose() {
	s.t.Helper()
	in, out := s.stdin.(*os.File), s.out
	var pid int
	var err error
	must.Do(s.t, descriptor.Use(in, func(in int) error {
		return descriptor.Use(out, func(out int) error {
			pid, err = syscall.ForkExec(sleep(), []string{"sleep", "1000"}, &syscall.ProcAttr{Files: []uintptr{uintptr(in), uintptr(out)}})
			return err
		})
	}))
	in.Close()
	out.Close()
	syscall.Kill(pid, syscall.SIGKILL)
	must.Get(syscall.Wait4(pid, nil, 0, nil))(s.t)
	s.exit()
}

// sleep returns the path of sleep(1).
var sleep = sync.OnceValue(func() string {
	path, err := exec.LookPath("sleep")
	if err != nil {
		panic(err)
	}
	return path
})

// kill kills a process of the server and waits until it has ended.
func kill(t testing.TB, pid int) {
	t.Helper()
	syscall.Kill(pid, syscall.SIGKILL)
	polltest.Until(t, "the end of a killed process", func() bool { return !alive(pid) })
}

// A client that gives its servers another environment finds an engine, too.
func TestEngineOfAnotherRuntimeDirectory(t *testing.T) {
	t.Parallel()
	s := prepareFront(t, "TMPDIR="+t.TempDir(), "XDG_RUNTIME_DIR=") // Codex passes on so little
	s.open()
	s.run("x = 1")
	s.lose()
	s.cmd.Env = append(s.cmd.Env, "XDG_RUNTIME_DIR="+t.TempDir())
	n := s.next()
	if r := n.run("x"); !strings.Contains(r.Header("Resumed"), "session default") {
		t.Errorf("the next client reads %s", r)
	}
	n.do("execute_command_async", "command", "read line", "keep", true, "wait_seconds", 0)
	n.stop()
	n.exit()
	n.cmd.Env = append(n.cmd.Env, "REPL_MAX_JOBS=7")
	began := time.Now()
	n.next().saysElsewhere(began, "1 job (async-repl ps)")
}

// If an engine that waits can't be taken over, the log says why.
func TestEngineThatIsNotTakenOver(t *testing.T) {
	t.Parallel()
	s := startFront(t)
	s.run("x = 1")
	s.lose()
	for i := range 10 { // a variable can have 128 KiB
		s.cmd.Env = append(s.cmd.Env, fmt.Sprintf("LARGE%d=%s", i, strings.Repeat("x", 120<<10)))
	}
	n := s.next()
	if r := n.do("list_sessions"); r.Header("Resumed") != "" {
		t.Errorf("the next client reads %s", r)
	}
	polltest.Until(t, "the reason in the log", func() bool {
		return strings.Contains(n.log.String(), "level=WARN msg=\"an engine was not taken over\"")
	})
	if !strings.Contains(n.log.String(), "error=\"the environment has ") {
		t.Errorf("the log: %s", n.log)
	}
}

// A server that is not used is one process, and a used one has an engine that leads a session of
// its own, works in the root directory and holds nothing of the client.
func TestUnusedServerIsOneProcess(t *testing.T) {
	t.Parallel()
	s := startFront(t)
	for _, method := range []string{"ping", "tools/list", "resources/templates/list"} {
		must.Get(s.Request(s.ctx(), method, nil))(t)
	}
	if kids := children(s.cmd.Process.Pid); len(kids) > 0 || s.engine() != 0 {
		t.Errorf("it has started %v", kids)
	}
	s.do("list_jobs")
	pid := s.engine()
	if kids := children(s.cmd.Process.Pid); !slices.Equal(kids, []int{pid}) {
		t.Fatalf("its children are %v, the engine is %d", kids, pid)
	}
	stat := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t))
	_, fields, _ := strings.Cut(stat, ") ")
	if session := strings.Fields(fields)[3]; session != fmt.Sprint(pid) {
		t.Errorf("its session is %s", session)
	}
	if cwd := must.Get(os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)))(t); cwd != "/" {
		t.Errorf("it works in %s", cwd)
	}
	held := make(map[string]bool)
	for _, of := range []int{s.cmd.Process.Pid, pid} {
		for fd := range 3 { // the front has those of the client
			if of == pid {
				fd = 2
			}
			held[must.Get(os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", of, fd)))(t)] = true
		}
	}
	if len(held) != 4 {
		t.Errorf("standard streams of the front, and the log of the engine: %v", held)
	}
	s.stdin.Close()
	if got := s.exit(); got != "exit status 0" {
		t.Error(got)
	}
	processtest.Gone(t, pid)
}

// An engine that is killed in a call takes the call's job along, and nothing else: the client keeps
// its server.
func TestEngineKilledInACall(t *testing.T) {
	t.Parallel()
	s := startFront(t)
	s.run("x = 1")
	job := s.do("execute_command_async", "command", "echo pid $$.; exec sleep 300", "wait_seconds", 0).Header("Job ID")
	_, after, _ := strings.Cut(string(s.prints(job, "pid ")), "pid ")
	var pid int
	must.Get(fmt.Sscanf(after, "%d.", &pid))(t)
	pid = s.seen(pid)
	first := s.engine()
	if got := s.killInACall(); !strings.HasPrefix(got, "The server died during this call (signal: killed), with ") {
		t.Errorf("the call is answered with %q", got)
	}
	processtest.Gone(t, pid)
	if r := s.run("'x' in globals()"); r.Section("RESULT") != "False\n" && r.Section("RESULT") != "False" {
		t.Errorf("the next call: %s", r)
	}
	if second := s.engine(); second == first || second == 0 {
		t.Errorf("the engines are %d and %d", first, second)
	}
	polltest.Until(t, "the line of the log", func() bool {
		return strings.Contains(s.log.String(), `msg="the engine died" how="signal: killed" calls=1`)
	})

	s.run("x = 1")
	s.lose()
	n := s.next() // it is not the parent of the engine that it takes over
	n.do("list_jobs")
	if got := n.killInACall(); !strings.HasPrefix(got, "The server died during this call, with its running jobs and its variables. The next call starts it again;") {
		t.Errorf("the call is answered with %q", got)
	}
	polltest.Until(t, "the line of the log", func() bool {
		return strings.Contains(n.log.String(), `msg="the engine died" how=unknown calls=1`)
	})
}

// killInACall kills the engine in a call, and returns the error that answers the call.
func (s *started) killInACall() string {
	s.t.Helper()
	ran := filepath.Join(s.dir, "ran")
	p := must.Get(s.Start("execute_command_async", map[string]any{"command": "echo > ran; sleep 300", "wait_seconds": 100}))(s.t)
	polltest.Until(s.t, "the job", func() bool { _, err := os.Stat(ran); return err == nil })
	kill(s.t, s.engine())
	_, err := p.Reply(s.ctx())
	var refusal *client.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Text, "list_jobs") {
		s.t.Errorf("the call is answered with %v", err)
		return ""
	}
	must.Do(s.t, os.Remove(ran))
	return refusal.Text
}

// A client that is killed loses nothing: the next one finds its jobs and variables.
func TestClientKilled(t *testing.T) {
	for name, end := range map[string]func(s *started){
		"client":          (*started).lose,
		"front":           func(s *started) { s.cmd.Process.Kill(); s.exit() },
		"closed terminal": func(s *started) { s.cmd.Process.Signal(syscall.SIGHUP); s.lose() },
		"during a call": func(s *started) {
			s.Start("wait_for_jobs", map[string]any{"job_ids": []string{}, "wait_seconds": 100})
			s.lose()
		},
		"output not there": func(s *started) { s.out.Close(); io.WriteString(s.stdin, toListTools); s.exit() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFront(t)
			s.run("x = 41")
			job := s.do("execute_command_async", "command", "until [ -e go ]; do sleep 0.01; done; echo done", "wait_seconds", 0).Header("Job ID")
			pid := s.engine()
			end(s)
			n := s.next()
			if r := n.run("x + 1"); !strings.HasPrefix(r.Section("RESULT"), "42") || !strings.Contains(r.Header("Resumed"), job) {
				t.Errorf("the variable is lost, or the job is not named: %s", r)
			}
			n.write("go", "")
			if err := n.end(job).Expect("completed", "done"); err != nil {
				t.Error(err)
			}
			if n.engine() != pid {
				t.Errorf("another engine: %d, not %d", n.engine(), pid)
			}
			n.stdin.Close()
			n.exit()
			processtest.Gone(t, pid)
		})
	}
}

// Branch, checkpoint, shell session, question and screen survive take-overs.
func TestStateOutlivesTakeOvers(t *testing.T) {
	t.Parallel()
	s := startFront(t)
	s.run("x = [1, 2]", "checkpoint", true)
	s.do("create_session", "name", "branch", "from_session", "default")
	s.run("x.append(3)", "session", "branch")
	s.run("x = None")
	s.do("execute_command_async", "command", "cd / && answer=42", "shell_session", "sh", "wait_seconds", 60)
	asks := s.do("execute_python", "code", "name = input('Name? ')", "session", "asks", "wait_seconds", 60).Header("Job ID")
	const draws = `printf '\033[2J\033[3;5HHello'; read line; printf '\033[4;5H%s' "$line"; read line`
	screen := s.do("execute_command_async", "command", draws, "wait_seconds", 0).Header("Job ID")
	polltest.Until(t, "the job to wait", func() bool {
		return s.do("check_job_status", "job_id", screen, "wait_seconds", 1).Header("Waiting") != ""
	})
	shows := func() string { return s.do("check_job_status", "job_id", screen, "view", "screen").Section("SCREEN") }
	before, engine := shows(), s.engine()
	if !strings.Contains(before, "\n\n    Hello") {
		t.Fatalf("the screen is %q", before)
	}
	for _, end := range []func(){func() { s.cmd.Process.Kill(); s.exit() }, func() { s.lose() }} {
		end()
		s = s.next()
		if got := shows(); got != before {
			t.Errorf("the screen was %q and is %q", before, got)
		}
		if r := s.do("check_python_status", "job_id", asks); r.Header("Status") != "waiting_input" || !strings.Contains(string(r), "Name? ") {
			t.Errorf("the question: %s", r)
		}
		if got := s.run("x", "session", "branch").Section("RESULT"); !strings.HasPrefix(got, "[1, 2, 3]") {
			t.Errorf("the branch has %s", got)
		}
		if err := s.do("execute_command_async", "command", "echo $PWD $answer", "shell_session", "sh", "wait_seconds", 60).Expect("completed", "/ 42"); err != nil {
			t.Error(err)
		}
	}
	s.do("restart_python_worker", "checkpoint", "latest")
	if got := s.run("x").Section("RESULT"); !strings.HasPrefix(got, "[1, 2]") {
		t.Errorf("the checkpoint has %s", got)
	}
	s.do("send_python_input", "job_id", asks, "text", "Ada", "wait_seconds", 60)
	if got := s.run("name", "session", "asks").Section("RESULT"); !strings.HasPrefix(got, "'Ada'") {
		t.Errorf("the answer is %s", got)
	}
	s.do("send_command_input", "job_id", screen, "text", "World\n", "wait_seconds", 60)
	if got := shows(); !strings.Contains(got, "    HelloWorld\n    World") {
		t.Errorf("the screen is %q", got)
	}
	if got := s.engine(); got != engine {
		t.Errorf("the engine was %d and is %d", engine, got)
	}
}

// A goodbye ends everything, within the time that a client gives: by a signal, or by the end of
// input.
func TestGoodbyeEndsTheEngine(t *testing.T) {
	for name, end := range map[string]func(s *started, job int){
		"end of input": func(s *started, _ int) { s.stdin.Close() },
		"SIGINT":       func(s *started, _ int) { s.cmd.Process.Signal(syscall.SIGINT) },
		"both":         func(s *started, _ int) { s.cmd.Process.Signal(syscall.SIGTERM); s.stdin.Close() },
		"SIGTERM, group dies": func(s *started, job int) {
			s.cmd.Process.Signal(syscall.SIGTERM)
			processtest.Gone(s.t, job) // the engine has read the goodbye
			s.cmd.Process.Kill()
		}, // Codex ends its servers so
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFront(t)
			s.run("x = 41")
			id := s.do("execute_command_async", "command", `echo "pid $$."; exec sleep 300`, "wait_seconds", 0).Header("Job ID")
			job := s.seen(planted(t, s.prints(id, "pid ")))
			pid := s.engine()
			end(s, job)
			s.exit()
			processtest.Gone(t, pid)
			if names := s.sockets(); len(names) > 0 {
				t.Errorf("left are %v", names)
			}
		})
	}
}

// Calls that take longer than the end of input allows are answered with the current status.
func TestLongCallsAtTheEndOfInput(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the time that calls have")
	}
	t.Parallel()
	s := startFront(t)
	r := s.callInFlight("sleep 300")
	s.stdin.Close()
	if got := (<-r).Header("Status"); got != "running" {
		t.Errorf("status %q", got)
	}
	s.exit()
}

// sockets returns the names of the engines.
func (s *started) sockets() []string {
	s.t.Helper()
	entries, _ := os.ReadDir(filepath.Join(s.setting("XDG_RUNTIME_DIR"), "async-repl"))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A hangup decides nothing: clients that quit say more after it.
// The next client can come before the front of the last one has said goodbye.
func TestClientFollowsAGoodbyeAtOnce(t *testing.T) {
	t.Parallel()
	s := startFront(t)
	job := s.do("execute_command_async", "command", "until [ -e go ]; do sleep 0.01; done; echo done", "keep", true, "wait_seconds", 0).Header("Job ID")
	for range 10 {
		s.stdin.Close()
		n := s.next()
		if r := n.do("list_jobs"); r.Header("Resumed") != "job "+job+" running" {
			t.Fatalf("the next client reads %s", r)
		}
		s.exit()
		s = n
	}
	s.write("go", "")
	if err := s.end(job).Expect("completed", "done"); err != nil {
		t.Error(err)
	}
}

// An engine that hangs does not hold its front when the client has left.
func TestFrontOfAnEngineThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for 5 s")
	}
	t.Parallel()
	s := startFront(t)
	s.run("x = 1")
	engine := s.engine()
	must.Do(t, syscall.Kill(engine, syscall.SIGSTOP))
	s.stdin.Close()
	s.exit()
	must.Do(t, syscall.Kill(engine, syscall.SIGCONT))
	processtest.Gone(t, engine)
}

func TestHangupDecidesNothing(t *testing.T) {
	t.Parallel()
	s := startFront(t)
	s.run("x = 41")
	for range 3 {
		s.cmd.Process.Signal(syscall.SIGHUP)
		if r := s.run("x + 1"); !strings.HasPrefix(r.Section("RESULT"), "42") {
			t.Error(r)
		}
	}
}

// An engine that dies at each start is not started for ever, and one that can't start says why.
func TestEngineThatDiesAtOnce(t *testing.T) {
	t.Parallel()
	s := startFront(t)
	for range 2 {
		s.killInACall()
	}
	if got := s.killInACall(); !strings.Contains(got, "It has died 3 times within 10s: calls are refused until ") {
		t.Error(got)
	}
	if got := s.refused("list_jobs"); !strings.Contains(got, "died 3 times within 10s (signal: killed)") {
		t.Error(got)
	}
	must.Get(s.Request(s.ctx(), "tools/list", nil))(t)
}

// Twenty fronts that come at once, over the names of dead engines and over engines that were left,
// are all served. No two share an engine, and nothing is left.
func TestTwentyFronts(t *testing.T) {
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	for range jobstest.Rounds(t, rounds) {
		s := prepareFront(t)
		var dead []*started
		for range 3 { // two names of dead engines, and an engine that waits
			d := s.next()
			d.do("execute_command_async", "command", "true", "wait_seconds", 60)
			d.run("x = 1")
			dead = append(dead, d)
		}
		for i, d := range dead {
			pid := pidOfEngine(d)
			if i < 2 {
				kill(t, pid)
			}
			d.lose()
		}
		var mu sync.Mutex
		engines := make(map[int]bool)
		var group sync.WaitGroup
		var all []*started
		for range 20 {
			group.Go(func() {
				n := s.next()
				pid := pidOfEngine(n)
				mu.Lock()
				defer mu.Unlock()
				if engines[pid] {
					t.Errorf("engine %d has two clients", pid)
				}
				engines[pid] = true
				all = append(all, n)
			})
		}
		group.Wait()
		for _, n := range all {
			n.do("execute_command_async", "command", "true", "wait_seconds", 60)
			n.stdin.Close()
		}
		for _, n := range all {
			n.exit()
		}
		for pid := range engines {
			processtest.Gone(t, pid)
		}
		if names := s.sockets(); len(names) > 0 {
			t.Errorf("left are %v", names)
		}
	}
}

// pidOfEngine returns the engine of a server, of which several are in the workspace.
func pidOfEngine(s *started) int {
	s.t.Helper()
	return pidIn(s.t, s.do("server_status"))
}

// pidIn returns the engine of a status.
func pidIn(t testing.TB, status client.Reply) (pid int) {
	t.Helper()
	_, after, _ := strings.Cut(status.Header("Version"), "pid ")
	must.Get(fmt.Sscanf(after, "%d", &pid))(t)
	return pid
}

// Fronts come while engines end: each is served, by an engine that is left or by a new one.
func TestFrontsWhileEnginesEnd(t *testing.T) {
	fronts := 60
	if testing.Short() {
		fronts = 12
	}
	s := prepareFront(t)
	_, seed := jobstest.Storm(t, 1)
	var group sync.WaitGroup
	for worker := range 4 {
		r := rand.New(rand.NewPCG(seed, uint64(worker)))
		group.Go(func() {
			for range jobstest.Rounds(t, fronts) / 4 {
				n := s.next()
				r1 := n.do("execute_command_async", "command", "echo hi", "wait_seconds", 60)
				if err := r1.Expect("completed", "hi"); err != nil {
					t.Error(err)
				}
				switch r.IntN(4) {
				case 0:
					n.stdin.Close()
				case 1:
					n.cmd.Process.Signal(syscall.SIGTERM)
				case 2:
					n.cmd.Process.Kill()
				case 3:
					n.stdin.Close()
					n.out.Close()
				}
				if r.IntN(2) == 0 {
					n.exit()
				}
			}
		})
	}
	group.Wait()
	polltest.Until(t, "the end of the engines", func() bool { return s.engine() == 0 && len(s.sockets()) == 0 })
}

// The engine's log reaches the standard error of the front. A log that is not read stops neither.
func TestLogOfAnEngine(t *testing.T) {
	t.Parallel()
	s := prepareFront(t, "REPL_LOG_LEVEL=debug")
	s.open()
	s.run("x = 1")
	polltest.Until(t, "a line of the engine", func() bool { return strings.Contains(s.log.String(), "environment found") })
	s.lose()
	n := s.next()
	n.do("list_jobs")
	for _, guard := range (&storm{started: n}).guards() {
		kill(t, guard)
	}
	n.do("execute_command_async", "command", "true", "wait_seconds", 60)
	polltest.Until(t, "a line of an engine that was taken over", func() bool { return strings.Contains(n.log.String(), "guard exited") })

	u := prepareFront(t, "REPL_LOG_LEVEL=debug")
	r, w := must.Get2(os.Pipe())(t)
	defer r.Close()
	u.cmd.Stderr = w
	u.open()
	w.Close()
	for range 300 { // more lines than the pipe takes
		u.do("execute_command_async", "command", "true", "wait_seconds", 60)
	}
}

// The reader of the output is gone when its end is closed, also if that happens a moment after the
// end of the input was seen. A reader that is there is not waited for long.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	r, w := must.Get2(os.Pipe())(t)
	regular := must.Get(os.Create(filepath.Join(t.TempDir(), "output")))(t)
	for name, ends := range map[string]struct{ reader, out *os.File }{
		"pipe":   {r, w},
		"socket": {os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "out")},
		"file":   {nil, regular},
	} {
		t.Run(name, func(t *testing.T) {
			defer ends.out.Close()
			if readerGone(ends.out) {
				t.Error("the reader is there")
			}
			if ends.reader == nil {
				return
			}
			closed := make(chan time.Duration, 1)
			began := time.Now()
			time.AfterFunc(killTime/10, func() { ends.reader.Close(); closed <- time.Since(began) })
			gone := readerGone(ends.out)
			if after := <-closed; !gone && after < killTime/2 { // on a busy machine it can be closed too late
				t.Errorf("the reader has been gone after %v", after)
			}
			if !readerGone(ends.out) {
				t.Error("the reader is gone")
			}
		})
	}
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/client/keeper"
	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/demo"
	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/release/version"
	"asyncrepl/internal/release/wheel"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/polltest"
)

// TestMain makes the test binary play the program if no argument asks for tests: server and guard
// are processes of their own in these tests, as they are for a client. Only the arguments decide: a
// process that was started as a guard must never run the tests, which start guards.
//
// There are hundreds of these processes, and each initializes every package that the tests import:
// go-cmp, which compiles patterns then, took a fifth of the time of a start.
func TestMain(m *testing.M) {
	testing := slices.ContainsFunc(os.Args[1:], func(arg string) bool { return strings.HasPrefix(arg, "-test.") })
	switch {
	case testing:
		os.Exit(runTests(m))
	case len(os.Args) > 1 && os.Args[1] == cutCommand:
		os.Exit(playCarrier(os.Args[2:]))
	case os.Getenv(playFloor) != "":
		os.Exit(serveFloor())
	case os.Getenv(playCopy) != "":
		os.Exit(serveCopy())
	case os.Getenv(endsWithInput) != "" && slices.Contains(os.Args, "-listen"):
		go func() { // ends with the input
			io.Copy(io.Discard, os.Stdin)
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}()
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// runTests runs the tests. Their servers listen for commands in a directory of their own.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "runtime")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_RUNTIME_DIR", dir)
	return m.Run()
}

// patience bounds every wait: a test that runs into it has failed.
const patience = polltest.Patience

// longest bounds what a test has a program do, such as a job that installs packages. It is less than the time that
// go test has for all tests, which would end them without a word of what hangs.
const longest = 4 * patience

// bounded returns a command that is ended after longest, by SIGQUIT, so that it says what it waits for. A process that
// keeps its output open when it has ended is an error.
func bounded(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = patience
	return cmd
}

// A started is the program, started as by a client, with that client.
type started struct {
	*client.Client
	t        testing.TB
	cmd      *exec.Cmd
	dir      string
	stdin    io.WriteCloser
	out      *os.File
	log      *lockedBuffer
	apart    bool // its pids differ from those that the test sees, which can't find them out
	confined bool // it runs in a sandbox
}

// transport is how clients reach the servers of the tests. The promises of replies, jobs and
// processes hold over each of them. A test of the stream itself calls overStdio. Over stdio a server is what a
// client gets unless a setting says otherwise: on Linux a front and its engine.
var transport = flag.String("transport", "stdio", "how clients reach the tests' servers: stdio, one-process (over stdio), sandbox (over stdio), http-older, http-newer, sandbox-http-older, sandbox-http-newer, place-exec, place-ssh, place-slurm or place-kubernetes (over stdio)")

// httpEra returns the version of the protocol that clients speak over HTTP, or "" if the transport is another.
func httpEra() string {
	return map[string]string{"http-older": client.Older, "http-newer": client.Newer}[strings.TrimPrefix(*transport, "sandbox-")]
}

// inSandbox reports whether the servers of the tests start in a sandbox.
func inSandbox() bool { return strings.HasPrefix(*transport, "sandbox") }

// endsWithInput has a server over HTTP end with its standard input, which a real one does not read.
// It then never outlives the test that started it.
const endsWithInput = "ASYNC_REPL_TEST_ENDS_WITH_INPUT"

// overStdio skips a test that needs what only standard input and output have.
func overStdio(t testing.TB, why string) {
	t.Helper()
	if httpEra() != "" {
		t.Skip("over HTTP: ", why)
	}
}

// notAgain skips a test that decides itself whether its servers have a front, where the others have none.
func notAgain(t testing.TB) {
	t.Helper()
	if *transport == "one-process" || carrier() != "" {
		t.Skip("the same servers as over stdio")
	}
}

// startServer starts a server in a workspace of its own and opens a session. Python is used as it
// is, which takes no time; a test of environments sets ownEnvironment.
func startServer(t testing.TB, env ...string) *started {
	t.Helper()
	s := prepare(t, append([]string{"REPL_PYTHON=" + realPython()}, env...)...)
	s.open()
	return s
}

// ownEnvironment has a server make the environment of its workspace.
const ownEnvironment = "REPL_PYTHON="

// startProcess starts a server without a client: the test itself writes and reads.
func startProcess(t testing.TB, env ...string) *started {
	t.Helper()
	overStdio(t, "the test writes and reads the stream itself")
	here(t, "the test writes and reads the stream itself")
	s := prepare(t, env...)
	s.begin()
	return s
}

// prepare returns a server that has not been started.
func prepare(t testing.TB, env ...string) *started {
	t.Helper()
	if carrier() != "" {
		notAtPlace(t)
	}
	s := &started{t: t, dir: t.TempDir(), log: new(lockedBuffer)}
	s.cmd = exec.Command(ownProgram(t))
	s.cmd.Dir = s.dir
	// A version manager takes longer to find an interpreter than the interpreter takes to start.
	path := filepath.Dir(realPython()) + ":" + os.Getenv("PATH")
	s.cmd.Env = append(withoutSettings(os.Environ()), "PATH="+path, "REPL_STATE_DIR="+newState(t))
	s.cmd.Env = append(s.cmd.Env, "REPL_LINGER=0") // an engine ends with its client, as a server of one process does
	if *transport == "one-process" {
		s.cmd.Env = append(s.cmd.Env, "REPL_KEEPER=off")
	}
	if inSandbox() {
		s.confine()
	}
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stderr = s.log
	s.cmd.WaitDelay = 5 * time.Second
	return s
}

// newState returns the path of a state directory, which is not there yet. Those of servers in a
// sandbox can't be in t.TempDir, which such servers write.
func newState(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "state")
}

// programsOfTests names a directory in /tmp with programs that jobs of the tests run.
const programsOfTests = "ASYNC_REPL_TEST_PROGRAMS"

// confine has the server start in a sandbox that writes all that the test has made.
func (s *started) confine() {
	s.t.Helper()
	s.cmd.Env = append(s.cmd.Env, "REPL_SANDBOX=workspace", "REPL_SANDBOX_WRITE="+filepath.Dir(s.dir))
	if path := os.Getenv(programsOfTests); path != "" {
		s.cmd.Env = append(s.cmd.Env, "REPL_SANDBOX_READ="+path)
	}
	s.confined = true
}

// notApart skips a test that needs what a sandbox hides.
func notApart(t testing.TB, why string) {
	t.Helper()
	if inSandbox() {
		t.Skip("in a sandbox: ", why)
	}
}

// ownProgram returns the path of the program that plays the server.
func ownProgram(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// toListTools is a request for tests that write without the client.
const toListTools = `{"jsonrpc":"2.0","id":1073741824,"method":"tools/list"}` + "\n"

// connect starts the server, with a client.
func (s *started) connect() {
	s.t.Helper()
	version := httpEra()
	if version == "" {
		s.start()
		s.Client = client.New(s.streams())
		return
	}
	s.cmd.Args = append(s.cmd.Args, "-listen", "127.0.0.1:0")
	s.start()
	s.Client = client.NewHTTP(client.HTTP{URL: s.url(), Version: version})
}

// streams returns the streams of a client.
func (s *started) streams() (io.Reader, io.Writer) {
	if carrier() == "" {
		return s.out, s.stdin
	}
	p := newToPlace(s.out, s.stdin)
	return p, p
}

// open starts the server, with a client, and opens a session.
func (s *started) open() {
	s.t.Helper()
	s.connect()
	if err := s.Initialize(s.ctx()); err != nil {
		s.t.Fatalf("%v\n%s", err, s.log)
	}
}

// stop ends the server as its transport does: by the end of its input, or over HTTP, where no
// client can end it, by SIGTERM.
func (s *started) stop() { s.stdin.Close() }

// begin starts the server without a client: the test itself reaches it, or expects that it ends.
// Over another transport such a test would do the same again.
func (s *started) begin() {
	s.t.Helper()
	overStdio(s.t, "the test does not use the transport of the others")
	here(s.t, "the test does not use the transport of the others")
	s.start()
}

// start starts the server.
func (s *started) start() {
	t := s.t
	t.Helper()
	if carrier() != "" {
		s.moveToPlace()
	}
	s.cmd.Env = append(s.cmd.Env, endsWithInput+"=1")
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out, s.cmd.Stdout = out, theirs
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(s.quitBeforeTheTimeout())
	t.Cleanup(func() {
		s.stdin.Close()
		if s.fronted() {
			s.cmd.Process.Signal(syscall.SIGTERM)
			late := time.AfterFunc(5*time.Second, func() { s.cmd.Process.Kill() })
			s.cmd.Wait()
			late.Stop()
			polltest.Until(t, "the end of the engines", func() bool {
				pid := s.engine()
				if pid != 0 { // its client was lost
					syscall.Kill(pid, syscall.SIGTERM)
				}
				return pid == 0
			})
		}
		s.cmd.Process.Kill() // the guard ends the rest; an error means that the server has exited
		s.cmd.Wait()
		out.Close()
		if carrier() != "" {
			polltest.Until(t, "the end of the engine at the place", func() bool {
				pids := s.placed()
				for _, pid := range pids { // its server was killed
					syscall.Kill(pid, syscall.SIGTERM)
				}
				return len(pids) == 0
			})
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log)
		}
	})
}

// quitBeforeTheTimeout ends a server that a test still waits for when the tests must nearly end. So the
// test fails by itself, and the server's log says what it waits for. The function that it returns stops
// that.
func (s *started) quitBeforeTheTimeout() (stop func()) {
	end := time.Now().Add(24 * time.Hour) // go test -timeout=0
	if t, ok := s.t.(*testing.T); ok {
		if deadline, ok := t.Deadline(); ok {
			end = deadline
		}
	}
	late := time.AfterFunc(time.Until(end)-30*time.Second, func() {
		s.t.Errorf("%s still runs", s.t.Name())
		for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGCONT} { // it can be stopped
			if pid := s.engine(); pid != 0 {
				syscall.Kill(pid, sig)
			}
			s.cmd.Process.Signal(sig)
		}
	})
	return func() { late.Stop() }
}

// engine returns the process that runs the jobs: the server or, behind a front, the engine that it has started
// last. It returns 0 if there is none.
func (s *started) engine() int {
	if !s.fronted() {
		return s.cmd.Process.Pid
	}
	command := s.commandOfEngines()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		// A process that has exited has no command line. Several tests can have one workspace, such as /, but
		// no state directory in common.
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), "\x00"+command+"\x00") || !strings.HasSuffix(string(line), "\x00-workdir\x00"+s.workspace()+"\x00") {
			continue
		}
		env, err := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if err == nil && strings.Contains("\x00"+string(env), "\x00REPL_STATE_DIR="+s.setting("REPL_STATE_DIR")+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	return 0
}

// seen returns the pid that the test sees of a process that a job has named. It differs in a
// sandbox and in pods.
func (s *started) seen(pid int) int {
	s.t.Helper()
	var inside []int
	switch {
	case carrier() == "kubernetes":
		inside = s.placed()
	case s.confined:
		inside = []int{s.inner()}
	default:
		return pid
	}
	spaces := make(map[string]bool)
	for _, pid := range inside {
		if space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil { // an error: it has ended
			spaces[space] = true
		}
	}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range files {
		status, _ := os.ReadFile(path) // none once it has ended
		_, pids, _ := strings.Cut(string(status), "\nNSpid:")
		pids, _, _ = strings.Cut(pids, "\n")
		all := strings.Fields(pids)
		if len(all) == 0 || all[len(all)-1] != strconv.Itoa(pid) {
			continue
		}
		if own, _ := os.Readlink(filepath.Join(filepath.Dir(path), "ns/pid")); spaces[own] {
			n, _ := strconv.Atoi(all[0])
			return n
		}
	}
	s.t.Fatalf("there is no process %d in the sandbox or in a pod", pid)
	return 0
}

// fronted reports whether the server is a front.
func (s *started) fronted() bool {
	return keeper.Available() == nil && s.setting("REPL_KEEPER") != "off" &&
		!slices.Contains(s.cmd.Args, "-listen") && !slices.Contains(s.cmd.Args, s.commandOfEngines())
}

// commandOfEngines returns the subcommand by which a front starts an engine.
func (s *started) commandOfEngines() string {
	if s.confined {
		return outerCommand
	}
	return engineCommand
}

// inner returns the process that starts the jobs: that of engine or, in a sandbox, its descendant.
// It returns 0 if there is none.
func (s *started) inner() int {
	if carrier() != "" {
		if pids := s.placed(); len(pids) > 0 {
			return pids[0]
		}
		return 0
	}
	pid := s.engine()
	if !s.confined {
		return pid
	}
	chain := chainOf(pid)
	if slices.Contains(s.cmd.Args, "-listen") { // each tenant has a sandbox
		if all := s.inners(); len(all) == 1 {
			return all[0]
		}
		chain = s.tenantChain(s.workspace())
	}
	if len(chain) == 4 {
		return chain[3]
	}
	return 0
}

// inners returns the processes that serve tenants.
func (s *started) inners() (pids []int) {
	for _, pid := range family(s.cmd.Process.Pid) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // none once it has ended
		if strings.HasSuffix(string(line), "\x00"+innerCommand+"\x00tenant\x00") && !strings.Contains(string(line), "\x00--seccomp\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// tenantChain returns the processes of a tenant's sandbox, as chainOf does, or none.
func (s *started) tenantChain(workspace string) []int {
	server := s.cmd.Process.Pid
	for _, pid := range children(server) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // none once it has ended
		if bytes.Contains(line, []byte("\x00"+workspace+"\x00")) {
			return chainOf(server, pid)
		}
	}
	return nil
}

// chainOf returns the processes of a sandbox: the outer one, which is given, bubblewrap, the first one inside, which is
// bubblewrap, too, and the engine. It ends with the last one that is there. If the outer one has several sandboxes,
// bubblewrap is given, too.
func chainOf(given ...int) []int {
	chain := given
	for len(chain) < 4 {
		next := 0
		for _, pid := range children(chain[len(chain)-1]) { // the first process inside has orphans, too
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // none once it has ended
			if bytes.Contains(line, []byte("\x00"+innerCommand+"\x00")) && bytes.Contains(line, []byte("\x00--seccomp\x00")) == (len(chain) < 3) {
				next = pid
			}
		}
		if next == 0 {
			break
		}
		chain = append(chain, next)
	}
	return chain
}

// workspace returns the workspace of the server.
func (s *started) workspace() string { return cmp.Or(s.setting("REPL_WORKDIR"), s.dir) }

// records returns the state directory that the engine uses.
func (s *started) records() string {
	state := s.setting("REPL_STATE_DIR")
	if !s.confined {
		return state
	}
	return filepath.Join(state, "sandbox", fmt.Sprintf("%.8x", sha256.Sum256([]byte(sockets.Resolve(s.workspace())))), "state")
}

// setting returns the value of a variable that the server is started with.
func (s *started) setting(name string) string {
	for _, v := range slices.Backward(s.cmd.Env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// join returns a client of a server over HTTP. The client speaks one version of the protocol, and
// has opened a session.
func (s *started) join(version, token string) *client.Client {
	s.t.Helper()
	c := client.NewHTTP(client.HTTP{URL: s.url(), Version: version, Token: token})
	if err := c.Initialize(s.ctx()); err != nil {
		s.t.Fatalf("%v\n%s", err, s.log)
	}
	return c
}

// write writes a file of the workspace.
func (s *started) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// saveWheel writes the wheel of a module of one line, and returns its path.
func saveWheel(t testing.TB, dir, module, version, line string) string {
	t.Helper()
	path, err := wheel.OfModule(module, version, line+"\n").Save(dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *started) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

// do calls a tool that must succeed. Arguments are pairs of name and value.
func (s *started) do(tool string, args ...any) client.Reply {
	s.t.Helper()
	r, err := s.Call(s.ctx(), tool, pairs(args))
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// refused calls a tool that must answer with an error, and returns its text.
func (s *started) refused(tool string, args ...any) string {
	s.t.Helper()
	r, err := s.Call(s.ctx(), tool, pairs(args))
	if !errors.Is(err, client.ErrTool) {
		s.t.Fatalf("%s was not refused: %v, %s", tool, err, r)
	}
	return err.Error()
}

func pairs(args []any) map[string]any {
	m := make(map[string]any)
	for i := 0; i < len(args); i += 2 {
		m[args[i].(string)] = args[i+1]
	}
	return m
}

// end waits for the end of a job and returns its last reply.
func (s *started) end(id string) client.Reply {
	s.t.Helper()
	for deadline := time.Now().Add(longest); ; {
		r := s.do("check_job_status", "job_id", id, "wait_seconds", 50)
		if status := r.Header("Status"); !strings.HasPrefix(status, "running") && !strings.HasPrefix(status, "queued") {
			return r
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("job %s does not end:\n%s", id, r)
		}
	}
}

// prints waits until the output of a job holds text.
func (s *started) prints(id, text string) client.Reply {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		r := s.do("check_job_status", "job_id", id, "wait_seconds", 0.02)
		_, sections, _ := strings.Cut(string(r), "\n\n")        // the head can name a pid
		shown, _, _ := strings.Cut(sections, "--- STACK ---\n") // where the call that prints it stands
		if strings.Contains(shown, text) {
			return r
		}
	}
	s.t.Fatalf("job %s never printed %q", id, text)
	return ""
}

// exit waits for the server's exit and returns its status.
func (s *started) exit() string {
	s.t.Helper()
	done := make(chan struct{})
	go func() { // joined below; ends with the server
		defer close(done)
		s.cmd.Wait()
	}()
	select {
	case <-done:
		return s.cmd.ProcessState.String()
	case <-time.After(patience):
		s.cmd.Process.Signal(syscall.SIGQUIT)                                  // its log says what it waits for
		defer time.AfterFunc(patience, func() { s.cmd.Process.Kill() }).Stop() // a stopped process does not take it
		<-done                                                                 // or the cleanup would wait for it, too
		s.t.Fatal("the server does not end")
		return ""
	}
}

// A lockedBuffer is a log that several goroutines write and read.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestDemo runs the demo of the program that DEMO_PROGRAM names, or else of this one.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a package, and has a job of five seconds")
	}
	t.Parallel()
	var out, errs bytes.Buffer
	history := filepath.Join(t.TempDir(), "less") // where less would leave one
	cmd := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("DEMO_PROGRAM"), ownProgram(t)), "demo")
	cmd.Env = append(os.Environ(), "LESSHISTFILE="+history)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out.String(), errs.String())
	}
	if _, err := os.Stat(history); !os.IsNotExist(err) {
		t.Errorf("the demo leaves a history of less: %v", err)
	}
	passed := strings.Count(out.String(), "\n   ✓ passed")
	if want := fmt.Sprintf("All %d steps passed.", passed); passed < 34 || !strings.Contains(out.String(), want) {
		t.Errorf("the transcript does not say %q", want)
	}
	if pystack.Available() == nil && !regexp.MustCompile(`(?m)^     At: line \d in search$`).MatchString(out.String()) {
		t.Error("the demo did not look into its loop")
	}
	if runtime.GOOS == "linux" && os.Getenv("REPL_KEEPER") != "off" && !strings.Contains(out.String(), "The server died during this call") {
		t.Errorf("the demo left out how engines outlive their clients:\n%s", out.String())
	}
}

// The replies that docs/a-day-with-it.md shows are those of this program.
func TestDay(t *testing.T) {
	if testing.Short() {
		t.Skip("has jobs of seconds")
	}
	t.Parallel()
	script, err := os.ReadFile(filepath.Join("..", "..", "internal", "demo", "day.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := (demo.Program{Path: ownProgram(t), Env: withoutSettings(os.Environ())}).Run(t.Context(), string(script), &out, &errs); err != nil {
		t.Errorf("%v\n%s\n%s", err, out.String(), errs.String())
	}
}

// A step whose reply is not the expected one fails the demo, which still plays the others.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	const script = `
# wrong
> execute_command_async
  command: echo one
< Status: completed

  --- STDOUT ---
  two

# right
> execute_command_async
  command: echo two
< Status: completed

  --- STDOUT ---
  two
`
	var out bytes.Buffer
	err := demo.Program{Path: ownProgram(t), Env: withoutSettings(os.Environ())}.Run(t.Context(), script, &out, io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), `step 1 (wrong): the reply does not have "two"`) || strings.Contains(err.Error(), "step 2") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "✗") || !strings.Contains(out.String(), "── 2. right\n") || strings.Contains(out.String(), "steps passed") {
		t.Error(out.String())
	}
}

func TestSubcommands(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"version":   {[]string{"version"}, 0, "async-repl " + version.Release, ""},
		"--version": {[]string{"--version"}, 0, "async-repl " + version.Release, ""},
		"help":      {[]string{"help"}, 0, "REPL_WORKDIR", ""},
		"-h":        {[]string{"-h"}, 0, "REPL_WORKDIR", ""},
		"serve -h":  {[]string{"serve", "-h"}, 0, "async-repl serve [flags]", ""},
		"unknown":   {[]string{"server"}, 2, "", `unknown command "server": did you mean serve? see async-repl help`},
		"too many":  {[]string{"demo", "again"}, 2, "", "demo takes no arguments: see async-repl help"},
		"token":     {[]string{"token"}, 2, "", "token takes the name of a tenant: async-repl token TENANT >>FILE"},
		"pip":       {[]string{"pip"}, 2, "", "pip is for jobs: see async-repl help"},
		"flag":      {[]string{"-no-such-flag"}, 2, "", "async-repl: flag provided but not defined: -no-such-flag: see async-repl help\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), test.args, nil, nopCloser{&out}, &errs)
			if code != test.code || !strings.Contains(out.String(), test.stdout) || !strings.Contains(errs.String(), test.stderr) {
				t.Errorf("exit %d, stdout %q, stderr %q", code, out.String(), errs.String())
			}
			if strings.Count(errs.String(), "\n") > 1 {
				t.Errorf("an error of more than one line: %q", errs.String())
			}
		})
	}
}

// To a person who starts the server by hand it explains itself, and it ends with ^D. To a client it
// says nothing.
func TestStartedAtATerminal(t *testing.T) {
	pty, err := tty.Open(24, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer pty.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, ownProgram(t))
	cmd.Dir = t.TempDir()
	cmd.Env = withoutSettings(os.Environ())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pty.Slave(), &out, &errs
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := pty.Send(ctx, []byte{4}); err != nil { // ^D, which waits in the terminal until it is read
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || out.Len() > 0 || !strings.HasPrefix(errs.String(), atTerminal) {
		t.Errorf("%v, stdout %q, stderr %q", err, out.String(), errs.String())
	}

	s := startServer(t)
	s.stop()
	s.cmd.Wait()
	if log := s.log.String(); strings.Contains(log, atTerminal) {
		t.Errorf("a client's server says %q", log)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

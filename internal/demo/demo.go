//go:build unix

// Package demo plays a session with the server, as a client would: it starts the program, calls the
// tools step by step, prints the calls and their replies, and checks every reply.
//
// Each step is a function of a row of the table in demo.go. Those about input, terminals and search
// are in terminal.go, those about installs in install.go, those about figures, stacks and branches
// in python.go, and those of many clients over HTTP in http.go.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"asyncrepl/internal/mcpclient"
)

// A Program is the server's, as the demo starts it.
type Program struct {
	Path string
	Env  []string // without settings, which would change the replies
}

// Run starts the server as a client would, in a new workspace, runs the steps over stdio and prints
// the calls and their replies. It returns nil only if every step passed.
func (p Program) Run(ctx context.Context, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp("", "async-repl-demo-")
	if err != nil {
		return fmt.Errorf("making a workspace: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return p.runIn(ctx, dir, stdout, &shared{w: stderr})
}

// A shared writer can be written to by several goroutines at once.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// runIn runs the steps with servers that it starts in dir.
func (p Program) runIn(ctx context.Context, dir string, stdout, stderr io.Writer) error {
	server := p.command(ctx, dir, filepath.Join(dir, "state"))
	server.Stderr = stderr
	server.WaitDelay = 5 * time.Second
	c, err := mcpclient.Launch(server)
	if err != nil {
		return err
	}
	many, err := p.serveTwo(ctx, dir, stderr)
	if err == nil {
		err = c.Initialize(ctx)
	}
	if err == nil {
		fmt.Fprintf(stdout, "async-repl demo: a server in a new workspace, over stdio; at the end another one, over HTTP\n")
		err = runSteps(&session{ctx: ctx, c: c.Client, many: many, dir: dir, out: stdout})
	}
	if many != nil {
		err = errors.Join(err, many.close())
	}
	return errors.Join(err, c.Close())
}

// command returns the command of a server with its workspace and its state directory.
func (p Program) command(ctx context.Context, workspace, state string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, p.Path, args...)
	c.Dir = workspace
	c.Env = append(slices.Clip(p.Env), "REPL_WORKDIR="+workspace, "REPL_STATE_DIR="+state,
		"LESSHISTFILE=-") // or less would leave its history in the home directory
	return c
}

// A step is one feature that the demo shows.
type step struct {
	title string
	run   func(s *session) error
}

// A session is the connection on which the steps run.
type session struct {
	ctx  context.Context
	c    *mcpclient.Client
	many *manyServer // for the steps over HTTP
	dir  string      // the workspace of the server over stdio
	out  io.Writer
}

// runSteps runs the steps in order. Its error names those that failed.
func runSteps(s *session) error {
	out := s.out
	var failed []string
	for i, step := range steps {
		fmt.Fprintf(out, "\n── %d. %s\n", i+1, step.title)
		start := time.Now()
		if err := step.run(s); err != nil {
			failed = append(failed, fmt.Sprintf("step %d (%s): %v", i+1, step.title, err))
			fmt.Fprintf(out, "   ✗ %v\n", err)
			continue
		}
		fmt.Fprintf(out, "   ✓ passed (%d ms)\n", time.Since(start).Milliseconds())
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "\n"))
	}
	fmt.Fprintf(out, "\nAll %d steps passed.\n", len(steps))
	return nil
}

// call calls a tool and prints the call and its reply.
func (s *session) call(tool string, args map[string]any) (mcpclient.Reply, error) {
	s.printCall(tool, args)
	r, err := s.c.Call(s.ctx, tool, args)
	if err != nil {
		return r, err
	}
	s.printReply(r)
	return r, nil
}

// shownArguments are the arguments of calls that the demo prints, in this order.
var shownArguments = []string{"name", "from_session", "session", "code", "checkpoint", "command", "package", "text", "keys", "secret", "path", "job_id", "job_ids", "view",
	"pattern", "context", "cursor", "quiet_seconds", "wait_seconds", "max_chars"}

func (s *session) printCall(tool string, args map[string]any) {
	fmt.Fprintf(s.out, "   > %s\n", tool)
	for _, name := range shownArguments {
		v, ok := args[name]
		if name == "text" && args["secret"] == true {
			v = "(not shown)"
		}
		if ok && v != false {
			fmt.Fprintf(s.out, "     %s: %s\n", name, indent(fmt.Sprint(v), "       "))
		}
	}
}

func (s *session) printReply(r mcpclient.Reply) {
	fmt.Fprintf(s.out, "   < %s\n", indent(strings.TrimRight(shorten(string(r)), "\n"), "     "))
}

// shorten returns text with the end of long lines left out.
func shorten(text string) string {
	return regexp.MustCompile(`(?m)^(.{300}).{10,}$`).ReplaceAllString(text, "$1… (a long line)")
}

func indent(text, by string) string { return strings.ReplaceAll(text, "\n", "\n"+by) }

// oneCall returns the run of a step of one call with one argument, and the reply that it expects.
func oneCall(tool, name, text, status string, texts ...string) func(*session) error {
	return func(s *session) error {
		r, err := s.call(tool, map[string]any{name: text})
		if err != nil {
			return err
		}
		return r.Expect(status, texts...)
	}
}

const ticks = `import time
for i in range(1, 6):
    time.sleep(1)
    print(f"tick {i}")`

// steps show the features that a person who tries the server should see.
var steps = []step{
	{"set a variable", firstJob},
	{"the next job can use it", oneCall("execute_python", "code", `y = x * 2; print(f"y is {y}")`, "completed", "y is 84")},
	{"list the variables", listBoth},
	{"input() is detected at once", oneCall("execute_python", "code", `name = input("Enter your name: ")`, "waiting_input", "Prompt: Enter your name: ")},
	{"answer the question", oneCall("send_python_input", "text", "Jonathan", "completed")},
	{"the answer is stored in a variable", oneCall("execute_python", "code", `print(f"Hello {name}, x={x}")`, "completed", "Hello Jonathan, x=42")},
	{"install a package and import it at once", installWheel("greeting", "install_package_async", "package",
		"./greeting-1.0-py3-none-any.whl", "completed (installed greeting 1.0)")},
	{"pip in the shell installs for the session", installWheel("farewell", "execute_command_async", "command",
		"pip install --no-index ./farewell-1.0-py3-none-any.whl", "completed")},
	{"poll a long job to its end", pollTicks},
	{"read a long line in one call", readLongLine},
	{"a restart clears the variables", restart},
	{"a shell job asks a question", shellAsks},
	{"a quiet build is not taken for a question", watchBuild},
	{"ssh-keygen is answered prompt by prompt, and the passphrase leaves no trace", makeKey},
	{"less is paged by keys, and seen by its screen", pageThroughFile},
	{"an error is found in the middle of a flood", findError},
	{"a progress bar of 10,000 updates costs one line", watchBar},
	{"a server says where it listens", startWebServer},
	{"a cancel ends the full process tree", cancelTree},
	{"a crash of the worker is reported", oneCall("execute_python", "code", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
		"failed (killed by SIGSEGV; variables lost)")},
	{"the next job works again", oneCall("execute_python", "code", "6 * 7", "completed", "42", "variables were lost")},
	{"the model sees a figure", seeFigure},
	{"a look into a busy loop", lookIntoLoop},
	{"two branches of one state, side by side", branchTwice},
	{"after a crash, continue from the checkpoint", continueAfterCrash},
	{"take all of it away as a notebook", exportNotebook},
	{"two eras of the protocol on one server, over HTTP", twoEras},
	{"another token sees nothing of it", otherToken},
	{"a file is sent up, worked on and fetched back", fileAndBack},
}

// firstJob makes the environment and starts the worker. On a busy machine that can take longer than
// the grace, so firstJob waits longer.
func firstJob(s *session) error {
	r, err := s.call("execute_python", map[string]any{"code": `x = 42; print(f"x is {x}")`, "wait_seconds": 60})
	if err != nil {
		return err
	}
	return r.Expect("completed", "x is 42")
}

func listBoth(s *session) error {
	r, err := s.call("list_variables", nil)
	if err != nil {
		return err
	}
	for _, name := range []string{"x", "y"} {
		if !regexp.MustCompile(`(?m)^` + name + `\b`).MatchString(string(r)) {
			return fmt.Errorf("%s is not listed", name)
		}
	}
	return nil
}

func pollTicks(s *session) error {
	r, err := s.call("execute_python", map[string]any{"code": ticks})
	if err != nil {
		return err
	}
	if err := r.Expect("running", "tick 1"); err != nil {
		return err
	}
	id := r.Header("Job ID")
	for r.Header("Status") == "running" {
		if r, err = s.call("check_python_status", map[string]any{"job_id": id, "wait_seconds": 1.5}); err != nil {
			return err
		}
	}
	return r.Expect("completed", "tick 1\ntick 2\ntick 3\ntick 4\ntick 5")
}

func readLongLine(s *session) error {
	r, err := s.call("execute_python", map[string]any{"code": `import json; print(json.dumps(list(range(4000))))`, "max_chars": 45_000})
	if err != nil {
		return err
	}
	if err := r.Expect("completed", "[0, 1, 2, ", ", 3998, 3999]\n"); err != nil {
		return err
	}
	if n := len(r.Section("STDOUT")); n < 20_000 || r.Header("Omitted") != "" {
		return fmt.Errorf("only %d bytes are shown", n)
	}
	return nil
}

func restart(s *session) error {
	if _, err := s.call("restart_python_worker", nil); err != nil {
		return err
	}
	r, err := s.call("list_variables", nil)
	if err != nil {
		return err
	}
	if !strings.Contains(string(r), "No variables") {
		return errors.New("variables are left")
	}
	return nil
}

// startWebServer starts a server. The call is answered as soon as the server listens.
func startWebServer(s *session) error {
	r, err := s.call("execute_command_async", map[string]any{"command": "python3 -m http.server 0 --bind 127.0.0.1", "wait_seconds": 60})
	if err != nil {
		return err
	}
	if err := r.Expect("running"); err != nil {
		return err
	}
	if got := r.Header("Listening"); !strings.HasPrefix(got, "127.0.0.1:") {
		return fmt.Errorf("it listens on %q", got)
	}
	_, err = s.call("cancel_job", map[string]any{"job_id": r.Header("Job ID")})
	return err
}

func shellAsks(s *session) error {
	r, err := s.call("execute_command_async", map[string]any{"command": `read -r -p "Proceed? [y/N] " answer; echo "you said $answer"`})
	if err != nil {
		return err
	}
	if err := r.Expect("waiting_input", "Prompt: Proceed? [y/N] "); err != nil {
		return err
	}
	r, err = s.call("send_command_input", map[string]any{"job_id": r.Header("Job ID"), "text": "y\n"})
	if err != nil {
		return err
	}
	return r.Expect("completed", "you said y")
}

func cancelTree(s *session) error {
	r, err := s.call("execute_command_async", map[string]any{
		"command":      `sleep 300 & (trap '' HUP; setsid sleep 300 & echo "$$ $! "; wait) & wait`,
		"wait_seconds": 0.5,
	})
	if err != nil {
		return err
	}
	if err := r.Expect("running"); err != nil {
		return err
	}
	pids := strings.Fields(r.Section("STDOUT"))
	if len(pids) != 2 {
		return fmt.Errorf("the job named %q, not two processes", pids)
	}
	if r, err = s.call("cancel_job", map[string]any{"job_id": r.Header("Job ID")}); err != nil {
		return err
	}
	if err := r.Expect("cancelled (interrupted)"); err != nil {
		return err
	}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d still exists", pid)
		}
	}
	return nil
}

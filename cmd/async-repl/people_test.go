package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/readmetest"
)

// command returns a command of the program beside the server, where the server listens.
func (s *started) command(args ...string) *exec.Cmd {
	cmd := bounded(s.t, ownProgram(s.t), args...)
	cmd.Dir, cmd.Env = s.dir, s.cmd.Env
	return cmd
}

// person runs a command beside the server, where the server listens.
func (s *started) person(args ...string) (out string, code int) {
	s.t.Helper()
	cmd := s.command(args...)
	b, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		s.t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// A person sees the jobs of an agent, answers and ends them, and the agent learns of it.
func TestCommandsOfAPerson(t *testing.T) {
	overStdio(t, "the server is one process with its client")
	t.Parallel()
	s := startServer(t, "REPL_KEEPER=off", "XDG_RUNTIME_DIR="+t.TempDir())
	if out, code := s.person("ps"); strings.Contains(out, s.dir) || code != 0 {
		t.Errorf("before the first job: %q, exit %d", out, code)
	}
	id := s.do("execute_command_async", "command", "printf 'Name? '; read x; echo ${#x}; exit 5", "wait_seconds", 60).Header("Job ID")
	if out, code := s.person("ps"); !strings.Contains(out, id[:14]+"  waiting_input") || !strings.Contains(out, `(asks "Name? ")`) || code != 0 {
		t.Errorf("ps: %q, exit %d", out, code)
	}
	if out, code := s.person("wait", id); out != id+" waits for input: Name?\n" || code != 123 {
		t.Errorf("wait for a job that asks: %q, exit %d", out, code)
	}
	if out, code := s.person("send", id[:20], "Ada"); out != "delivered\n" || code != 0 {
		t.Errorf("send: %q, exit %d", out, code)
	}
	if out, code := s.person("wait", id); out != id+" failed (exit 5)\n" || code != 5 {
		t.Errorf("wait: %q, exit %d", out, code)
	}
	if out, code := s.person("logs", id); out != "Name? Ada\n3\n" || code != 0 {
		t.Errorf("logs: %q, exit %d", out, code)
	}
	if got := s.do("check_job_status", "job_id", id).Header("Answered"); !strings.HasPrefix(got, "by a person, ") {
		t.Errorf("the agent is told %q", got)
	}
	long := s.do("execute_command_async", "command", "echo on; sleep 1000", "wait_seconds", 0).Header("Job ID")
	s.prints(long, "on")
	if out, code := s.person("cancel", long); !strings.HasPrefix(out, long+" cancelled (interrupted by person)") || code != 0 {
		t.Errorf("cancel: %q, exit %d", out, code)
	}
	if got := s.do("check_job_status", "job_id", long).Header("Ended by"); got != "person" {
		t.Errorf("the agent is told that the job was ended by %q", got)
	}
	out, code := s.person("doctor")
	for _, line := range []string{"ok     server: guard (pid ", "ok     engine: process ", "ok     sockets: commands reach engines in ", "note   client: jobs end with the client that started them: "} {
		if !strings.Contains(out, "\n"+line) || code > 1 {
			t.Errorf("doctor does not say %q: exit %d\n%s", line, code, out)
		}
	}
	s.cmd.Env = append(s.cmd.Env, "REPL_GRACE=x")
	if out, code := s.person("doctor"); !strings.HasPrefix(out, `async-repl: REPL_GRACE="x" can't be used; allowed: `) || !strings.Contains(out, "\nfails  server: ") || code != 1 {
		t.Errorf("doctor with a bad setting: exit %d\n%s", code, out)
	}
}

// Every command for people has its row in the table of commands, and the other way round.
func TestHelpOfCommandsForPeople(t *testing.T) {
	t.Parallel()
	for _, c := range commands() {
		if c.summary == "" || strings.Contains(" serve sandbox places demo token version help ", " "+c.name+" ") || c.name == "" || c.name == "hook" {
			continue
		}
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{c.name, "--help"}, io.NopCloser(strings.NewReader("")), nopCloser{&out}, &errs)
		if want := c.summary + "\n\nUsage:\n  " + c.line() + "\n"; code != 0 || errs.Len() > 0 || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s --help: exit %d, %q, %q\nwant %q", c.name, code, out.String(), errs.String(), want)
		}
	}
}

// A command that does not exist is refused, and those that resemble it are named.
func TestUnknownCommandsAreNamed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"sreve": `did you mean serve? `, "sned": `did you mean send? `, "log": `did you mean logs? `, "xyzzy": "",
	} {
		var errs bytes.Buffer
		code := run(t.Context(), []string{name, "x"}, nil, nil, &errs)
		if want := `async-repl: unknown command "` + name + `": ` + want + "see async-repl help\n"; code != 2 || errs.String() != want {
			t.Errorf("exit %d, %q; want %q", code, errs.String(), want)
		}
	}
}

// The setting of the hook can be parsed, is for our tools, and names a command that there is. The
// hook is killed at its timeout, so that is long.
func TestHookSetting(t *testing.T) {
	for _, page := range []string{"README.md", "docs/commands.md"} {
		text := readmetest.Text(t, page)
		at := strings.Index(text, `{"hooks": `)
		if at < 0 {
			t.Errorf("%s has no setting", page)
			continue
		}
		var setting struct {
			Hooks map[string][]struct {
				Matcher string
				Hooks   []struct {
					Type, Command string
					AsyncRewake   bool
					Timeout       int
				}
			}
		}
		if err := json.NewDecoder(strings.NewReader(text[at:])).Decode(&setting); err != nil {
			t.Errorf("%s: %v", page, err)
			continue
		}
		for event, all := range setting.Hooks {
			for _, one := range all {
				if event != "PostToolUse" || !regexp.MustCompile("^"+one.Matcher+"$").MatchString("mcp__async-repl__execute_python") || len(one.Hooks) != 1 {
					t.Errorf("%s: %s %+v", page, event, one)
				}
				h := one.Hooks[0]
				name, isOurs := strings.CutPrefix(h.Command, "async-repl ")
				if h.Type != "command" || !isOurs || !slices.ContainsFunc(commands(), func(c command) bool { return c.name == name }) || !h.AsyncRewake || h.Timeout < 24*3600 {
					t.Errorf("%s: %+v", page, h)
				}
			}
		}
	}
}

// What ran before the last start is read from the records, by the commands as by the tools. It
// stays for the next agent to learn that a server was killed.
// logs -f follows a job to its end, also if that is the end of its engine.
func TestLogsFollowToTheEndOfTheEngine(t *testing.T) {
	overStdio(t, "the client quits")
	notApart(t, "commands do not read its records yet")
	t.Parallel()
	s := startServer(t, "XDG_RUNTIME_DIR="+t.TempDir())
	id := s.do("execute_command_async", "command", "echo begun; sleep 1000", "wait_seconds", 0).Header("Job ID")
	s.prints(id, "begun")
	cmd := s.command("logs", "-f", id)
	var out, errs lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	must.Do(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	polltest.Until(t, "the first line", func() bool { return out.String() == "begun\n" })
	s.stop()
	s.exit()
	if err := cmd.Wait(); err != nil || out.String() != "begun\n" {
		t.Errorf("logs: %v, %q, %s", err, out.String(), errs.String())
	}
}

func TestCommandsReadTheRecords(t *testing.T) {
	overStdio(t, "the server is killed")
	notApart(t, "commands do not read its records yet")
	t.Parallel()
	s := startServer(t, "REPL_KEEPER=off", "XDG_RUNTIME_DIR="+t.TempDir())
	ended := s.do("execute_command_async", "command", "echo out; exit 5", "wait_seconds", 60).Header("Job ID")
	cut := s.do("execute_command_async", "command", "echo begun; sleep 1000", "wait_seconds", 1).Header("Job ID")
	s.cmd.Process.Kill()
	s.cmd.Wait()
	if out, code := s.person("ps", "--all"); !strings.Contains(out, "EARLIER RUNS\n  "+cut[:14]+"  failed (server was killed") || !strings.Contains(out, ended[:14]+"  failed (exit 5)") || code != 0 {
		t.Errorf("ps --all: exit %d\n%s", code, out)
	}
	if out, code := s.person("logs", ended[:20]); out != "out\n" || code != 0 {
		t.Errorf("logs: %q, exit %d", out, code)
	}
	workspace := s.dir
	s.dir = t.TempDir()
	if out, code := s.person("logs", ended[:20]); out != "out\n" || code != 0 {
		t.Errorf("logs from another directory: %q, exit %d", out, code)
	}
	if out, code := s.person("wait", ended); code != 5 {
		t.Errorf("wait from another directory: %q, exit %d", out, code)
	}
	s.dir = workspace
	if out, code := s.person("logs", "-f", cut); out != "begun\n" || code != 0 {
		t.Errorf("logs of the job that was cut off: %q, exit %d", out, code)
	}
	if out, code := s.person("wait", ended); out != ended+" failed (exit 5)\n" || code != 5 {
		t.Errorf("wait: %q, exit %d", out, code)
	}
	if out, code := s.person("send", cut, "x"); !strings.Contains(out, "has ended") || code != 1 {
		t.Errorf("send: %q, exit %d", out, code)
	}
	if out, code := s.person("cancel", cut); !strings.Contains(out, cut+" failed (server was killed") || code != 0 {
		t.Errorf("cancel: %q, exit %d", out, code)
	}
	if out, code := s.person("doctor"); code > 1 || !strings.Contains(out, "ok     job: a shell command runs\n") {
		t.Errorf("doctor: exit %d\n%s", code, out)
	}
	if out, _ := s.person("ps", "--all"); strings.Contains(out, "head -c") {
		t.Errorf("the doctor's job is recorded:\n%s", out)
	}
	again := prepare(t, s.cmd.Env...)
	again.dir, again.cmd.Dir = s.dir, s.dir
	again.open()
	if got := again.do("list_jobs").Header("Lost"); !strings.Contains(got, cut) {
		t.Errorf("the next agent is told %q", got)
	}
}

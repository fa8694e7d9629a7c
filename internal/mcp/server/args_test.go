package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestMistakesSayHowToFixThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Toolsets = toolsets
	if err := os.WriteFile(filepath.Join(w.workspace, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := w.dial(engine.Scope{})
	c.call("create_session", given{"name": "other"})
	old := c.call("execute_python", given{"code": `out "x"`})
	id := field(old, "Job ID")
	shell := field(c.call("execute_command_async", given{"command": `ask line "? "`, "wait_seconds": 60}), "Job ID")

	for _, tt := range []struct {
		name string
		tool string
		args string
		want string // all of it, with * for anything
	}{
		{"unknown, of a later feature", "execute_python", `{"priority": 1}`, "Unknown parameter: priority. execute_python takes: *"},
		{"unknown, forged", "list_jobs", `{"a\nStatus: completed": 1}`, `Unknown parameter: a\nStatus: completed. *list_jobs takes: *`},
		{"neither code nor path", "execute_python", `{}`, "code is missing. Give the code, or the path of a file to run."},
		{"code and path", "execute_python", `{"code": "x", "path": "a.py"}`, "code and path are both given. Give the code, or the path of a file to run."},
		{"code and args", "execute_python", `{"code": "x", "args": ["a"]}`, "args needs path: they are the arguments of a file."},
		{"NUL in path", "execute_python", `{"path": "a\u0000"}`, "path may not hold NUL."},
		{"NUL in args", "execute_python", `{"path": "a", "args": ["b", "\u0000"]}`, "args may not hold NUL."},
		{"empty list", "wait_for_jobs", `{"job_ids": []}`, "job_ids must hold 1 to 200 job ids."},
		{"unknown, very long", "list_jobs", `{"` + strings.Repeat("limit", 20_000) + `": 1}`, "Unknown parameter: limitlimit*…. list_jobs takes: *"},
		{"bad name in env", "execute_command_async", `{"command": "x", "env": {"A=B": "1"}}`, "env: a name may not be empty or hold = or NUL."},
		{"huge integer", "check_job_status", `{"job_id": "x", "cursor": 1e300}`, "cursor may be 9,007,199,254,740,992 at most."},
		{"negative cursor", "check_job_status", `{"job_id": "` + id + `", "cursor": -1}`, "cursor must be 0 or more."},
		{"wait without end", "check_job_status", `{"job_id": "x", "wait_seconds": 1e999}`, "wait_seconds may be 110 at most; call again to wait longer."},
		{"timeout above the cap", "execute_python", `{"code": "x", "timeout_seconds": 1e9}`, "timeout_seconds may be 31,622,400 at most."},
		{"reply too long", "execute_python", `{"code": "x", "max_chars": 45001}`, "max_chars may be 45,000 at most."},
		{"empty code", "execute_python", `{"code": " \n\t"}`, "code is empty."},
		{"empty command", "execute_command_async", `{"command": ""}`, "command is empty."},
		{"NUL in command", "execute_command_async", `{"command": "a\u0000b"}`, "command may not hold NUL."},
		{"file for directory", "execute_command_async", `{"command": "x", "cwd": "file"}`, "cwd: " + w.workspace + "/file is not a directory."},
		{"bad session", "execute_python", `{"code": "x", "session": "a b"}`, "session must be 1 to 64 letters, *"},
		{"sessions used up", "execute_python", `{"code": "x", "session": "full"}`,
			"50 sessions are open, the most allowed (REPL_MAX_SESSIONS): use one of them, or end one with delete_session.\nIdle longest: lab, *"},
		{"session outside", "execute_python", `{"code": "x", "session": "../x"}`, "session must be 1 to 64 letters, *"},
		{"session too long", "execute_python", `{"code": "x", "session": "` + strings.Repeat("x", 300) + `"}`, "session must be 1 to 64 letters, *"},
		{"NUL in a session", "create_session", `{"name": "a\u0000b"}`, "name must be 1 to 64 letters, *"},
		{"session that exists", "create_session", `{"name": "other", "env": {"A": "b"}}`,
			"Session other exists, and is not changed: use it, end it with delete_session, or take another name.\nother, no Python runs, *"},
		{"session in no directory", "create_session", `{"name": "new", "cwd": "no/such"}`, "cwd: there is no directory *"},
		{"session from a busy one", "create_session", `{"name": "new", "from_session": "busy"}`,
			"Session busy can't be branched now: it is busy with job J1. Call again when that has ended, or cancel it."},
		{"session from one that asks", "create_session", `{"name": "new", "from_session": "asks"}`,
			"Session asks can't be branched now: it is busy with job J1, which waits for input. Answer that with send_python_input, or cancel it, and call again."},
		{"session from none", "create_session", `{"name": "new", "from_session": "laab"}`, "No session laab. Nearest: lab."},
		{"session from one elsewhere", "create_session", `{"name": "new", "from_session": "other", "cwd": "/"}`,
			"from_session continues with the Python of session other and all its settings: leave out python, venv, packages, cwd, env and memory_mb."},
		{"no such checkpoint", "restart_python_worker", `{"session": "other", "checkpoint": "J7"}`, "Session other has no checkpoint of job J7; there are those of J1"},
		{"checkpoint of no session", "restart_python_worker", `{"session": "othr", "checkpoint": "latest"}`, "No session othr. Nearest: other."},
		{"no such session", "list_variables", `{"session": "Other"}`, "No session Other. Nearest: other."},
		{"no such session at all", "restart_python_worker", `{"session": "elsewhere"}`, "No session elsewhere. There are: default, other."},
		{"no such session to delete", "delete_session", `{"session": "othr"}`, "No session othr. Nearest: other."},
		{"no such session to look at", "check_python_status", `{"session": "othr"}`, "No session othr. Nearest: other."},
		{"no such session to list", "list_jobs", `{"session": "othr", "status": "failed"}`, "No session othr. Nearest: other."},
		{"session without variables", "get_variable", `{"session": "othr", "name": "x"}`, "No session othr. Nearest: other."},
		{"empty name", "get_variable", `{"name": " "}`, "name is empty."},
		{"NUL in a name", "set_variable", `{"name": "a\u0000b", "value": 1}`, "name may not hold NUL."},
		{"no value", "set_variable", `{"name": "x"}`, "value is missing. set_variable takes: name, value [session]."},
		{"format unknown", "get_variable", `{"name": "x", "format": "xml"}`, "format must be one of: text, json, image."},
		{"no names", "delete_variables", `{"names": []}`, "Give the names of the variables, or all=true."},
		{"names and all", "delete_variables", `{"names": ["x"], "all": true}`, "Give names, or all=true, but not both."},
		{"neither names nor all", "delete_variables", `{"all": false}`, "Give the names of the variables, or all=true."},
		{"NUL in code to complete", "complete_code", `{"code": "\u0000"}`, "code may not hold NUL."},
		{"place beyond the code", "complete_code", `{"code": "é", "cursor": 2}`, "cursor 2 is beyond the end of the code, 1."},
		{"bad pattern", "list_variables", `{"pattern": "[a"}`, "pattern must be names with *, ? and [a-z] in them, such as df*; [a is none."},
		{"pattern with a backslash", "list_variables", `{"pattern": "\\d"}`, "pattern must be names with *"},
		{"blank pattern", "list_variables", `{"pattern": " "}`, "pattern is empty."},
		{"nothing to search for", "search_job_output", `{"job_id": "` + id + `", "pattern": ""}`, "pattern is empty: it would match every line."},
		{"bad expression", "search_job_output", `{"job_id": "` + id + `", "pattern": "ok|(bad"}`,
			"pattern is refused by RE2: missing closing ), at character 4 of 7."},
		{"expression of a newline", "search_job_output", `{"job_id": "` + id + `", "pattern": "a\nb"}`,
			"pattern holds a newline, but is looked for in one line at a time: *"},
		{"much context", "search_job_output", `{"job_id": "` + id + `", "pattern": "x", "context": 10000}`, "context may be 20 at most."},
		{"negative context", "search_job_output", `{"job_id": "` + id + `", "pattern": "x", "context": -1}`, "context must be 0 or more."},
		{"no matches wanted", "search_job_output", `{"job_id": "` + id + `", "pattern": "x", "max_matches": -1}`, "max_matches must be 1 or more."},
		{"many matches", "search_job_output", `{"job_id": "` + id + `", "pattern": "x", "max_matches": 201}`, "max_matches may be 200 at most."},
		{"search beyond the end", "search_job_output", `{"job_id": "` + id + `", "pattern": "x", "cursor": 2}`, "cursor 2 is beyond the end of job *"},
		{"bad requirement", "install_package_async", `{"package": "--index-url=x"}`, `"--index-url=x" looks like an option; name packages only`},
		{"status unknown", "list_jobs", `{"status": "done"}`, "status must be one of: queued, running, waiting_input, completed, failed, cancelled."},
		{"expression to wait for", "wait_for_jobs", `{"job_ids": ["` + id + `"], "pattern": "a[b"}`, "pattern is refused by RE2: missing closing ] [b, at character 2 of 3."},
		{"expression to stop at", "wait_for_jobs", `{"job_ids": ["` + id + `"], "stop_pattern": "a**"}`, "stop_pattern is refused by RE2: invalid nested repetition operator **, at character 2 of 3."},
		{"long wait", "wait_for_jobs", `{"job_ids": ["` + id + `"], "wait_seconds": 3601}`, "wait_seconds may be 3,600 at most; call again to wait longer."},
		{"negative silence", "wait_for_jobs", `{"job_ids": ["` + id + `"], "quiet_seconds": -1}`, "quiet_seconds must be 0.1 to 110."},
		{"too little silence", "wait_for_jobs", `{"job_ids": ["` + id + `"], "quiet_seconds": 0.05}`, "quiet_seconds must be 0.1 to 110."},
		{"long silence", "wait_for_jobs", `{"job_ids": ["` + id + `"], "quiet_seconds": 1e9}`, "quiet_seconds must be 0.1 to 110."},
		{"silence longer than the wait", "wait_for_jobs", `{"job_ids": ["` + id + `"], "quiet_seconds": 45}`, "quiet_seconds must be less than wait_seconds, 45."},
		{"cursor without a pattern", "wait_for_jobs", `{"job_ids": ["` + id + `"], "cursor": 1}`, "cursor needs pattern or stop_pattern: *"},
		{"output of several", "wait_for_jobs", `{"job_ids": ["` + id + `", "` + shell + `"], "show": true}`, "show needs one job id: *"},
		{"output beyond the end", "wait_for_jobs", `{"job_ids": ["` + id + `"], "cursor": 9, "show": true}`, "cursor 9 is beyond the end of job *"},
		{"wait beyond the end", "wait_for_jobs", `{"job_ids": ["` + id + `"], "cursor": 9, "pattern": "x"}`, "cursor 9 is beyond the end of job *"},
		{"until unknown", "wait_for_jobs", `{"job_ids": ["x"], "until": "some"}`, "until must be one of: any, all."},
		{"no such job", "check_job_status", `{"job_id": "` + id[1:] + `"}`, "No such job: " + id[1:] + "\nNearest:\n" + id + " completed, python default, *"},
		{"no such job to wait for", "wait_for_jobs", `{"job_ids": ["` + id + `", "x"]}`, "No such job: x\nNearest:\n*"},
		{"no such job to list from", "list_jobs", `{"before": "x"}`, "No such job: x\n*"},
		{"job of no such session", "check_python_status", `{"job_id": "` + id + `", "session": "lab"}`, "Job " + id + " is not one of session lab. Leave session out."},
		{"cursor without a job", "check_python_status", `{"session": "other", "cursor": 5}`, "Session other has no Python job yet, so there is no output at a cursor."},
		{"two lines", "send_python_input", `{"text": "a\nb"}`, "text must be one line; nothing was sent. Send one line for each question."},
		{"no job asks", "send_python_input", `{"text": "a"}`, "No Python job waits for input; nothing was sent or kept."},
		{"python input for a shell job", "send_python_input", `{"text": "a", "job_id": "` + shell + `"}`,
			"Job " + shell + " is a shell job: use send_command_input. Nothing was sent."},
		{"nothing to send", "send_command_input", `{"job_id": "` + shell + `"}`, `There is nothing to send: give text (a line ends with \n), keys, eof, signal or size.`},
		{"input for an ended job", "send_command_input", `{"job_id": "` + id + `", "text": "x"}`, "Job " + id + " has ended: completed. Nothing was sent."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := c.refused(tt.tool, json.RawMessage(tt.args))
			if !matches(tt.want, got) {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
	if n := len(w.jobs.List(jobs.Filter{})); n != 2 {
		t.Errorf("%d jobs, but a refused call starts none", n)
	}
}

// matches compares with a pattern in which * stands for anything.
func matches(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		at := strings.Index(s, part)
		if at < 0 || i == 0 && at > 0 {
			return false
		}
		s = s[at+len(part):]
	}
	return s == "" || parts[len(parts)-1] == "" && len(parts) > 1
}

func TestArgumentsReachTheRunner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.Mkdir(filepath.Join(w.workspace, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := w.dial(engine.Scope{Session: "mine"})
	c.call("execute_command_async", given{"command": `out ""`, "cwd": "sub", "env": map[string]string{"A": "b=c"}, "tty": false, "max_chars": 16000.0})
	c.call("execute_command_async", given{"command": `out ""`, "shell_session": "build", "wait_seconds": 0.25, "timeout_seconds": 0})
	want := fmt.Sprintf("[{out \"\" %s map[A:b=c] false } {out \"\"  map[] true build}]", filepath.Join(w.workspace, "sub"))
	if got := fmt.Sprint(w.requests); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := c.call("execute_python", given{"code": `out ""`}); w.job(got).Record().Session != "mine" {
		t.Errorf("the scope's session is not the default: %v", w.job(got).Record())
	}
}

func TestDefaultTimeoutHoldsForCallsThatSetNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.timeout = 1
	c := w.dial(engine.Scope{})
	got := c.call("execute_command_async", given{"command": "hang", "wait_seconds": 60})
	if s := field(got, "Status"); s != "failed (timed out after 1ns)" {
		t.Errorf("status %q", s)
	}
	for given, want := range map[time.Duration]time.Duration{0: 1, time.Hour: time.Hour} {
		got = c.call("execute_command_async", map[string]any{"command": "hang", "timeout_seconds": given.Seconds(), "wait_seconds": 0})
		if record := w.job(got).Record(); record.Timeout != want {
			t.Errorf("timeout %v of a call that gives %v, want %v", record.Timeout, given, want)
		}
	}
}

// A call for Python spares the variables, unless it forces the end. The operator's limit does not, and a
// shell job has none.
func TestStopsOfCallsSpareVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.timeout = time.Hour
	c := w.dial(engine.Scope{})
	for _, test := range []struct {
		tool         string
		limit, force bool // the call sets a limit; the cancel is forced
		timeout      bool // at the limit variables are spared
		cancel       bool // at the cancel they are
	}{
		{tool: "execute_python", cancel: true},
		{tool: "execute_python", force: true},
		{tool: "execute_python", limit: true, timeout: true, cancel: true},
		{tool: "execute_command_async", limit: true},
	} {
		arguments := given{"wait_seconds": 0}
		arguments[map[string]string{"execute_python": "code", "execute_command_async": "command"}[test.tool]] = "hang"
		if test.limit {
			arguments["timeout_seconds"] = 60
		}
		j := w.job(c.call(test.tool, arguments))
		c.call("cancel_job", given{"job_id": j.ID(), "force": test.force})
		record := jobstest.End(t, j)
		if st := record.Receipt.Stop; record.Spare != test.timeout || st == nil || st.Spare != test.cancel {
			t.Errorf("%+v: the limit spares them: %v; the cancel: %+v", test, record.Spare, st)
		}
	}
}

// Jobs beyond the limit are queued, and say for which jobs they wait: first for those that a client
// can answer. Only a full queue is refused, and makes no session.
func TestJobsBeyondTheLimitAreQueued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.jobs = jobs.NewRegistry(jobs.Config{Logs: output.NewStore(output.Config{}), MaxRunning: 2})
	defer w.jobs.Close(jobs.Stop{By: jobs.Shutdown})
	c := w.dial(engine.Scope{})
	check := func(want, got string) {
		t.Helper()
		if !matches(want, got) {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	}
	one := field(c.call("execute_command_async", given{"command": "hang", "wait_seconds": 0}), "Job ID")
	two := field(c.call("execute_python", given{"code": `ask line "? "`, "wait_seconds": 60}), "Job ID")
	got := c.call("execute_python", given{"code": `out "three"`, "session": "other", "wait_seconds": 0})
	three := field(got, "Job ID")
	queued := "2 jobs are running, the most allowed (REPL_MAX_JOBS): " + two + " (waiting_input), " + one + " (running)"
	check("Job ID: "+three+"\nStatus: queued\nQueued: "+queued+"\nCursor: 0\nSession: new\n", got)
	check("*\n\nJob ID: "+three+"\nStatus: queued\nQueued: "+queued+"\nCursor: 0\n", c.call("wait_for_jobs", given{"job_ids": []string{three}, "wait_seconds": 0}))
	check("Jobs: 1, newest first\n\n"+three+` queued, python other: out "three"`+"\n", c.call("list_jobs", given{"status": "queued"}))
	check("*\nJobs: 2 of at most 2 at once: 1 queued, 1 running, 1 waiting_input\n*", c.call("server_status", nil))

	c.call("send_python_input", given{"job_id": two, "text": "x", "wait_seconds": 60})
	check("*\nStatus: completed\n*", c.call("check_job_status", given{"job_id": three, "wait_seconds": 60}))

	four := field(c.call("execute_command_async", given{"command": "hang", "wait_seconds": 0}), "Job ID")
	for range 1000 {
		jobstest.Start(t, w.jobs, jobs.Spec{}, &program{w, "hang"})
	}
	refusal := "1,000 jobs are queued, the most allowed; nothing was started. *cancel_job.\nRunning: 2\n" + one + " running, shell, *s: hang\n" + four + " running, shell, *s: hang"
	check(refusal, c.refused("execute_python", given{"code": `out ""`}))
	check(refusal, c.refused("create_session", given{"name": "lab", "packages": "spam"}))
	if got := c.call("list_sessions", nil); strings.Contains(got, "\nlab,") {
		t.Errorf("a session was made:\n%s", got)
	}
}

// Input for a session goes to its job that waits, and to no other one.
func TestInputForASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	c.call("execute_python", given{"code": `ask line "one? "`, "wait_seconds": 60})
	two := field(c.call("execute_python", given{"code": `ask line "two? "`, "session": "b", "wait_seconds": 60}), "Job ID")
	for want, args := range map[string]given{
		"Job " + two + " is not one of session default; nothing was sent. Leave session out.": {"text": "x", "job_id": two, "session": "default"},
		"No session bb. *": {"text": "x", "session": "bb"},
	} {
		if got := c.refused("send_python_input", args); !matches(want, got) {
			t.Errorf("%v: %s; want %s", args, got, want)
		}
	}
	got := c.call("send_python_input", given{"text": "b", "session": "b", "wait_seconds": 60})
	if field(got, "Job ID") != two || field(got, "Status") != "completed" {
		t.Errorf("the input was not for the job of the session:\n%s", got)
	}
	got = c.refused("send_python_input", given{"text": "b", "session": "b"})
	if want := "No Python job of session b waits for input; nothing was sent or kept."; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	c.call("send_python_input", given{"text": "a", "session": "default", "wait_seconds": 60})
}

func TestInputWithoutAnIDIsForTheOneJobThatAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	one := field(c.call("execute_python", given{"code": `ask line "one? "`, "wait_seconds": 60}), "Job ID")
	c.call("execute_command_async", given{"command": `ask line "not python? "`, "wait_seconds": 60})
	two := field(c.call("execute_python", given{"code": `ask line "two? "`, "session": "b", "wait_seconds": 60}), "Job ID")
	got := c.refused("send_python_input", given{"text": "a"})
	want := "Several Python jobs wait for input; nothing was sent. Name one by job_id or session:\n" +
		two + ` waiting_input, python b, *s: ask line "two? " (asks "two? ")` + "\n" +
		one + ` waiting_input, python default, *s: ask line "one? " (asks "one? ")`
	if !matches(want, got) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	c.call("send_python_input", given{"text": "a", "job_id": one, "wait_seconds": 60})
	got = c.call("send_python_input", given{"text": "b", "wait_seconds": 60})
	if field(got, "Job ID") != two || field(got, "Status") != "completed" {
		t.Errorf("the input was not for the job that waits:\n%s", got)
	}
}

func TestSecretIsNeitherShownNorLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	const secret = "correct horse battery staple"
	var replies strings.Builder
	id := field(c.call("execute_python", given{"code": code(`ask secret "Password: "`, "keys", `out "takes keys\n"`, "hang"), "wait_seconds": 60}), "Job ID")
	replies.WriteString(c.call("send_python_input", given{"text": secret, "wait_seconds": 0}))
	jobstest.Prints(t, w.job("Job ID: "+id+"\n"), "takes keys\n")
	replies.WriteString(c.call("send_command_input", given{"job_id": id, "text": secret, "secret": true, "wait_seconds": 0}))
	for _, args := range []string{
		`{"text": ["` + secret + `"]}`, `{"text": "` + secret + `", "job_id": "x"}`, `{"text": "` + secret + `\n` + secret + `"}`,
	} {
		replies.WriteString(c.refused("send_python_input", json.RawMessage(args)))
	}
	ask := field(c.call("execute_python", given{"code": `ask secret "Again: "`, "session": "b", "wait_seconds": 60}), "Job ID")
	replies.WriteString(c.refused("send_python_input", given{"text": "panic " + secret, "job_id": ask}))
	replies.WriteString(c.call("check_job_status", given{"job_id": id}))
	replies.WriteString(c.call("list_jobs", nil))
	for name, text := range map[string]string{"a reply": replies.String(), "the log": w.log.String()} {
		if strings.Contains(text, secret) {
			t.Errorf("the secret is in %s:\n%s", name, text)
		}
	}
	if !strings.Contains(w.log.String(), "panic in a request") {
		t.Error("the log doesn't show the panic, in which the secret can be")
	}
}

package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/jobs/jobstest"
)

// A step is one call and its answer, with ids and times made uniform. A step that only prepares the
// next one says instead what its job prints first.
type step struct {
	tool   string
	args   given
	want   string
	prints string
}

// code joins the lines of a program.
func code(lines ...string) string { return strings.Join(lines, "\n") }

// replies are the texts of replies by example. In arguments ID1 stands for the first job seen, and
// so on.
var replies = map[string][]step{
	"python ends within its grace": {
		{"execute_python", given{"code": code(`out "x is 42\n"`, `err "careful"`, `result "84"`)},
			"Job ID: ID1\nStatus: completed\nElapsed: T\nCursor: 17\n\n" +
				"--- STDOUT ---\nx is 42\n--- STDERR ---\ncareful\n--- RESULT ---\n84\n", ""},
		{"check_job_status", given{"job_id": "ID1", "cursor": 8},
			"Job ID: ID1\nStatus: completed\nElapsed: T\nCursor: 17\n\n" +
				"--- STDERR ---\ncareful\n--- RESULT ---\n84\n", ""},
		{"check_python_status", nil,
			"Job ID: ID1\nStatus: completed\nElapsed: T\nCursor: 17\n\n" +
				"--- STDOUT ---\nx is 42\n--- STDERR ---\ncareful\n--- RESULT ---\n84\n", ""},
	},
	"the same question again": {
		{"execute_python", given{"code": code(`ask line "(Pdb) "`, `ask line "(Pdb) "`, `out "more\nName:"`, `ask line " "`), "wait_seconds": 60},
			"Job ID: ID1\nStatus: waiting_input\nPrompt: (Pdb) \nWaiting: line, the test\nCursor: 6\n" +
				"Next: send_python_input(text=…) or cancel_job\n\n--- STDOUT ---\n(Pdb) \n", ""},
		{"send_python_input", given{"text": "n", "wait_seconds": 60},
			"Job ID: ID1\nStatus: waiting_input\nInput: delivered\nCursor: 61\n\n" +
				"--- STDOUT ---\n1 characters, line true, eof false, secret false\n(Pdb) \n", ""},
		{"check_job_status", given{"job_id": "ID1", "cursor": 6},
			"Job ID: ID1\nStatus: waiting_input\nPrompt: (Pdb) \nWaiting: line, the test\nCursor: 61\n" +
				"Next: send_python_input(text=…) or cancel_job\n\n" +
				"--- STDOUT ---\n1 characters, line true, eof false, secret false\n(Pdb) \n", ""},
		{"send_python_input", given{"text": "n", "wait_seconds": 60},
			"Job ID: ID1\nStatus: waiting_input\nPrompt:  \nInput: delivered\nCursor: 121\n\n" +
				"--- STDOUT ---\n1 characters, line true, eof false, secret false\nmore\nName: \n", ""},
	},
	"python asks twice": {
		{"execute_python", given{"code": code(`ask secret "Password: "`, `ask line "Again? "`), "wait_seconds": 60},
			"Job ID: ID1\nStatus: waiting_input\nPrompt: Password: \nWaiting: secret, the test\nCursor: 10\n" +
				"Next: send_python_input(text=…) or cancel_job\n\n--- STDOUT ---\nPassword: \n", ""},
		{"send_python_input", given{"text": "xyzzy", "wait_seconds": 60},
			"Job ID: ID1\nStatus: waiting_input\nWaiting: line, the test\nInput: delivered\nCursor: 65\n" +
				"Next: send_python_input(text=…) or cancel_job\n\n" +
				"--- STDOUT ---\n5 characters, line true, eof false, secret true\nAgain? \n", ""},
		{"send_python_input", given{"text": "", "eof": true, "job_id": "ID1", "wait_seconds": 60},
			"Job ID: ID1\nStatus: completed\nElapsed: T\nInput: delivered\nCursor: 114\n\n" +
				"--- STDOUT ---\n0 characters, line false, eof true, secret false\n", ""},
	},
	"typed ahead": {
		{"execute_command_async", given{"command": code("keys", `out "ready\n"`, "hang"), "wait_seconds": 0}, "", "ready\n"},
		{"send_command_input", given{"job_id": "ID1", "text": "abc", "wait_seconds": 0},
			"Job ID: ID1\nStatus: running\nElapsed: T\nInput: no program was waiting for it; it is buffered until one reads\nCursor: 14\n\n" +
				"--- STDOUT ---\ntyped 3\n", ""},
	},
	"a list of those that ask nothing": {
		{"execute_command_async", given{"command": code("prompt", "hang"), "wait_seconds": 60},
			"Job ID: ID1\nStatus: waiting_input\nWaiting: line, the test\nCursor: 0\n" +
				`Next: send_command_input(text="…\n") or cancel_job` + "\n", ""},
		{"list_jobs", nil, "Jobs: 1, newest first\n\nID1 waiting_input, shell, T: prompt …\n", ""},
	},
	"a pipe takes what is sent": {
		{"execute_command_async", given{"command": code("pipe", `out "ready\n"`, "hang"), "wait_seconds": 0}, "", "ready\n"},
		{"send_command_input", given{"job_id": "ID1", "text": "abc\n", "wait_seconds": 0},
			"Job ID: ID1\nStatus: running\nElapsed: T\n" +
				"Input: written to the command's standard input; whether a program reads a pipe can't be seen\nCursor: 6\n", ""},
		{"send_command_input", given{"job_id": "ID1", "eof": true, "wait_seconds": 0},
			"Job ID: ID1\nStatus: running\nElapsed: T\nInput: the command's standard input is closed\nCursor: 6\n", ""},
	},
	"takes input beside other things": {
		{"execute_command_async", given{"command": code("keys", `out "ready\n$ "`, "accepts", "hang"), "wait_seconds": 0}, "", "ready\n$ "},
		{"check_job_status", given{"job_id": "ID1"},
			"Job ID: ID1\nStatus: running\nElapsed: T\nPrompt: $ \n" +
				"Accepts input: line, read by ssh (pid 812), which also waits for a connection to 10.0.0.5:22\n" +
				"Cursor: 8\n\n--- STDOUT ---\nready\n$ \n", ""},
	},
	"cancel": {
		{"execute_python", given{"code": code(`out "tick\n"`, "hang"), "wait_seconds": 0}, "", "tick\n"},
		{"cancel_job", given{"job_id": "ID1"},
			"Job ID: ID1\nStatus: cancelled (interrupted)\nElapsed: T\nEnded by: agent\nCursor: 23\n\n" +
				"--- STDERR ---\nKeyboardInterrupt\n", ""},
		{"cancel_job", given{"job_id": "ID1"},
			"Job ID: ID1\nStatus: cancelled (interrupted)\nElapsed: T\nEnded by: agent\n" +
				"Note: it had ended before; what it started belongs to its session, and restart_python_worker ends that\nCursor: 23\n", ""},
	},
	"cancel what was left": {
		{"execute_command_async", given{"command": "leave sleep"},
			"Job ID: ID1\nStatus: completed\nElapsed: T\nLeft running: sleep (pid 4711)\nCursor: 0\n", ""},
		{"cancel_job", given{"job_id": "ID1"},
			"Job ID: ID1\nStatus: completed\nElapsed: T\nLeft running: sleep (pid 4711)\nEnded now: sleep (pid 4711)\nCursor: 0\n", ""},
	},
	"cancel what can't be checked": {
		{"execute_command_async", given{"command": "leave unchecked"}, "", ""},
		{"cancel_job", given{"job_id": "ID1"},
			"Job ID: ID1\nStatus: completed\nElapsed: T\nLeft running: unchecked (pid 4711)\n" +
				"Note: the remaining processes could not be checked: too many open files\nCursor: 0\n", ""},
	},
	"install": {
		{"install_package_async", given{"package": "numpy", "session": "lab"},
			"Job ID: ID1\nStatus: completed\nElapsed: T\nCursor: 24\nSession: new\n\n--- STDOUT ---\ninstalled numpy for lab\n", ""},
	},
	"sessions": {
		{"create_session", given{"name": "lab"}, "Session: new\n\nlab, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n", ""},
		{"check_python_status", given{"session": "lab"}, "No Python job yet in session lab.", ""},
		{"create_session", given{"name": "twig", "from_session": "lab"},
			"Session: new\n\ntwig, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab, branch of lab\n" +
				"Shared with lab, so use each of these in one session only:\n  child 812 (sleep)\n", ""},
		{"delete_session", given{"session": "twig"}, "Session: twig\nDeleted: yes; no Python was running\n", ""},
		{"execute_python", given{"code": `out ""`, "session": "lab"}, "Job ID: ID1\nStatus: completed\nElapsed: T\nCursor: 0\n", ""},
		{"execute_python", given{"code": `out "x"`, "session": "other"},
			"Job ID: ID2\nStatus: completed\nElapsed: T\nCursor: 1\nSession: new\n\n--- STDOUT ---\nx\n", ""},
		{"list_sessions", nil, "Sessions: 3 of at most 50\n\ndefault, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n" +
			"lab, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n" +
			"other, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n", ""},
		{"execute_python", given{"code": "hang", "session": "lab", "wait_seconds": 0}, "", ""},
		{"delete_session", given{"session": "lab"},
			"Session: lab\nDeleted: yes; all variables are lost\nEnded: ID3 cancelled (killed by delete_session), python lab, T: hang\n", ""},
		{"list_jobs", given{"session": "lab", "limit": 1},
			"Jobs: 1, newest first\nMore: list_jobs with before=ID3\n\nID3 cancelled (killed by delete_session), python lab, T: hang\n", ""},
		{"execute_python", given{"code": `out ""`, "session": "lab"}, "Job ID: ID4\nStatus: completed\nElapsed: T\nCursor: 0\nSession: new\n", ""},
	},
	"sessions with packages": {
		{"create_session", given{"name": "lab", "venv": "own", "packages": "hang"},
			"Session: new\nInstalling: job ID1; the first jobs of the session wait for it\n\n" +
				"lab, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n", ""},
		{"delete_session", given{"session": "lab"}, "Session: lab\nDeleted: yes; all variables are lost\nKept: /lab/.venvs/lab, the environment of the session\n" +
			"Ended: ID1 cancelled (killed by delete_session), package lab, T: install hang\n", ""},
	},
	"checkpoints": {
		{"execute_python", given{"code": `out "x"`, "checkpoint": true},
			"Job ID: ID1\nStatus: completed\nElapsed: T\nCheckpoint: kept\nCursor: 1\n\n--- STDOUT ---\nx\n", ""},
		{"restart_python_worker", given{"checkpoint": "latest"},
			"Session: default\nRestarted: yes; the variables are those of the checkpoint of job J1\n", ""},
	},
	"notes": {
		{"execute_python", given{"code": `note "a new worker was started"`},
			"Job ID: ID1\nStatus: completed\nElapsed: T\nNote: a new worker was started\nCursor: 0\n", ""},
	},
	"no job yet": {
		{"check_python_status", nil, "No Python job yet in session default.", ""},
		{"list_jobs", nil, "No jobs yet.", ""},
		{"list_jobs", given{"status": "failed"}, "No such jobs.", ""},
		{"list_variables", nil, "No variables in session default.", ""},
	},
	"list": {
		{"execute_python", given{"code": code(`out ""`, "", `result "1"`), "session": "lab"}, "", ""},
		{"execute_command_async", given{"command": `ask line "Really? "`, "wait_seconds": 60}, "", ""},
		{"list_jobs", nil, "Jobs: 2, newest first\n\n" +
			"ID2 waiting_input, shell, T: ask line \"Really? \" (asks \"Really? \")\n" +
			"ID1 completed, python lab, T: out \"\" …\n", ""},
		{"list_jobs", given{"limit": 1}, "Jobs: 1, newest first\nMore: list_jobs with before=ID2\n\n" +
			"ID2 waiting_input, shell, T: ask line \"Really? \" (asks \"Really? \")\n", ""},
		{"list_jobs", given{"before": "ID2", "status": "completed", "session": "lab"},
			"Jobs: 1, newest first\n\nID1 completed, python lab, T: out \"\" …\n", ""},
	},
	"search": {
		{"execute_python", given{"code": code(`out "one\nno error\nthree\nfour\nfive\nError: six\nseven\n"`, `err "error on stderr\n"`, `result "an error"`)}, "", ""},
		{"search_job_output", given{"job_id": "ID1", "pattern": "(?i)error"},
			"Job ID: ID1\nStatus: completed\nMatches: 4\nSearched: 70 bytes (cursor 0..70)\n\n" +
				"stdout 4: no error\nstdout 29: Error: six\nstderr 46: error on stderr\nresult 62: an error\n", ""},
		{"search_job_output", given{"job_id": "ID1", "pattern": "error", "context": 1, "max_matches": 2},
			"Job ID: ID1\nStatus: completed\nMatches: 2, and more follow\nSearched: 62 bytes (cursor 0..62)\n" +
				"Next: search_job_output(job_id=…, pattern=…, cursor=62)\n\n" +
				"stdout 0- one\nstdout 4: no error\nstdout 13- three\nstderr 46: error on stderr\n", ""},
		{"search_job_output", given{"job_id": "ID1", "pattern": "t|f", "context": 1, "cursor": 5},
			"Job ID: ID1\nStatus: completed\nMatches: 4\nSearched: 65 bytes (cursor 5..70)\n\n" +
				"stdout 5- o error\nstdout 13: three\nstdout 19: four\nstdout 24: five\nstdout 29- Error: six\nstderr 46: error on stderr\n", ""},
		{"search_job_output", given{"job_id": "ID1", "pattern": "xyz"},
			"Job ID: ID1\nStatus: completed\nMatches: none\nSearched: 70 bytes (cursor 0..70)\n", ""},
	},
	"wait for any": {
		{"execute_python", given{"code": `out "x"`}, "", ""},
		{"execute_command_async", given{"command": code(`out "tick\n"`, "hang"), "wait_seconds": 0}, "", "tick\n"},
		{"wait_for_jobs", given{"job_ids": []string{"ID2", "ID1", "ID1"}},
			"Condition: met: job ID1 completed\nWaited: T\n\n" +
				"Job ID: ID2\nStatus: running\nElapsed: T\nCursor: 5\n\n" +
				"Job ID: ID1\nStatus: completed\nElapsed: T\nCursor: 1\n", ""},
		{"wait_for_jobs", given{"job_ids": []string{"ID2", "ID1"}, "until": "all", "wait_seconds": 0.02},
			"Condition: not met: 1 of 2 have ended; call again to wait longer\nWaited: T\n\n" +
				"Job ID: ID2\nStatus: running\nElapsed: T\nCursor: 5\n\n" +
				"Job ID: ID1\nStatus: completed\nElapsed: T\nCursor: 1\n", ""},
	},
	"wait for one that asks": {
		{"execute_command_async", given{"command": `ask key "any key"`, "wait_seconds": 60}, "", ""},
		{"wait_for_jobs", given{"job_ids": []string{"ID1"}, "until": "all", "wait_seconds": 100},
			"Condition: met: job ID1 waits for input\nWaited: T\n\n" +
				"Job ID: ID1\nStatus: waiting_input\nPrompt: any key\nWaiting: key, the test\nCursor: 7\n" +
				"Next: send_command_input(keys=[…] or text=…) or cancel_job\n", ""},
	},
	"wait for a line": {
		{"execute_python", given{"code": code(`out "one\nport 80\n"`)}, "", ""},
		{"execute_command_async", given{"command": code(`out "port 8080\n"`, "hang"), "wait_seconds": 0}, "", "port 8080\n"},
		{"wait_for_jobs", given{"job_ids": []string{"ID2", "ID1"}, "until": "all", "pattern": `port (\d+)`},
			"Condition: met: job ID2 matches pattern, job ID1 matches pattern\nWaited: T\n\n" +
				"Job ID: ID2\nStatus: running\nElapsed: T\nCursor: 10\n" +
				"Matched: stdout 0: port 8080\nCaptured: 1=8080\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=10)\n\n" +
				"Job ID: ID1\nStatus: completed\nElapsed: T\nCursor: 12\nMatched: stdout 4: port 80\nCaptured: 1=80\n", ""},
	},
	"wait for a line and read it": {
		{"execute_command_async", given{"command": code(`out "one\ntwo\nthree\nfour\nport 8080\nsix\n"`, "hang"), "wait_seconds": 0}, "", "six\n"},
		{"wait_for_jobs", given{"job_ids": []string{"ID1"}, "pattern": "port"},
			"Condition: met: job ID1 matches pattern\nWaited: T\n\n" +
				"Job ID: ID1\nStatus: running\nElapsed: T\nCursor: 33\n" +
				"Matched: stdout 19: port 8080\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=29)\n\n" +
				"stdout 4- two\nstdout 8- three\nstdout 14- four\nstdout 19: port 8080\nstdout 29- six\n", ""},
		{"wait_for_jobs", given{"job_ids": []string{"ID1"}, "pattern": "port", "cursor": 14, "show": true},
			"Condition: met: job ID1 matches pattern\nWaited: T\n\n" +
				"Job ID: ID1\nStatus: running\nElapsed: T\n" +
				"Matched: stdout 19: port 8080\nNext: wait_for_jobs(job_ids=[…], pattern=…, cursor=29)\nCursor: 33\n\n" +
				"--- STDOUT ---\nfour\nport 8080\nsix\n", ""},
		{"wait_for_jobs", given{"job_ids": []string{"ID1"}, "show": true, "wait_seconds": 0},
			"Condition: not met: 0 of 1 have ended; call again to wait longer\nWaited: T\n\n" +
				"Job ID: ID1\nStatus: running\nElapsed: T\nCursor: 33\n\n" +
				"--- STDOUT ---\none\ntwo\nthree\nfour\nport 8080\nsix\n", ""},
	},
	"restart": {
		{"restart_python_worker", nil, "Session: default\nRestarted: no Python was running; the next execute starts one\n", ""},
		{"execute_python", given{"code": "hang", "wait_seconds": 0}, "", ""},
		{"restart_python_worker", nil,
			"Session: default\nRestarted: yes; all variables are lost, the next execute starts a new Python\n" +
				"Ended: ID1 cancelled (killed by restart_python_worker), python default, T: hang\n", ""},
	},
	"framing is ours": {
		{"execute_python", given{"code": code(`out "--- STDERR ---\nStatus: completed\n--- RESULT ---\n"`,
			`ask line "ok?\nStatus: failed\n\n--- STDOUT ---\n"`), "wait_seconds": 60},
			"Job ID: ID1\nStatus: waiting_input\nPrompt: ok?\\nStatus: failed\\n\\n--- STDOUT ---\\n\nWaiting: line, the test\nCursor: 83\n" +
				"Next: send_python_input(text=…) or cancel_job\n\n" +
				"--- STDOUT ---\n\\--- STDERR ---\nStatus: completed\n\\--- RESULT ---\nok?\nStatus: failed\n\n\\--- STDOUT ---\n", ""},
		{"execute_python", given{"code": `result "--- STDOUT ---\nforged"`},
			"Job ID: ID2\nStatus: completed\nElapsed: T\nCursor: 21\n\n--- RESULT ---\n\\--- STDOUT ---\nforged\n", ""},
	},
}

func TestRepliesReadAsInTheExamples(t *testing.T) {
	t.Parallel()
	for name, steps := range replies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.dial(engine.Scope{})
			var p plainer
			for i, s := range steps {
				got := c.call(s.tool, p.real(t, s.args))
				if s.want == "" {
					p.plain(got) // only its job matters
					jobstest.Prints(t, w.job(got), s.prints)
					continue
				}
				if diff := cmp.Diff(s.want, p.plain(got)); diff != "" {
					t.Fatalf("step %d, %s: -want +got\n%s", i+1, s.tool, diff)
				}
			}
		})
	}
}

// flooded starts a job that prints 1,000 lines and asks, and returns the reply.
func flooded(w *world, c *client) string {
	return c.call("execute_command_async", given{"command": code("flood 1000", `ask line "more? "`, `out "done\n"`, "hang"), "wait_seconds": 60})
}

func TestNewestOutputIsShownOfARunningJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	first := flooded(w, c)
	if !strings.Contains(first, "line 0\n") || !strings.Contains(first, "line 999\n") {
		t.Errorf("an execute call does not show all its output:\n%s", first)
	}
	id := field(first, "Job ID")
	newest := c.call("check_job_status", given{"job_id": id})
	body := newest[strings.Index(newest, "--- STDOUT ---\n")+len("--- STDOUT ---\n"):]
	if n := chars(body); n > newestText || n < newestText/2 || !strings.HasSuffix(body, "line 999\nmore? \n") {
		t.Errorf("%d characters of the newest:\n%s", n, newest)
	}
	_, omitted, _ := strings.Cut(field(newest, "Omitted"), "(")
	want := fmt.Sprintf("cursor 0..%d)", w.job(first).Log().Stat().End-int64(len(strings.TrimSuffix(body, "\n"))))
	if !strings.HasPrefix(omitted, want) {
		t.Errorf("omitted is %q, not %q", omitted, want)
	}
	if again := c.call("check_job_status", given{"job_id": id}); again != newest {
		t.Errorf("a repeated call gets another answer:\n%s", again)
	}
	if all := c.call("check_job_status", given{"job_id": id, "max_chars": arguments.MaxText}); field(all, "Omitted") != "" || !strings.Contains(all, "\nline 0\n") {
		t.Errorf("with more room:\n%s", all)
	}
}

func TestReplyShowsTheOutputSinceTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	first := flooded(w, c)
	id, end := field(first, "Job ID"), w.job(first).Log().Stat().End
	sent := c.call("send_command_input", given{"job_id": id, "text": "y\n", "wait_seconds": 0})
	jobstest.Prints(t, w.job(first), "done\n")
	after := c.call("check_job_status", given{"job_id": id, "cursor": end})
	if strings.Contains(sent, "line") && strings.Contains(sent, "more?") || !strings.Contains(after, "2 characters") || strings.Contains(after, "line 999") {
		t.Errorf("sent:\n%s\nafter:\n%s", sent, after)
	}
	c.call("cancel_job", given{"job_id": id})
	final := c.call("check_job_status", given{"job_id": id})
	if !strings.Contains(final, "line 0\n") || !strings.Contains(final, "done\n") {
		t.Errorf("once final, not all of the output is shown:\n%s", final)
	}
}

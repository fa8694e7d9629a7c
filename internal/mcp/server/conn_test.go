package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// started calls tool without waiting for the answer, and returns the job that it starts once that
// runs.
func (w *world) started(c *client, tool string, a given) (id int, j *jobs.Job) {
	w.t.Helper()
	begun := w.nextJob()
	id = c.startCall(tool, a)
	select {
	case job := <-begun:
		return id, w.job("Job ID: " + job + "\n")
	case <-time.After(jobstest.Patience):
		w.t.Fatal("no job has been started")
		panic("unreachable")
	}
}

// One of two clients leaves in the middle of its calls.
func TestJobsOutliveTheirConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.drain = 50 * time.Millisecond
	leaves, stays := w.dial(engine.Scope{}), w.dial(engine.Scope{})
	_, left := w.started(leaves, "execute_python", given{"code": code(`out "begun\n"`, "gate go", `out "done\n"`), "wait_seconds": 100})
	leaves.startCall("wait_for_jobs", given{"job_ids": []string{left.ID()}, "wait_seconds": 100})
	call, stayed := w.started(stays, "execute_command_async", given{"command": code("gate go", `out "mine\n"`), "wait_seconds": 100})

	leaves.close()
	if s := left.Record().Status; s != jobs.Running {
		t.Errorf("the job of the client that left is %s", s)
	}
	w.open("go")
	m := stays.read()
	if text, _ := toolReply(t, m); m.ID != call || field(text, "Job ID") != stayed.ID() || field(text, "Status") != "completed" {
		t.Errorf("answer to %d: %s", m.ID, text)
	}
	jobstest.End(t, left)
	got := stays.call("check_job_status", given{"job_id": left.ID()})
	if !strings.HasSuffix(got, "--- STDOUT ---\nbegun\ndone\n") {
		t.Errorf("the job of the client that left:\n%s", got)
	}
}

// A client of a server without jobs guesses the id of one.
func TestJobsThatAreNotThere(t *testing.T) {
	t.Parallel()
	c := newWorld(t).dial(engine.Scope{})
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for tool, a := range map[string]given{
		"check_job_status":      {"job_id": id},
		"check_python_status":   {"job_id": id},
		"cancel_job":            {"job_id": id, "force": true},
		"execute_python":        {"code": "x", "from_job": id},
		"restart_python_worker": {"checkpoint": id},
		"send_command_input":    {"job_id": id, "text": "x"},
		"send_python_input":     {"job_id": id, "text": "x"},
		"wait_for_jobs":         {"job_ids": []string{id}},
		"search_job_output":     {"job_id": id, "pattern": "x"},
		"list_jobs":             {"before": id},
	} {
		if got, want := c.refused(tool, a), "No such job: "+id+"\nThat job belonged to an earlier server, "+
			"which has not recorded it for this workspace (REPL_HISTORY), or too long ago; or another server runs it (async-repl ps)."; got != want {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
	if got := c.refused("send_python_input", given{"text": "x"}); !strings.Contains(got, "No Python job waits") {
		t.Errorf("input for no job: %s", got)
	}
	if got := c.call("list_jobs", nil); got != "No jobs yet." {
		t.Errorf("the list: %s", got)
	}
}

func TestPanicOfAHandlerIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	other := &syncBuffer{}
	w.dial(engine.Scope{Log: slog.New(slog.NewTextHandler(other, nil))}).call("list_jobs", nil)
	j := w.job(c.call("execute_python", given{"code": `ask line "? "`, "wait_seconds": 60}))
	got := c.refused("send_python_input", given{"text": "panic"})
	if got != "Internal error: a defect of this server, described in its log. Jobs continue; list_jobs shows them." {
		t.Errorf("the client reads %q", got)
	}
	for _, want := range []string{"panic in a request", "tool=send_python_input", "with xxxxx", "program_test.go"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, w.log.String())
		}
	}
	if text := other.String(); text != "" {
		t.Errorf("another connection has it in its log:\n%s", text)
	}
	c.call("send_python_input", given{"text": "fine", "wait_seconds": 60})
	if s := jobstest.End(t, j).Status; s != jobs.Completed {
		t.Errorf("status %s", s)
	}
}

// Many calls are sent together.
func TestJobsStartInTheOrderOfTheirCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	const steps = 300
	var batch bytes.Buffer
	var want []string
	for i := range steps {
		step := strings.Repeat("\n", i) + `out "x"`
		want = append(want, step)
		batch.Write(rawjson.Of(map[string]any{"jsonrpc": "2.0", "id": 1000 + i, "method": "tools/call",
			"params": map[string]any{"name": "execute_python", "arguments": given{"code": step}}}))
		batch.WriteByte('\n')
	}
	go c.conn.Write(batch.Bytes()) // owned by the test, which reads an answer to each; ends when all is written
	for range steps {
		if _, isError := toolReply(t, c.read()); isError {
			t.Fatal("refused")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range want {
		if w.order[i] != want[i] {
			t.Fatalf("step %d was sent at place %d", len(w.order[i]), len(want[i]))
		}
	}
}

// A program returns to its prompt when it is interrupted.
func TestCancelDoesNotStopAtAPrompt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grace = 50 * time.Millisecond
	c := w.dial(engine.Scope{})
	j := w.job(c.call("execute_command_async", given{"command": code("prompt", "stubborn"), "wait_seconds": 60}))
	got := c.call("cancel_job", given{"job_id": j.ID()})
	if field(got, "Status") != "waiting_input" || field(got, "Cancelling") != "interrupt" || field(got, "Next") != "" {
		t.Errorf("after the grace:\n%s", got)
	}
	if got := c.call("execute_python", given{"code": `out "x"`}); field(got, "Also") != "" {
		t.Errorf("progress of a cancel:\n%s", got)
	}
	if got := c.call("wait_for_jobs", given{"job_ids": []string{j.ID()}, "wait_seconds": 0}); !strings.HasPrefix(got, "Condition: not met") {
		t.Errorf("a wait:\n%s", got)
	}
	c.call("cancel_job", given{"job_id": j.ID(), "force": true})
	if text := jobstest.End(t, j).Receipt.Text(); text != "cancelled (killed)" {
		t.Errorf("in the end: %s", text)
	}
}

// A job ends some time after its session has been restarted. The call waits for that during the
// grace.
func TestRestartNamesTheJobsThatItEnded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		grace time.Duration
		ends  bool // within it
		want  string
	}{
		"within the grace": {jobstest.Patience, true, "Ended: ID1 cancelled (killed by restart_python_worker), python default, T: linger go"},
		"later":            {50 * time.Millisecond, false, "Still ending: ID1 running, python default, T: linger go"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.grace = test.grace
			c := w.dial(engine.Scope{})
			_, j := w.started(c, "execute_python", given{"code": "linger go", "wait_seconds": 0})
			c.read()
			restarted := make(chan struct{})
			w.mu.Lock()
			w.restarted = restarted
			w.mu.Unlock()
			id := c.startCall("restart_python_worker", nil)
			<-restarted
			if test.ends {
				w.open("go")
			}
			m := c.read()
			if !test.ends {
				w.open("go")
			}
			text, isError := toolReply(t, m)
			_, got, _ := strings.Cut((&plainer{}).plain(text), "a new Python\n")
			if m.ID != id || isError || got != test.want+"\n" {
				t.Errorf("the reply says %q, want %q", got, test.want)
			}
			jobstest.End(t, j)
		})
	}
}

// A client that keeps its server between two uses, as FastMCP's does, initializes both.
func TestRepeatedInitialize(t *testing.T) {
	t.Parallel()
	c := newWorld(t).connect(engine.Scope{})
	var results []string
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		m := c.request("initialize", map[string]any{
			"protocolVersion": version, "capabilities": map[string]any{},
			"clientInfo": map[string]any{"name": "test", "version": "0"},
		})
		if m.Error != nil {
			t.Fatalf("%s: %s", version, m.Error.Message)
		}
		results = append(results, string(m.Result))
		c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
		c.call("list_jobs", nil)
	}
	if !strings.Contains(results[0], `"protocolVersion":"2025-06-18"`) || results[1] != results[0] {
		t.Errorf("answered %s", strings.Join(results, "\nand "))
	}
}

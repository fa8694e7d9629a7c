package server

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/jobs/jobstest"
)

// A progressNote is one progress notification.
type progressNote struct {
	ProgressToken any
	Progress      float64
	Total         *float64
	Message       string
}

// share returns the share of the work that is done, or 0 if the notification has no total.
func (n progressNote) share() float64 {
	if n.Total == nil {
		return 0
	}
	return n.Progress / *n.Total
}

// eras are the _meta of a call of each protocol.
var eras = map[string]map[string]any{
	"initialize": {},
	"2026-07-28": {
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "c", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	},
}

// startWithToken starts a call that gives a progress token.
func (c *client) startWithToken(era string, token any, tool string, a given) (id int) {
	c.t.Helper()
	meta := map[string]any{"progressToken": token}
	for k, v := range eras[era] {
		meta[k] = v
	}
	return c.start("tools/call", map[string]any{"name": tool, "arguments": a, "_meta": meta})
}

// notification returns the notification in a message; ok is false for an answer.
func (m message) notification(t *testing.T) (n progressNote, ok bool) {
	t.Helper()
	if m.Method == "" {
		return n, false
	}
	if m.Method != "notifications/progress" {
		t.Fatalf("%s: %s", m.Method, m.Params)
	}
	if err := json.Unmarshal(m.Params, &n); err != nil {
		t.Fatal(err)
	}
	return n, true
}

// Calls of every kind wait, in both protocols.
func TestWaitingCallsReportProgress(t *testing.T) {
	t.Parallel()
	for era := range eras {
		for name, tt := range map[string]struct {
			tool    string
			args    given
			message string
			share   float64 // of the work that is done, of a progress bar: a wait measures no work
		}{
			"execute": {"execute_python", given{"code": code(`out "\x1b[1mtick 1\x1b[0m\r\n"`, `err "part 1\rpart 2"`, "gate go"), "wait_seconds": 60}, "running, T: part 2", 0},
			"bar":     {"execute_python", given{"code": code(`err "\r 43%|####3     | 4300/10000 [00:12<00:16, 350.12it/s]"`, "gate go"), "wait_seconds": 60}, "running, T: 43%", 0.43},
			"quiet":   {"execute_command_async", given{"command": "gate go", "wait_seconds": 60}, "running, T", 0},
			"queued":  {"execute_python", given{"code": "queue go", "wait_seconds": 60}, "queued", 0},
			"status":  {"check_job_status", given{"job_id": "ID1", "wait_seconds": 59}, "running, T: " + strings.Repeat("é", 100), 0},
			"python":  {"check_python_status", given{"session": "first", "wait_seconds": 59}, "running, T: " + strings.Repeat("é", 100), 0},
			"several": {"wait_for_jobs", given{"job_ids": []string{"ID1", "ID2"}, "until": "all"}, "1 of 2 have ended; ID1 running, T: " + strings.Repeat("é", 60), 0},
			"cancel":  {"cancel_job", given{"job_id": "ID3"}, "running, cancelling: interrupt, T", 0},
			"input":   {"send_command_input", given{"job_id": "ID4", "text": "x", "wait_seconds": 58}, "running, T: typed 1", 0},
		} {
			t.Run(era+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.config.Progress = 2 * time.Millisecond
				var c *client
				if era == "initialize" {
					c = w.dial(engine.Scope{})
				} else {
					c = w.connect(engine.Scope{})
				}
				prepare := w.dial(engine.Scope{})
				var p plainer
				for _, code := range []string{
					code(`out "`+strings.Repeat("é", 3000)+`\n\n"`, "gate go"), `out "x"`, code(`out ""`, "stubborn"), code("keys", `out "ready\n"`, "gate go"),
				} {
					session := "first"
					if p.seen != nil {
						session = "others"
					}
					p.plain(prepare.call("execute_python", given{"code": code, "session": session, "wait_seconds": 0}))
				}
				jobstest.Prints(t, w.job("Job ID: "+p.seen[0]+"\n"), "\n\n")
				jobstest.End(t, w.job("Job ID: "+p.seen[1]+"\n"))
				jobstest.Prints(t, w.job("Job ID: "+p.seen[3]+"\n"), "ready\n")
				id := c.startWithToken(era, "token", tt.tool, p.real(t, tt.args))
				last := 0.0
				for sent := 0; sent < 3; {
					n, ok := c.read().notification(t)
					if !ok {
						t.Fatal("answered too early")
					}
					if n.ProgressToken != "token" || n.Progress <= last || chars(n.Message) > messageMax {
						t.Fatalf("%+v after %g", n, last)
					}
					last = n.Progress
					if math.Abs(n.share()-tt.share) < 1e-4 && strings.HasPrefix(p.plain(n.Message), tt.message) {
						sent++ // the first can come before the job has begun or printed
					} else if sent > 0 {
						t.Fatalf("%+v, a share of %g, want %q, %g", n, n.share(), tt.message, tt.share)
					}
				}
				w.open("go")
				if name == "cancel" {
					prepare.call("cancel_job", given{"job_id": p.seen[2], "force": true})
				}
				for {
					m := c.read()
					if _, ok := m.notification(t); ok {
						continue
					}
					if m.ID != id {
						t.Fatalf("answer to %d", m.ID)
					}
					break
				}
				id = c.startWithToken(era, nil, "list_jobs", nil)
				if m := c.read(); m.ID != id {
					t.Errorf("progress after the answer: %s", m.Params)
				}
			})
		}
	}
}

// A client reads nothing until its jobs have ended.
func TestProgressForAClientThatDoesNotReadIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Progress = time.Millisecond / 10
	c := w.dial(engine.Scope{})
	_, j := w.started(c, "execute_python", given{"code": code(`out "`+strings.Repeat("x", 150)+`"`, "gate go"), "wait_seconds": 0})
	c.read()
	const calls = 50
	waiting := map[int]bool{}
	for i := range calls {
		waiting[c.startWithToken("initialize", fmt.Sprint(i), "check_job_status", given{"job_id": j.ID(), "wait_seconds": 100})] = true
	}
	// Without a bound, more than the queue holds would be sent in this time.
	other := w.dial(engine.Scope{})
	other.call("check_job_status", given{"job_id": j.ID(), "wait_seconds": 0.5})
	w.open("go")
	jobstest.End(t, j)
	bytes := 0
	for len(waiting) > 0 {
		m := c.read()
		if m.Method != "" {
			bytes += len(m.Params)
			continue
		}
		if text, _ := toolReply(t, m); field(text, "Status") != "completed" {
			t.Errorf("answered:\n%s", text)
		}
		delete(waiting, m.ID)
	}
	if most := 3 << 20; bytes > most { // the queue of the transport, what it is writing, and the kernel's buffer
		t.Errorf("%d bytes of progress were sent", bytes)
	}
}

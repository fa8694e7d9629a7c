package main

import (
	"strings"
	"testing"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// A status call shows where the code of a running Python job is, without asking the session. The
// reply that started the job does not.
func TestStatusShowsTheStack(t *testing.T) {
	t.Parallel()
	needtest.Tracing(t, pystack.Available())
	s := startServer(t)
	const code = "import time\ndef nap():\n    time.sleep(3600)\nprint('ready')\nnap()"
	r := s.do("execute_python", "code", code, "wait_seconds", 0)
	if id := r.Header("Job ID"); r.Header("At") != "" || strings.Contains(string(r), "STACK") {
		t.Errorf("the reply that started the job:\n%s", r)
	} else {
		s.prints(id, "--- STDOUT ---\nready")
	}
	id := r.Header("Job ID")
	want := "--- STDOUT ---\nready\n--- STACK ---\nFile \"<job " + id + ">\", line 5, in <module>\n  nap()\nFile \"<job " + id + ">\", line 3, in nap\n  time.sleep(3600)\n"
	polltest.Until(t, "a look at the sleep", func() bool {
		r = s.do("check_python_status")
		return strings.HasPrefix(r.Header("At"), "line 3 in nap")
	})
	if !strings.HasSuffix(string(r), want) {
		t.Errorf("the status:\n%s\nwant at its end:\n%s", r, want)
	}
	if r := s.do("check_job_status", "job_id", id, "max_chars", 500); len(r) > 500 || r.Header("At") == "" {
		t.Errorf("a short status:\n%s", r)
	}
	if !strings.Contains(s.do("server_status").Header("Works"), "the stack of running Python is shown") {
		t.Error("the server's status does not say that looks work")
	}
	r = s.do("cancel_job", "job_id", id)
	if r.Header("At") != "" {
		t.Errorf("the reply to the cancel:\n%s", r)
	}
	id = s.do("execute_python", "code", "input('name')", "wait_seconds", 60).Header("Job ID")
	if r := s.do("check_job_status", "job_id", id); r.Header("Status") != "waiting_input" || r.Header("At") != "" {
		t.Errorf("a job that waits for input:\n%s", r)
	}
}

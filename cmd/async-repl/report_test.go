package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/test/polltest"
)

// read reads a resource that is one text.
func (s *started) read(uri string) string {
	s.t.Helper()
	raw, err := s.Request(s.ctx(), "resources/read", map[string]any{"uri": uri})
	if err != nil {
		s.t.Fatal(err)
	}
	var r struct{ Contents []struct{ Text string } }
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Contents) != 1 {
		s.t.Fatalf("%v in %s", err, raw)
	}
	return r.Contents[0].Text
}

// record reads the record of a job.
func (s *started) record(id string) (r report.Document) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.read("job://"+id)), &r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// matches checks each header against a regular expression.
func matches(t *testing.T, r client.Reply, headers map[string]string) {
	t.Helper()
	for name, want := range headers {
		if got := r.Header(name); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s is %q, want %s:\n%s", name, got, want, r)
		}
	}
}

// leaveBehind runs a command of which one process ignores the hangup and one does not. The first
// prints "late" when something is written to the workspace's file "gate".
func (s *started) leaveBehind() client.Reply {
	s.t.Helper()
	const command = `rm -f gate ready; mkfifo gate; sh -c 'trap "" HUP; : >ready; read x <gate; echo late; sleep 1000' & ` +
		`sleep 1000 & until [ -e ready ] && grep -qx sleep /proc/$!/comm; do sleep 0.01; done; echo done`
	for end := time.Now().Add(patience); time.Now().Before(end); {
		r := s.do("execute_command_async", "wait_seconds", 60, "command", command)
		if !strings.Contains(r.Header("Left running"), "sleep") {
			return r
		}
		s.do("cancel_job", "job_id", r.Header("Job ID")) // on a busy machine a process can outlive its hangup by more than 50 ms
	}
	s.t.Fatal("the hangup always takes more than 50 ms")
	return ""
}

// Every reply about a command names the processes that it left running, in words and in the record,
// until that has ended.
func TestLeftBehind(t *testing.T) {
	if carrier() == "kubernetes" {
		t.Skip("at a place: its pod does not have the workspace of the test")
	}
	t.Parallel()
	s := startServer(t)
	r := s.leaveBehind()
	id, hungUp, left := r.Header("Job ID"), r.Header("Hung up"), r.Header("Left running")
	matches(t, r, map[string]string{
		"Status": "^completed$", "Hung up": `^sleep \(pid \d+\); give a server a job of its own$`, "Left running": `^sh \(pid \d+\)$`, "Late output": "^$",
	})
	if err := os.WriteFile(filepath.Join(s.dir, "gate"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	r = s.prints(id, "late\n")
	holds(t, r, "Late output", "6 bytes", "Cursor", "12", "Hung up", hungUp)
	if !strings.HasSuffix(string(r), "\ndone\nlate\n") {
		t.Errorf("late output:\n%s", r)
	}
	rec := s.record(id)
	if rec.Output.Late != 6 || len(rec.Receipt.HungUp) != 1 || len(rec.Receipt.Left) != 1 || rec.Usage != nil {
		t.Errorf("the record: %+v, %+v", rec, rec.Receipt)
	}
	if code := rec.Receipt.ExitCode; code == nil || *code != 0 {
		t.Errorf("exit code %v in the record", code)
	}
	if text := s.read("job://" + id + "/output?cursor=6&view=raw"); text != "late\r\n" {
		t.Errorf("late output as a resource: %q", text)
	}
	processes := carrier() == "" // the status counts none at a place
	polltest.Until(t, "the processes that are left in the status", func() bool {
		return !processes || strings.HasPrefix(s.do("server_status").Header("Processes"), "2 of jobs and sessions, ")
	})
	matches(t, s.do("cancel_job", "job_id", id), map[string]string{"Status": "^completed$", "Ended now": regexp.QuoteMeta(left)})
	matches(t, s.do("server_status"), map[string]string{"Processes": "^0 of jobs and sessions, "})
}

// server_status shows the running jobs and processes.
func TestServerStatus(t *testing.T) {
	if testing.Short() {
		t.Skip("makes an environment")
	}
	t.Parallel()
	s := startServer(t, ownEnvironment, "REPL_MAX_STATE=1GiB")
	r := s.do("server_status")
	matches(t, r, map[string]string{
		"Version":   fmt.Sprintf(`^[0-9]+\.[0-9]+\.\S+ \(go[^)]+\), pid %d, up [0-9.]+s$`, s.engine()),
		"Workspace": "^" + regexp.QuoteMeta(s.dir) + "$",
		"Works":     `^terminals; .*guard \(started with the first job\).*; shell /.*sh`,
		"Python":    "^" + regexp.QuoteMeta(filepath.Join(s.dir, ".venv")) + ` will be made on first use from /.*python3\S* \(3\.\d+\)$`,
		"Jobs":      "^0 of at most 1,000 at once$",
		"Sessions":  "^0 of at most 50$",
		"Processes": `^0 of jobs and sessions, 0 B; the server itself [0-9.]+ MiB$`,
		"Disk":      `^0 B of at most 1\.0 GiB of output in ` + regexp.QuoteMeta(s.records()) + `, [0-9.]+ .iB free$`,
		"Orphans":   "^$",
	})

	id := s.do("execute_python", "code", "import time; time.sleep(1000)", "session", "lab", "wait_seconds", 0).Header("Job ID")
	s.do("execute_python", "code", "1", "session", "lab", "wait_seconds", 0)
	s.do("execute_command_async", "command", "yes | head -c 3000000", "wait_seconds", 60, "max_chars", 0)
	polltest.Until(t, "the worker", func() bool { return s.record(id).Usage != nil })
	u := s.record(id).Usage
	if u.Processes != 1 || u.Memory < 1<<20 {
		t.Errorf("usage %+v", u)
	}
	r = s.do("server_status")
	matches(t, r, map[string]string{
		"Works":     `guard \(pid \d+\)`,
		"Python":    "^" + regexp.QuoteMeta(filepath.Join(s.dir, ".venv", "bin", "python")) + `\S* \(3\.\d+\)$`,
		"Jobs":      "^1 of at most 1,000 at once: 1 queued, 1 running; ended: 1 completed$",
		"Session":   `^lab, busy with job ` + id + `, 1 queued, pid \d+, [0-9.]+ MiB$`,
		"Processes": `^1 of jobs and sessions, [0-9.]+ MiB; `,
		"Disk":      `^4\.[0-9] MiB of at most `,
	})
}

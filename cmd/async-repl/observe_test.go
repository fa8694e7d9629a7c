package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/polltest"
)

// metricsURL returns where a server serves its metrics. It waits until it does.
func (s *started) metricsURL() string {
	s.t.Helper()
	s.url() // said before
	line := ""
	polltest.Until(s.t, "the address of the metrics", func() bool {
		_, rest, _ := strings.Cut(s.log.String(), "serving metrics at ")
		var whole bool
		line, _, whole = strings.Cut(rest, "\n")
		return whole
	})
	return line
}

// An accessLine is a line of the access log with all the fields that there can be.
type accessLine struct {
	Time, Tenant, Era, Method, Path, Tool, Job, Result string
	Status                                             int
	Seconds                                            float64
	Bytes                                              int64
}

// accesses returns the lines of an access log in which keep is true.
func accesses(t *testing.T, path string, keep func(accessLine) bool) (lines []accessLine) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	for d.More() {
		var line accessLine
		if err := d.Decode(&line); err != nil {
			t.Fatalf("%v in\n%s", err, raw)
		}
		if keep(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// secret is what the calls of makeCalls bring in by every way, and nothing may show.
const secret = "hunter2"

// makeCalls makes calls in both eras, of which some fail, and returns the id of the job of each
// era.
func makeCalls(t *testing.T, s *started, token string) (ran map[string]string) {
	t.Helper()
	ran = make(map[string]string)
	for version, era := range map[string]string{client.Newer: "2026-07-28", client.Older: "initialize"} {
		c := s.join(version, token)
		r, err := c.Call(s.ctx(), "execute_command_async", map[string]any{"command": "read -p '" + secret + "?' a; echo $a", "wait_seconds": 60})
		if err != nil {
			t.Fatal(err)
		}
		ran[era] = r.Header("Job ID")
		if _, err := c.Call(s.ctx(), "send_command_input", map[string]any{"job_id": ran[era], "text": secret + "\n", "wait_seconds": 60}); err != nil {
			t.Fatal(err)
		}
		c.Call(s.ctx(), "check_job_status", map[string]any{"job_id": secret}) // there is no such job
		c.Call(s.ctx(), secret, nil)                                          // nor such a tool
	}
	if status, _ := get(s.url(), secret).answer(t); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
	return ran
}

// Each call over HTTP is a line of the access log, with its tenant, era, tool and job.
func TestRequestsAreLogged(t *testing.T) {
	t.Parallel()
	file, log := newTokens(t, "ada"), filepath.Join(t.TempDir(), "access.log")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-access-log", log, "-tokens", file.path)
	for era, job := range makeCalls(t, s, file.tokens["ada"]) {
		for tool, want := range map[string]accessLine{
			"execute_command_async": {Job: job, Result: "ok", Status: 200},
			"send_command_input":    {Job: job, Result: "ok", Status: 200},
			"check_job_status":      {Result: "error", Status: 200},
		} {
			line := theAccess(t, log, func(l accessLine) bool { return l.Era == era && l.Tool == tool })
			if line.Time == "" || line.Seconds <= 0 || line.Bytes <= 0 {
				t.Errorf("%s: %+v", tool, line)
			}
			line.Time, line.Seconds, line.Bytes = "", 0, 0
			want.Tenant, want.Era, want.Method, want.Path, want.Tool = "ada", era, "tools/call", "/mcp", tool
			if line != want {
				t.Errorf("got %+v, want %+v", line, want)
			}
		}
	}
	refused := func(l accessLine) bool { return l.Status == 401 && l.Tenant == "" && l.Result == "refused" }
	theAccess(t, log, refused)
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	showsNoSecret(t, string(raw), file.tokens["ada"])

	// A hangup opens the log again.
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	s.cmd.Process.Signal(syscall.SIGHUP)
	polltest.Until(t, "the new file", func() bool { _, err := os.Stat(log); return err == nil })
	get(s.url(), "").answer(t)
	theAccess(t, log, refused) // beside those of calls before, whose lines can come after their answers
}

// An answer with pictures is a line like any other.
func TestCallsWithPicturesAreLogged(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-access-log", log, "-python", realPython())
	for version, era := range map[string]string{client.Newer: "2026-07-28", client.Older: "initialize"} {
		s.Client = s.join(version, "")
		text, shown := s.blocks(noise + "Noise(7)")
		if len(shown) != 1 {
			t.Fatalf("%d pictures with\n%s", len(shown), text)
		}
		line := theAccess(t, log, func(l accessLine) bool { return l.Era == era && l.Tool == "execute_python" })
		if id := text.Header("Job ID"); line.Job != id || line.Result != "ok" {
			t.Errorf("job %s: %+v", id, line)
		}
	}
}

// theAccess returns the only line of an access log in which keep is true. It waits for it: a
// request is reported when it has been answered.
func theAccess(t *testing.T, log string, keep func(accessLine) bool) accessLine {
	t.Helper()
	var lines []accessLine
	polltest.Until(t, "the line of a request", func() bool {
		lines = accesses(t, log, keep)
		return len(lines) > 0
	})
	if len(lines) > 1 {
		t.Errorf("more than one line: %+v", lines)
	}
	return lines[0]
}

func showsNoSecret(t *testing.T, text, token string) {
	t.Helper()
	for _, never := range []string{secret, token} {
		if strings.Contains(text, never) {
			t.Errorf("%s stands in\n%s", never, text)
		}
	}
}

// The metrics count each call over HTTP by its tool and result, and the jobs by their end.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	file := newTokens(t, "ada")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-tokens", file.path)
	makeCalls(t, s, file.tokens["ada"])
	text := ""
	for _, want := range []string{
		`async_repl_request_duration_seconds_count{tool="execute_command_async",result="ok"} 2`,
		`async_repl_request_duration_seconds_count{tool="check_job_status",result="error"} 2`,
		`async_repl_jobs{status="running"} 0`,
		`async_repl_jobs_ended_total{status="completed"} 2`,
		"async_repl_sessions 0\n",
		"async_repl_output_bytes_total 52\n", // of both: the question, the answer as it is typed, and as it is printed
	} {
		polltest.Until(t, want, func() bool { // a request is counted when it has been answered
			_, text = get(s.metricsURL(), "").answer(t)
			return strings.Contains(text, want)
		})
	}
	showsNoSecret(t, text, file.tokens["ada"])
}

// The metrics show what the server itself takes and has to do.
func TestMetricsShowTheServer(t *testing.T) {
	t.Parallel()
	file := newTokens(t, "ada")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-tokens", file.path)
	url := s.metricsURL()
	c := s.join(client.Older, file.tokens["ada"])
	ctx, leave := context.WithCancel(s.ctx())
	called := make(chan struct{})
	go func() { // owned by the test, which waits for it
		defer close(called)
		c.Call(ctx, "execute_command_async", map[string]any{"command": "sleep 1000", "wait_seconds": 50})
	}()
	shows := func(want string) {
		t.Helper()
		line := regexp.MustCompile("(?m)^" + want + "$")
		polltest.Until(t, want, func() bool {
			_, text := get(url, "").answer(t)
			return line.MatchString(text)
		})
	}
	for _, want := range []string{
		`async_repl_connections\{caller="known"\} [1-9]`,
		`async_repl_calls_in_flight 1`, `async_repl_mcp_sessions 1`, `process_resident_memory_bytes \d{7,9}`,
		`process_open_fds \d{1,2}`, `process_max_fds \d+`, `go_goroutines \d{1,2}`,
	} {
		shows(want)
	}
	// The client can have made a connection that it did not need, so there can be more than this one.
	silent, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.url(), "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	shows(`async_repl_connections\{caller="unknown"\} [1-9]`)
	leave()
	<-called
}

// A server says whether it can start a job, to anybody.
func TestHealth(t *testing.T) {
	t.Parallel()
	file := newTokens(t, "ada")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-tokens", file.path)
	health := strings.TrimSuffix(s.url(), "/mcp") + "/healthz"
	if status, text := get(health, "").answer(t); status != http.StatusOK || text != "ok\n" {
		t.Errorf("at first: %d %s", status, text)
	}
	notApart(t, "no job removes its workspace, which is mounted")
	c := s.join(client.Newer, file.tokens["ada"])
	if _, err := c.Call(s.ctx(), "execute_command_async", map[string]any{"command": "rmdir \"$PWD\"", "wait_seconds": 60}); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the refusal", func() bool { // the answer before counts for a second
		status, text := get(health, "").answer(t)
		return status == http.StatusServiceUnavailable && strings.HasPrefix(text, "no job can be started: starting a process: ")
	})
}

// Programs of this machine can read the metrics. Others need a token.
func TestWhoReadsMetrics(t *testing.T) {
	t.Parallel()
	file := newTokens(t, "ada")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-metrics", "0.0.0.0:0", "-tokens", file.path, "-behind-proxy")
	url := strings.Replace(s.metricsURL(), "0.0.0.0", "127.0.0.1", 1)
	for token, want := range map[string]int{"": 401, "wrong": 401, file.tokens["ada"]: 200} {
		if status, _ := get(url, token).answer(t); status != want {
			t.Errorf("token %q: %d, want %d", token, status, want)
		}
	}

	socket := filepath.Join(t.TempDir(), "metrics")
	s = serveWith(t, "-listen", "127.0.0.1:0", "-metrics", "unix:"+socket)
	if got, want := s.metricsURL(), "unix:"+socket+", path /metrics"; got != want {
		t.Errorf("at a Unix socket: %s, want %s", got, want)
	}
	if st, err := os.Stat(socket); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", st, err)
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	if got := s.exit(); got != "exit status 0" {
		t.Errorf("%s, log %q", got, s.log)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}

	s = serveWith(t, "-listen", "127.0.0.1:0", "-metrics", "127.0.0.1:0")
	url = s.metricsURL()
	if status, _ := get(url, "").answer(t); status != http.StatusOK {
		t.Errorf("on the loopback: %d", status)
	}
	if status, _ := get(strings.TrimSuffix(url, "/metrics")+"/mcp", "").answer(t); status != http.StatusNotFound {
		t.Errorf("MCP at the address of the metrics: %d", status)
	}
	r, err := http.NewRequestWithContext(s.ctx(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "rebound.example"
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("by a name that leads here: %d", res.StatusCode)
	}
}

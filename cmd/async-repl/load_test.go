package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/jobs/jobstest"
)

// A quick is one quick job of the load test: the call that starts it, and the last reply that it
// must get.
type quick struct {
	tool           string
	args           map[string]any
	status         string
	stdout, stderr string
	result         string
}

// quickJob returns job n of a series of alternating kinds, lengths and ends. Each line of output
// names the job.
func quickJob(n int) quick {
	var out, errs strings.Builder
	lines := 1 + n*n%40
	for i := range lines {
		fmt.Fprintf(&out, "job %d line %d %s\n", n, i, strings.Repeat("x", n%80))
	}
	fmt.Fprintf(&errs, "job %d complains\n", n)
	q := quick{stdout: out.String(), stderr: errs.String(), status: "completed"}
	code := n % 3
	switch kind := n % 4; kind {
	case 0, 1: // Python, in one of five sessions
		body := fmt.Sprintf("import sys\nfor i in range(%d): print('job %d line', i, 'x' * %d)\nprint('job %d complains', file=sys.stderr)\n", lines, n, n%80, n)
		switch code {
		case 0:
			body += fmt.Sprintf("'result of %d'", n)
			q.result = fmt.Sprintf("'result of %d'", n)
		case 1:
			body += "raise SystemExit(1)"
			q.status = "failed (exit 1; variables kept)"
		case 2:
			body += fmt.Sprintf("raise KeyError(%d)", n)
			q.status = fmt.Sprintf("failed (KeyError: %d)", n)
		}
		q.tool, q.args = "execute_python", map[string]any{"code": body, "session": "s" + strconv.Itoa(n%5)}
	default: // shell, on a terminal or on pipes
		script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo \"job %d line $i %s\"; i=$((i+1)); done; echo 'job %d complains' >&2; exit %d", lines, n, strings.Repeat("x", n%80), n, code)
		if code != 0 {
			q.status = fmt.Sprintf("failed (exit %d)", code)
		}
		q.tool, q.args = "execute_command_async", map[string]any{"command": script, "tty": kind == 2}
		if kind == 2 {
			q.stdout, q.stderr = q.stdout+q.stderr, ""
		}
	}
	q.args["wait_seconds"] = n % 2
	return q
}

// play starts the job, waits for its end and returns an error if a reply is wrong.
func (q quick) play(ctx context.Context, c *client.Client) error {
	r, err := c.Call(ctx, q.tool, q.args)
	if err != nil {
		return err
	}
	id := r.Header("Job ID")
	for range 2 { // a second call returns the same
		r, err = c.Call(ctx, "check_job_status", map[string]any{"job_id": id, "wait_seconds": 100})
		if err != nil {
			return err
		}
		if got := r.Header("Status"); got != q.status {
			return fmt.Errorf("status %q, want %q\n%s", got, q.status, r)
		}
		stderr := r.Section("STDERR")
		if strings.HasPrefix(q.status, "failed (KeyError") {
			stderr, _, _ = strings.Cut(stderr, "Traceback")
		}
		for name, part := range map[string][2]string{
			"STDOUT": {r.Section("STDOUT"), q.stdout},
			"STDERR": {stderr, q.stderr},
			"RESULT": {r.Section("RESULT"), q.result},
		} {
			if got, want := strings.TrimSpace(part[0]), strings.TrimSpace(part[1]); got != want {
				return fmt.Errorf("%s of job %s is\n%s\nwant\n%s\nin\n%s", name, id, got, want, r)
			}
		}
	}
	return nil
}

// Of many quick jobs of both kinds, 50 in flight, each has exactly its own output, result and
// receipt.
func TestQuickJobsKeepTheirOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("a load test")
	}
	t.Parallel()
	s := startServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), 8*patience)
	defer cancel()
	jobs := make(chan int) // unbuffered: handed over one at a time
	var players sync.WaitGroup
	for range 50 {
		players.Go(func() {
			for n := range jobs {
				if err := quickJob(n).play(ctx, s.Client); err != nil {
					t.Errorf("job %d: %v", n, err)
					cancel() // one failure is enough
				}
			}
		})
	}
	for n := range jobstest.Rounds(t, 200) {
		select {
		case jobs <- n:
		case <-ctx.Done():
		}
	}
	close(jobs)
	players.Wait()
}

// floods are jobs that print without end, one for each way to print.
var floods = []struct {
	tool string
	args map[string]any
}{
	{"execute_command_async", map[string]any{"command": "yes on a terminal"}},
	{"execute_command_async", map[string]any{"command": "yes on a pipe", "tty": false}},
	{"execute_command_async", map[string]any{"command": "x=$(printf %9999s); while :; do echo \"$x\"; echo err >&2; done", "tty": false}},
	{"execute_python", map[string]any{"code": "while True: print('x' * 999)"}},
}

// startFloods starts eight floods and returns their ids.
func startFloods(t testing.TB, s *started) (ids []string) {
	t.Helper()
	for i := range 8 {
		f := floods[i%len(floods)]
		args := map[string]any{"wait_seconds": 0}
		for name, value := range f.args {
			args[name] = value
		}
		if f.tool == "execute_python" {
			args["session"] = "flood" + strconv.Itoa(i)
		}
		r, err := s.Call(s.ctx(), f.tool, args)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.Header("Job ID"))
	}
	return ids
}

// Eight floods at once can be polled, stay within their limits and can be cancelled. They use every
// core, so no other test runs meanwhile.
func TestLoadEightFloods(t *testing.T) {
	if testing.Short() {
		t.Skip("a load test")
	}
	const limit = 256 << 10
	s := startServer(t, "REPL_MAX_OUTPUT="+strconv.Itoa(limit))
	ids := startFloods(t, s)
	for i, id := range ids {
		for cursor := 0; cursor < 2*limit; {
			r := s.do("check_job_status", "job_id", id, "cursor", cursor, "wait_seconds", 0.02)
			next, err := strconv.Atoi(r.Header("Cursor"))
			if err != nil || next < cursor {
				t.Fatalf("flood %d: cursor %d, then %q", i, cursor, r.Header("Cursor"))
			}
			if got := r.Header("Status"); got != "running" && (got != "queued" || carrier() == "") { // the start of its engine can take long
				t.Fatalf("flood %d is %s\n%s", i, got, r)
			}
			if len(r) > 16_500 {
				t.Errorf("flood %d: a reply of %d bytes", i, len(r))
			}
			cursor = next
		}
	}
	for i, id := range ids {
		s.do("cancel_job", "job_id", id)
		r := s.end(id)
		if got := r.Header("Status"); !strings.HasPrefix(got, "cancelled (interrupted") {
			t.Errorf("flood %d is %s", i, got)
		}
		if err := droppedIsTrue(r, limit); err != nil {
			t.Errorf("flood %d: %v\n%.500s", i, err, r)
		}
	}
	if kib := peak(t, s.inner()); kib > 100_000 {
		t.Errorf("the server had %d KiB", kib)
	}
}

// droppedIsTrue compares the number of dropped bytes in a reply with the number written.
func droppedIsTrue(r client.Reply, limit int) error {
	end, err1 := strconv.Atoi(r.Header("Cursor"))
	number, _, ok := strings.Cut(r.Header("Dropped"), " bytes")
	gone, err2 := strconv.Atoi(strings.ReplaceAll(number, ",", ""))
	if err := errors.Join(err1, err2); err != nil || !ok {
		return fmt.Errorf("the reply does not say how much is gone: %v", err)
	}
	// The newest, up to a sixteenth of the limit, comes on top.
	if kept := end - gone; kept < limit-limit/8 || kept > limit+limit/8 {
		return fmt.Errorf("%d of %d bytes are kept, the limit is %d", kept, end, limit)
	}
	return nil
}

package mcpserver

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// parts takes a reply with STDOUT only apart.
func parts(t *testing.T, reply string) (head, tail string, from, to int64) {
	t.Helper()
	_, body, _ := strings.Cut(reply, "--- STDOUT ---\n")
	omitted := field(reply, "Omitted")
	if omitted == "" {
		return body, "", 0, 0
	}
	var n string
	if _, err := fmt.Sscanf(omitted, "%s bytes (cursor %d..%d)", &n, &from, &to); err != nil || n != view.Count(to-from) {
		t.Fatalf("omitted %q: %v", omitted, err)
	}
	head, tail, _ = strings.Cut(body, fmt.Sprintf("[… cursor %d..%d not shown …]\n", from, to))
	return head, tail, from, to
}

// TestRoom asks for replies of many sizes: none is longer, and what is shown and
// what is said to be left out are all of the output, byte for byte.
func TestRoom(t *testing.T) {
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	reply := c.call("execute_command_async", arguments{"command": code("flood 20000", `result "[1, 2]"`), "wait_seconds": 60})
	j := w.job(reply)
	all := jobstest.Output(j)
	for _, n := range []int{0, 1, 150, 400, 401, 500, 777, 1000, 2000, 5000, 16000, 45000} {
		got := c.call("check_job_status", arguments{"job_id": j.ID(), "max_chars": n})
		if chars(got) > max(n, 200) {
			t.Errorf("max_chars %d: %d characters", n, chars(got))
		}
		if n >= 1000 && chars(got) < n*3/4 {
			t.Errorf("max_chars %d: only %d characters", n, chars(got))
		}
		got, _, _ = strings.Cut(got, "--- RESULT ---\n")
		head, tail, from, to := parts(t, got)
		if n >= 500 && head+all[from:to]+tail != all {
			t.Errorf("max_chars %d: %d bytes, %d..%d left out, %d bytes, of %d", n, len(head), from, to, len(tail), len(all))
		}
		if n < 200 && to-from != int64(len(all)) {
			t.Errorf("max_chars %d: %d..%d left out of %d", n, from, to, len(all))
		}
	}
}

// TestReadingOn pages through output by cursor, as a client would.
func TestReadingOn(t *testing.T) {
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	j := w.job(c.call("execute_command_async", arguments{"command": "flood 3000", "wait_seconds": 60, "max_chars": 0}))
	all := jobstest.Output(j)
	var read strings.Builder
	for cursor, pages := int64(0), 0; cursor < int64(len(all)); pages++ {
		got := c.call("check_job_status", arguments{"job_id": j.ID(), "cursor": cursor, "max_chars": 2000})
		head, tail, from, _ := parts(t, got)
		read.WriteString(head)
		if cursor = from; from == 0 {
			read.WriteString(tail)
			break
		}
		if pages > len(all)/500 {
			t.Fatal("no progress")
		}
	}
	if read.String() != all {
		t.Errorf("read %d bytes of %d", read.Len(), len(all))
	}
}

// TestMarkOfTheHole has output left out of one stream or of both: only where
// something is missing stands a mark.
func TestMarkOfTheHole(t *testing.T) {
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	for name, tt := range map[string]struct {
		code           string
		stdout, stderr bool // have a mark
	}{
		"a traceback behind a flood": {code(`err "careful\n"`, "flood 200000", `err "Traceback\n"`), true, false},
		"a word before a flood":      {code(`err "careful\n"`, "flood 20000"), true, false},
		"errors flood":               {code(`out "begin\n"`, "errors 20000", `out "end\n"`), false, true},
		"both":                       {code("flood 20000", "errors 20000"), true, true},
		"a little in the middle":     {code(`err "careful\n"`, "flood 20000", `err "again\n"`, "flood 20000", `err "Traceback\n"`), true, true},
	} {
		got := c.call("execute_python", arguments{"code": tt.code, "wait_seconds": 60})
		out, errs, _ := strings.Cut(got, "--- STDERR ---\n")
		if stdout, stderr := strings.Contains(out, " not shown …]"), strings.Contains(errs, " not shown …]"); stdout != tt.stdout || stderr != tt.stderr {
			t.Errorf("%s: mark under STDOUT %t, under STDERR %t", name, stdout, stderr)
		}
		if field(got, "Omitted") == "" {
			t.Errorf("%s: nothing is said to be left out", name)
		}
	}
}

// TestLongResult has a result and output that both are too long.
func TestLongResult(t *testing.T) {
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	long := strconv.Quote(strings.Repeat("0123456789, ", 10_000))
	for name, lines := range map[string]string{
		"alone":       code("result " + long),
		"with little": code(`out "hello\n"`, "result "+long),
		"with much":   code("flood 20000", "result "+long),
	} {
		got := c.call("execute_python", arguments{"code": lines, "wait_seconds": 60})
		if n := chars(got); n > defaultText {
			t.Errorf("%s: %d characters", name, n)
		}
		if !strings.Contains(got, "--- RESULT ---\n0123456789, ") {
			t.Errorf("%s: no result in\n%s", name, got)
		}
		got = c.call("check_job_status", arguments{"job_id": field(got, "Job ID"), "max_chars": 0})
		if field(got, "Omitted result") != "120,000 characters" || chars(got) > 250 {
			t.Errorf("%s: nothing but\n%s", name, got)
		}
	}
}

// TestTornOutput has writes that end inside a character or an escape sequence,
// with the other stream in between.
func TestTornOutput(t *testing.T) {
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	first := c.call("execute_python", arguments{
		"code": code(`out "caf\xc3"`, `err "warning: \x1b[3"`, "gate rest", `out "\xa9\n"`, `err "1mred\x1b[0m\n"`, "hang"), "wait_seconds": 0})
	jobstest.Prints(t, w.job(first), "warning: \x1b[3")
	first = c.call("check_job_status", arguments{"job_id": field(first, "Job ID")})
	if field(first, "Cursor") != "3" || !strings.HasSuffix(first, "\n\n--- STDOUT ---\ncaf\n") {
		t.Errorf("a torn character is shown:\n%s", first)
	}
	w.open("rest")
	jobstest.Prints(t, w.job(first), "1mred\x1b[0m\n")
	second := c.call("check_job_status", arguments{"job_id": field(first, "Job ID"), "cursor": 3})
	if !strings.HasSuffix(second, "\n\n--- STDOUT ---\né\n--- STDERR ---\nwarning: red\n") {
		t.Errorf("what was torn is not whole:\n%q", second)
	}
}

// TestOpenSequence has an escape sequence that never ends: it must not hide what
// comes after it.
func TestOpenSequence(t *testing.T) {
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	got := c.call("execute_python", arguments{"code": code(`err "\x1b]0;title"`, "flood 2000", "hang"), "wait_seconds": 0})
	jobstest.Prints(t, w.job(got), "line 1999\n")
	got = c.call("check_job_status", arguments{"job_id": field(got, "Job ID")})
	if !strings.Contains(got, "line 1999\n") {
		t.Errorf("hidden:\n%s", got)
	}
}

func TestLateOutput(t *testing.T) {
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	got := c.call("execute_python", arguments{"code": code(`out "in time\n"`, `late "too late\n"`), "wait_seconds": 60})
	if field(got, "Late output") != "" {
		t.Errorf("late too early:\n%s", got)
	}
	w.open("late")
	select {
	case <-w.wroteLate:
	case <-time.After(jobstest.Patience):
		t.Fatal("no late output")
	}
	got = c.call("check_job_status", arguments{"job_id": field(got, "Job ID")})
	if field(got, "Late output") != "9 bytes" || !strings.HasSuffix(got, "\nin time\ntoo late\n") || field(got, "Cursor") != "17" {
		t.Errorf("late output:\n%s", got)
	}
}

// TestDroppedOutput has more output than is kept.
func TestDroppedOutput(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	w.jobs = jobs.NewRegistry(jobs.Config{Logs: output.NewStore(output.Config{Cap: 64 << 10, Dir: func() (string, error) { return dir, nil }})})
	defer w.jobs.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
	c := w.dial(engine.Scope{})
	got := c.call("execute_command_async", arguments{"command": "flood 20000", "wait_seconds": 60, "max_chars": 45000})
	stat := w.job(got).Log().Stat()
	if stat.Dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	want := fmt.Sprintf("%s bytes of these can't be read any more: the output limit of one job was reached (REPL_MAX_OUTPUT)", view.Count(stat.Dropped))
	if d := field(got, "Dropped"); d != want {
		t.Errorf("dropped %q, want %q", d, want)
	}
	_, _, from, to := parts(t, got)
	gap := stat.Gaps[0]
	if from > gap.From || to < gap.To || chars(got) > maxText {
		t.Errorf("%d..%d left out, %v gone, %d characters", from, to, stat.Gaps, chars(got))
	}
	if !strings.Contains(got, "\nline 0\n") || !strings.HasSuffix(got, "\nline 19999\n") {
		t.Errorf("head or tail is missing:\n%s", got)
	}
	// From inside the hole only what comes after it can be shown.
	got = c.call("check_job_status", arguments{"job_id": field(got, "Job ID"), "cursor": gap.From + 10})
	if _, _, from, _ := parts(t, got); from != gap.From+10 || !strings.HasSuffix(got, "\nline 19999\n") {
		t.Errorf("from inside the hole:\n%s", got[:min(400, len(got))])
	}
}

package report

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

const maxChars = 45_000 // the most that any reply may have

// parts returns what a reply shows under STDOUT, before and after what it omits, and the cursors of
// that. The reply has no other section.
func parts(t *testing.T, r *Reply) (head, tail string, from, to int64) {
	t.Helper()
	_, body, _ := strings.Cut(r.String(), "--- STDOUT ---\n")
	omitted := field(r, "Omitted")
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

// What a reply shows and what it says it omits are all of the output, byte for byte.
func TestReplyFitsItsRoomAndCountsWhatItOmits(t *testing.T) {
	var rp Reporter
	j := ended(t, script{write: func(p *jobs.Port) { flood(p, 20_000) }, result: "[1, 2]"})
	all := jobstest.Output(j)
	for _, n := range []int{0, 1, 150, 400, 401, 500, 777, 1000, 2000, 5000, 16000, maxChars} {
		got := rp.Job(j, Window{MaxChars: n})
		if got.Chars() > max(n, 200) {
			t.Errorf("MaxChars %d: %d characters", n, got.Chars())
		}
		if n >= 1000 && got.Chars() < n*3/4 {
			t.Errorf("MaxChars %d: only %d characters", n, got.Chars())
		}
		output, _, _ := strings.Cut(got.String(), "--- RESULT ---\n")
		head, tail, from, to := parts(t, Textf("%s", output))
		if n >= 500 && head+all[from:to]+tail != all {
			t.Errorf("MaxChars %d: %d bytes, %d..%d omitted, %d bytes, of %d", n, len(head), from, to, len(tail), len(all))
		}
		if n < 200 && to-from != int64(len(all)) {
			t.Errorf("MaxChars %d: %d..%d omitted of %d", n, from, to, len(all))
		}
	}
}

func TestReadingOnByCursorShowsAllOutput(t *testing.T) {
	var rp Reporter
	j := ended(t, script{write: func(p *jobs.Port) { flood(p, 3000) }})
	all := jobstest.Output(j)
	var read strings.Builder
	for cursor, pages := int64(0), 0; cursor < int64(len(all)); pages++ {
		head, tail, from, _ := parts(t, rp.Job(j, Window{From: cursor, MaxChars: 2000}))
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

func TestOmissionIsMarkedInTheSectionThatLacksOutput(t *testing.T) {
	for name, tt := range map[string]struct {
		write          func(p *jobs.Port)
		stdout, stderr bool // have a mark
	}{
		"a traceback after a flood": {func(p *jobs.Port) { errs(p, "careful\n"); flood(p, 200_000); errs(p, "Traceback\n") }, true, false},
		"a word before a flood":     {func(p *jobs.Port) { errs(p, "careful\n"); flood(p, 20_000) }, true, false},
		"errors flood":              {func(p *jobs.Port) { out(p, "begin\n"); errs(p, strings.Repeat("error\n", 20_000)); out(p, "end\n") }, false, true},
		"both":                      {func(p *jobs.Port) { flood(p, 20_000); errs(p, strings.Repeat("error\n", 20_000)) }, true, true},
		"a little in the middle": {func(p *jobs.Port) {
			errs(p, "careful\n")
			flood(p, 20_000)
			errs(p, "again\n")
			flood(p, 20_000)
			errs(p, "Traceback\n")
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var rp Reporter
			got := rp.Job(ended(t, script{write: tt.write}), Window{MaxChars: 16_000})
			stdout, stderr, _ := strings.Cut(got.String(), "--- STDERR ---\n")
			if a, b := strings.Contains(stdout, " not shown …]"), strings.Contains(stderr, " not shown …]"); a != tt.stdout || b != tt.stderr {
				t.Errorf("mark under STDOUT %t, under STDERR %t", a, b)
			}
			if field(got, "Omitted") == "" {
				t.Error("nothing counts as omitted")
			}
		})
	}
}

func TestLongResultSharesTheRoomWithOutput(t *testing.T) {
	long := strings.Repeat("0123456789, ", 10_000)
	for name, write := range map[string]func(p *jobs.Port){
		"no output":     func(*jobs.Port) {},
		"little output": func(p *jobs.Port) { out(p, "hello\n") },
		"much output":   func(p *jobs.Port) { flood(p, 20_000) },
	} {
		t.Run(name, func(t *testing.T) {
			var rp Reporter
			j := ended(t, script{write: write, result: long})
			got := rp.Job(j, Window{MaxChars: 16_000})
			if got.Chars() > 16_000 || !strings.Contains(got.String(), "--- RESULT ---\n0123456789, ") {
				t.Errorf("%d characters, or no result, in\n%s", got.Chars(), got)
			}
			got = rp.Job(j, Window{})
			if field(got, "Omitted result") != "120,000 characters" || got.Chars() > 250 {
				t.Errorf("without room:\n%s", got)
			}
		})
	}
}

// Writes end inside a character or an escape sequence, with the other stream in between.
func TestReplyAboutARunningJobEndsBetweenCharacters(t *testing.T) {
	var rp Reporter
	var port *jobs.Port
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, script{hangs: true, write: func(p *jobs.Port) {
		port = p
		out(p, "caf\xc3")
		errs(p, "warning: \x1b[3")
	}})
	jobstest.Prints(t, j, "warning: \x1b[3")
	got := rp.Job(j, Window{MaxChars: 1000, Newest: true})
	if field(got, "Cursor") != "3" || !strings.HasSuffix(got.String(), "\n\n--- STDOUT ---\ncaf\n") {
		t.Errorf("a split character is shown:\n%s", got)
	}
	out(port, "\xa9\n")
	errs(port, "1mred\x1b[0m\n")
	got = rp.Job(j, Window{From: 3, MaxChars: 1000})
	if !strings.HasSuffix(got.String(), "\n\n--- STDOUT ---\né\n--- STDERR ---\nwarning: red\n") {
		t.Errorf("once complete, it is not shown:\n%q", got)
	}
}

func TestSequenceWithoutAnEndHidesNothing(t *testing.T) {
	var rp Reporter
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, script{hangs: true, write: func(p *jobs.Port) {
		errs(p, "\x1b]0;title")
		flood(p, 2000)
	}})
	jobstest.Prints(t, j, "line 1999\n")
	if got := rp.Job(j, Window{MaxChars: 16_000, Newest: true}); !strings.Contains(got.String(), "line 1999\n") {
		t.Errorf("hidden:\n%s", got)
	}
}

func TestLateOutputIsShownAndCounted(t *testing.T) {
	var rp Reporter
	var port *jobs.Port
	j := ended(t, script{write: func(p *jobs.Port) { port = p; out(p, "in time\n") }})
	if got := rp.Job(j, Window{MaxChars: 1000}); field(got, "Late output") != "" {
		t.Errorf("before there is any:\n%s", got)
	}
	out(port, "too late\n")
	got := rp.Job(j, Window{MaxChars: 1000})
	if field(got, "Late output") != "9 bytes" || !strings.HasSuffix(got.String(), "\nin time\ntoo late\n") || field(got, "Cursor") != "17" {
		t.Errorf("late output:\n%s", got)
	}
}

func TestDroppedOutputIsCountedAndExplained(t *testing.T) {
	var rp Reporter
	dir := t.TempDir()
	reg := jobs.NewRegistry(jobs.Config{Logs: output.NewStore(output.Config{Cap: 64 << 10, Dir: func() (string, error) { return dir, nil }})})
	defer reg.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
	j := jobstest.Start(t, reg, jobs.Spec{Kind: jobs.Shell}, script{write: func(p *jobs.Port) { flood(p, 20_000) }})
	jobstest.End(t, j)
	stat := j.Log().Stat()
	if stat.Dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	got := rp.Job(j, Window{MaxChars: maxChars})
	want := view.Count(stat.Dropped) + " bytes of these can't be read any more: the output limit of one job was reached (REPL_MAX_OUTPUT)"
	if d := field(got, "Dropped"); d != want {
		t.Errorf("dropped %q, want %q", d, want)
	}
	gap := stat.Gaps[0]
	if _, _, from, to := parts(t, got); from > gap.From || to < gap.To || got.Chars() > maxChars {
		t.Errorf("%d..%d omitted, %v gone, %d characters", from, to, stat.Gaps, got.Chars())
	}
	if !strings.Contains(got.String(), "\nline 0\n") || !strings.HasSuffix(got.String(), "\nline 19999\n") {
		t.Errorf("head or tail is missing:\n%s", got)
	}
	// From inside the gap only what comes after it can be shown.
	got = rp.Job(j, Window{From: gap.From + 10, MaxChars: 16_000})
	if _, _, from, _ := parts(t, got); from != gap.From+10 || !strings.HasSuffix(got.String(), "\nline 19999\n") {
		t.Errorf("from inside the gap:\n%.400s", got)
	}
}

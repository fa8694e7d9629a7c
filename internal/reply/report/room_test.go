package report

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/view"
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
	head, tail, _ = strings.Cut(body, fmt.Sprintf("[… cursor %d..%d not shown …]", from, to))
	if head == "" || strings.HasSuffix(head, "\n") {
		tail = strings.TrimPrefix(tail, "\n")
	}
	return head, tail, from, to
}

// What a reply shows and what it says it omits are all of the output, byte for byte.
func TestReplyFitsItsRoomAndCountsWhatItOmits(t *testing.T) {
	racetest.Skip(t)
	var rp Reporter
	for name, write := range map[string]func(p *jobs.Port){
		"lines":       func(p *jobs.Port) { flood(p, 20_000) },
		"a long line": func(p *jobs.Port) { out(p, strings.Repeat("0123456789", 20_000)+"\n") },
	} {
		j := ended(t, script{write: write})
		all := jobstest.Output(j)
		for _, n := range []int{0, 1, 2, 150, 400, 499, 500, 501, 777, 1000, 2000, 5000, 16000, maxChars} {
			got := rp.Job(j, Window{MaxChars: n})
			head, tail, from, to := parts(t, got)
			if to == int64(len(all)) {
				tail = "" // a newline ends every section
			}
			shown := chars(head) + chars(tail)
			if n < 500 && (shown > max(n, 1) || shown < n/2 || shown == 0) {
				t.Errorf("%s, MaxChars %d: %d characters of output", name, n, shown)
			}
			if n >= 500 && (got.Chars() > n || shown < 150 || n >= 1000 && got.Chars() < n*3/4) {
				t.Errorf("%s, MaxChars %d: %d characters, %d of output", name, n, got.Chars(), shown)
			}
			if head+all[from:to]+tail != all {
				t.Errorf("%s, MaxChars %d: %d bytes, %d..%d omitted, %d bytes, of %d", name, n, len(head), from, to, len(tail), len(all))
			}
		}
	}
}

// A page shows the output from its cursor on, and nothing of what comes after the next page.
func TestPagesShowAllOutputOnce(t *testing.T) {
	var rp Reporter
	j := ended(t, script{write: func(p *jobs.Port) { flood(p, 13_000) }})
	all := jobstest.Output(j)
	var read strings.Builder
	cost, pages := 0, 0
	for cursor := int64(0); cursor < int64(len(all)); pages++ {
		r := rp.Job(j, Window{From: cursor, Part: Forward, MaxChars: 16_000})
		cost += r.Chars()
		_, page, _ := strings.Cut(r.String(), "--- STDOUT ---\n")
		read.WriteString(page)
		next := number(t, field(r, "Cursor"))
		if want := fmt.Sprintf("%s bytes (cursor %d..%d)", view.Count(int64(len(all))-next), next, len(all)); next < int64(len(all)) && field(r, "Omitted") != want {
			t.Fatalf("omitted %q, want %q", field(r, "Omitted"), want)
		}
		if next <= cursor {
			t.Fatalf("no progress at %d", cursor)
		}
		cursor = next
	}
	if read.String() != all {
		t.Errorf("read %d bytes of %d", read.Len(), len(all))
	}
	if most := len(all) + 250*pages; cost > most {
		t.Errorf("%d characters of output cost %d in %d pages, want at most %d", len(all), cost, pages, most)
	}
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	return must.Get(strconv.ParseInt(s, 10, 64))(t)
}

// A line of 24 kB is read in one call, one of 200 kB in six at most.
func TestLongLineIsReadInFewCalls(t *testing.T) {
	var rp Reporter
	for size, most := range map[int]int{24_000: 1, 200_000: 6} {
		for name, s := range map[string]script{
			"output": {write: func(p *jobs.Port) { out(p, strings.Repeat("0123456789", size/10)) }},
			"result": {write: func(*jobs.Port) {}, result: strings.Repeat("0123456789", size/10)},
		} {
			j := ended(t, s)
			r := rp.Job(j, Window{MaxChars: maxChars})
			calls := 1
			section, _, _ := strings.Cut(r.String(), " ---\n")
			_, body, _ := strings.Cut(r.String(), " ---\n")
			read := strings.TrimSuffix(body, "\n")
			var from, to int64
			if omitted := field(r, "Omitted"); omitted != "" {
				_, omitted, _ = strings.Cut(omitted, "cursor ")
				fmt.Sscanf(omitted, "%d..%d", &from, &to)
				head, tail, found := strings.Cut(read, fmt.Sprintf("[… cursor %d..%d not shown …]", from, to))
				if !found || int64(len(head)) != from || int64(size-len(tail)) != to {
					t.Fatalf("%s of %d: %d..%d omitted, shown are %d and %d", name, size, from, to, len(head), len(tail))
				}
				read = head
				for cursor := from; cursor < to; calls++ {
					r := rp.Job(j, Window{From: cursor, Part: Forward, MaxChars: maxChars})
					_, page, _ := strings.Cut(r.String(), " ---\n")
					next := min(number(t, field(r, "Cursor")), to)
					read += page[:next-cursor]
					cursor = next
				}
				read += tail
			}
			if !strings.HasSuffix(section, map[string]string{"output": "STDOUT", "result": "RESULT"}[name]) {
				t.Errorf("%s of %d: shown under %.300q", name, size, section)
			}
			if calls > most || read != strings.Repeat("0123456789", size/10) {
				t.Errorf("%s of %d: read %d bytes in %d calls, want %d at most", name, size, len(read), calls, most)
			}
		}
	}
}

func TestOmissionIsMarkedInTheSectionThatLacksOutput(t *testing.T) {
	racetest.Skip(t)
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

// A result is the end of the output: cursors count it, and late output follows it.
func TestResultIsTheEndOfTheOutput(t *testing.T) {
	var rp Reporter
	var port *jobs.Port
	j := ended(t, script{write: func(p *jobs.Port) { port = p; out(p, "hello\n") }, result: "[1, 2]"})
	got := rp.Job(j, Window{MaxChars: 1000})
	if field(got, "Cursor") != "12" || !strings.HasSuffix(got.String(), "\n\n--- STDOUT ---\nhello\n--- RESULT ---\n[1, 2]\n") {
		t.Errorf("with a result:\n%s", got)
	}
	out(port, "late\n")
	got = rp.Job(j, Window{From: 12, Part: Forward, MaxChars: 1000})
	if field(got, "Late output") != "5 bytes" || field(got, "Cursor") != "17" || !strings.HasSuffix(got.String(), "\n\n--- STDOUT ---\nlate\n") {
		t.Errorf("after the result:\n%s", got)
	}
}

func TestLongResultSharesTheRoomWithOutput(t *testing.T) {
	var rp Reporter
	long := strings.Repeat("0123456789, ", 10_000)
	for name, write := range map[string]func(p *jobs.Port){
		"no output":     func(*jobs.Port) {},
		"little output": func(p *jobs.Port) { out(p, "hello\n") },
		"much output":   func(p *jobs.Port) { flood(p, 20_000) },
	} {
		got := rp.Job(ended(t, script{write: write, result: long}), Window{MaxChars: 16_000})
		if got.Chars() > 16_000 || !strings.HasSuffix(got.String(), ", 0123456789, \n") {
			t.Errorf("%s: %d characters, or no result, in\n%s", name, got.Chars(), got)
		}
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
	got := rp.Job(j, Window{MaxChars: 1000, Part: Newest})
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
	if got := rp.Job(j, Window{MaxChars: 16_000, Part: Newest}); !strings.Contains(got.String(), "line 1999\n") {
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

// dropping returns an ended job whose log lacks its middle.
func dropping(t *testing.T) *jobs.Job {
	t.Helper()
	dir := t.TempDir()
	reg := jobs.NewRegistry(jobs.Config{Logs: output.NewStore(output.Config{Cap: 64 << 10, Dir: func() (string, error) { return dir, nil }})})
	t.Cleanup(func() { reg.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill}) })
	j := jobstest.Start(t, reg, jobs.Spec{Kind: jobs.Shell}, script{write: func(p *jobs.Port) { flood(p, 20_000) }})
	jobstest.End(t, j)
	if j.Log().Stat().Dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	return j
}

func TestDroppedOutputIsCountedAndExplained(t *testing.T) {
	var rp Reporter
	j := dropping(t)
	stat := j.Log().Stat()
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

// Page by page, everything that still exists can be read, and what is gone is counted where it was.
func TestPagesSkipOnlyWhatIsGone(t *testing.T) {
	var rp Reporter
	j := dropping(t)
	stat := j.Log().Stat()
	gap := stat.Gaps[0]
	read := int64(0)
	for cursor := int64(0); cursor < stat.End; {
		got := rp.Job(j, Window{From: cursor, Part: Forward, MaxChars: 2000})
		_, page, _ := strings.Cut(got.String(), "--- STDOUT ---\n")
		next := number(t, field(got, "Cursor"))
		if next <= cursor {
			t.Fatalf("no progress at %d of %+v", cursor, stat)
		}
		shown := next - cursor
		if cursor == gap.From {
			shown = next - gap.To
			want := fmt.Sprintf("%s bytes (cursor %d..%d, %d..%d)", view.Count(stat.Dropped+stat.End-next), gap.From, gap.To, next, stat.End)
			if field(got, "Omitted") != want {
				t.Errorf("at the gap: omitted %q, want %q", field(got, "Omitted"), want)
			}
		}
		if n := int64(len(page)); n < shown || n > shown+1 { // a newline ends every section
			t.Fatalf("%d..%d: %d bytes are shown", cursor, next, n)
		}
		read += shown
		cursor = next
	}
	if read != stat.End-stat.Dropped {
		t.Errorf("read %d bytes of %+v", read, stat)
	}
}

// The reply about an install that has ended shows the last lines, and counts the others. A page
// shows all of it.
func TestInstallShowsItsLastLines(t *testing.T) {
	var rp Reporter
	show := func(out script, w Window) *Reply {
		j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Package}, out)
		jobstest.End(t, j)
		w.MaxChars = 16_000
		return rp.Job(j, w)
	}
	const lines = "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\nline 6\n"
	writes := func(text string) script { return script{write: func(p *jobs.Port) { out(p, text) }} }
	long := strings.Repeat("x", 100_000)
	for name, tt := range map[string]struct {
		out           script
		w             Window
		omitted, want string
	}{
		"few lines":      {writes("a\nb\n"), Window{}, "", "a\nb\n"},
		"many lines":     {writes(lines), Window{}, "14 bytes (cursor 0..14)", lines[14:]},
		"no newline":     {writes(strings.TrimSpace(lines)), Window{}, "14 bytes (cursor 0..14)", lines[14:]},
		"newest":         {writes(lines), Window{Part: Newest}, "14 bytes (cursor 0..14)", lines[14:]},
		"a page":         {writes(lines), Window{Part: Forward}, "", lines},
		"a long line":    {writes(long + "\na\n"), Window{}, "91,811 bytes (cursor 0..91811)", long[91_811:] + "\na\n"},
		"failed, fewer":  {script{write: func(p *jobs.Port) { out(p, lines) }, fails: true}, Window{}, "", lines},
		"failed, more":   {script{write: func(p *jobs.Port) { flood(p, 8); out(p, lines+lines) }, fails: true}, Window{}, "14 bytes (cursor 0..14)", "line 2\nline 3\nline 4\nline 5\nline 6\nline 7\n" + lines + lines},
		"nothing at all": {writes(""), Window{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := show(tt.out, tt.w)
			_, body, _ := strings.Cut(r.String(), "--- STDOUT ---\n")
			if field(r, "Omitted") != tt.omitted || body != tt.want {
				t.Errorf("got\n%s\nwant omitted %q, and\n%s", r, tt.omitted, tt.want)
			}
		})
	}
}

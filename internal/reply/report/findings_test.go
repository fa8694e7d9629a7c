package report

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/test/racetest"
	"asyncrepl/jobs"
)

// The first error of each kind in the omitted middle stands between head and tail, with the cursor
// to read it by. What head and tail show is not repeated.
func TestFirstErrorsOfTheMiddle(t *testing.T) {
	racetest.Skip(t)
	var rp Reporter
	const first, second, fails = "src/a.c:12:3: error: 'x' undeclared\n", "src/b.c:1:1: error: 'y' undeclared\n", "FAILED tests/test_a.py::test_x\n"
	var at [2]int
	j := ended(t, script{write: func(p *jobs.Port) {
		out(p, "begin\nnpm ERR! code 1\n")
		flood(p, 20_000)
		at[0] = len("begin\nnpm ERR! code 1\n") + lengthOfFlood(20_000)
		out(p, first)
		flood(p, 20_000)
		out(p, second+"npm ERR! code 2\n")
		errs(p, fails)
		at[1] = at[0] + len(first) + lengthOfFlood(20_000) + len(second+"npm ERR! code 2\n")
		flood(p, 20_000)
		out(p, "panic: at the end\n")
	}})
	got := rp.Job(j, Window{MaxChars: 16_000})
	want := fmt.Sprintf(" not shown …]\n[cursor %d] %sline ", at[0], first)
	if !strings.Contains(got.String(), want) || field(got, "First errors") != "2 lines of what is omitted" || got.Chars() > 16_000 {
		t.Errorf("no %q in %d characters of\n%s", want, got.Chars(), got)
	}
	if want := fmt.Sprintf("--- STDERR ---\n[… cursor %s not shown …]\n[cursor %d] %s", cursors(got), at[1], fails); !strings.HasSuffix(got.String(), want) {
		t.Errorf("it does not end with %q\n%s", want, got)
	}
	for _, text := range []string{"panic: at the end", "npm ERR! code"} {
		if n := strings.Count(got.String(), text); n != 1 {
			t.Errorf("%q is shown %d times", text, n)
		}
	}
	if again := rp.Job(j, Window{MaxChars: 16_000}); again.String() != got.String() {
		t.Errorf("again:\n%s", again)
	}
	page := rp.Job(j, Window{From: int64(at[0]), Part: Forward, MaxChars: 1000}).String()
	if !strings.Contains(page, "--- STDOUT ---\n"+first) {
		t.Errorf("at its cursor:\n%s", page)
	}
	for _, w := range []Window{{MaxChars: 16_000, View: RawView}, {MaxChars: 16_000, Part: Forward}, {MaxChars: 100}} {
		if got := rp.Job(j, w); field(got, "First errors") != "" {
			t.Errorf("%+v: %s", w, got)
		}
	}
	for room := 500; room < 4000; room += 331 {
		if got := rp.Job(j, Window{MaxChars: room}); got.Chars() > room {
			t.Errorf("%d characters in a room for %d", got.Chars(), room)
		}
	}
}

// lengthOfFlood returns how many bytes flood writes.
func lengthOfFlood(n int) (bytes int) {
	for i := range n {
		bytes += len(fmt.Sprintf("line %d\n", i))
	}
	return bytes
}

// cursors returns the cursors of what a reply omits.
func cursors(r *Reply) string {
	_, list, _ := strings.Cut(field(r, "Omitted"), "(cursor ")
	return strings.TrimSuffix(list, ")")
}

func TestReplySaysWhatWasNotSearchedForErrors(t *testing.T) {
	racetest.Skip(t)
	var rp Reporter
	j := ended(t, script{write: func(p *jobs.Port) { out(p, strings.Repeat(strings.Repeat("fine\n", 1000), 2000)) }})
	got := rp.Job(j, Window{MaxChars: 1000})
	if want := "0 lines of what is omitted; not searched: 1,611,392 bytes (cursor 4194304..5805696)"; field(got, "First errors") != want {
		t.Errorf("got %q, want %q", field(got, "First errors"), want)
	}
}

// After ten errors no more are looked for. What was not searched is a part of what is omitted.
func TestReplyNamesOnlyOmittedBytesAsNotSearched(t *testing.T) {
	racetest.Skip(t)
	var rp Reporter
	const ten = "npm ERR! code 1\nTraceback (most recent call last):\nValueError: bad\npanic: x\nerror[E0425]: no x\nFAILED test_x.py::t - E\n" +
		"make: *** [all] Error 2\nerror: failed to push\nERROR in ./src/x.ts\n./x.go:3:4: undefined: foo\n"
	for after, notSearched := range map[int]bool{10: false, 20_000: true} {
		j := ended(t, script{write: func(p *jobs.Port) {
			flood(p, 20_000)
			out(p, ten)
			flood(p, after)
		}})
		got := rp.Job(j, Window{MaxChars: 16_000})
		want := ""
		if from := lengthOfFlood(20_000) + len(ten); notSearched {
			_, to, _ := strings.Cut(cursors(got), "..")
			want = fmt.Sprintf("(cursor %d..%s)", from, to)
		}
		if line := field(got, "First errors"); strings.Contains(line, "not searched") != notSearched || !strings.HasSuffix(line, want) {
			t.Errorf("%q does not end with %q", line, want)
		}
	}
}

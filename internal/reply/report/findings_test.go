package report

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/test/racetest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
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

// Of a long output the middle is read, too, and of what follows an input the first errors are shown
// again.
func TestFirstErrorsOfLongOutput(t *testing.T) {
	racetest.Skip(t)
	var rp Reporter
	const bad = "src/a.c:12:3: error: 'x' undeclared\n"
	second := 0
	asks, asked := make(chan struct{}), make(chan struct{})
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, script{write: func(p *jobs.Port) {
		p.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) { close(asked); return jobs.Delivery{}, nil })
		fine := strings.Repeat(strings.Repeat("fine\n", 1000), 1500)
		out(p, fine+bad+fine)
		second = 2*len(fine) + len(bad)
		close(asks)
		<-asked
		out(p, strings.Repeat("fine\n", 10_000)+bad+strings.Repeat("fine\n", 10_000))
	}})
	<-asks
	if _, err := j.Send(t.Context(), jobs.Input{Text: "go\n"}); err != nil {
		t.Fatal(err)
	}
	jobstest.End(t, j)
	for _, from := range []int{0, second} {
		got := rp.Job(j, Window{From: int64(from), MaxChars: 4000}).String()
		if !strings.Contains(got, "\nFirst errors: 1 line of what is omitted\n") || strings.Count(got, bad) != 1 {
			t.Errorf("from %d:\n%s", from, got)
		}
	}
}

// What replaces the output has first errors of its own, also while the job runs.
func TestFirstErrorsAfterClear(t *testing.T) {
	var rp Reporter
	const bad = "ValueError: bad\n"
	written := make(chan struct{})
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, script{hangs: true, write: func(p *jobs.Port) {
		flood(p, 1000)
		out(p, bad)
		flood(p, 1000)
		p.Clear(false)
		flood(p, 1000)
		errs(p, bad)
		flood(p, 1000)
		close(written)
	}})
	<-written
	want := fmt.Sprintf("--- STDERR ---\n[… cursor %s not shown …]\n[cursor %d] %s", "%s", 3*lengthOfFlood(1000)+len(bad), bad)
	if got := rp.Job(j, Window{MaxChars: 4000}); !strings.Contains(got.String(), fmt.Sprintf(want, cursors(got))) || strings.Count(got.String(), bad) != 1 {
		t.Errorf("no %q in\n%s", want, got)
	}
	j.Stop(jobs.Stop{})
	jobstest.End(t, j)
}

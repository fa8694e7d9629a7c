package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/lines"
	"asyncrepl/internal/text/view"
)

// newLog returns a log in memory of at most 64 MiB.
func newLog() output.Log { return output.NewStore(output.Config{Cap: 64 << 20}).NewLog("") }

// compile returns a pattern that is correct.
func compile(t testing.TB, pattern string) *Pattern {
	t.Helper()
	p, err := Compile(pattern)
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	return p
}

// run returns what a query finds.
func run(t testing.TB, log output.Reader, q Query) Result {
	t.Helper()
	if q.Matches == 0 {
		q.Matches = 50
	}
	q.Limit = time.Hour
	return must.Get(Run(t.Context(), log, q))(t)
}

// texts returns the lines that match.
func texts(ms []*Match) (list []string) {
	for _, m := range ms {
		list = append(list, m.Text)
	}
	return list
}

// noise returns output of every kind: plain, coloured, drawn over, broken, in several alphabets.
func noise(r *rand.Rand, size int) string {
	var b strings.Builder
	words := []string{"error", "Error", "warn", "ERROR:", "x", "日本語", "ü", "12", "\t", " ", "k", "\u212a", "ſ", "\xff", "\x00", "\u009b1m", "\uFFFD"}
	ends := []string{"\n", "\n", "\n", "\r\n", "\r", "\b", "\x1b[1A\r", "\x1b[K", "\x1b[31m", "\x1b[0m", "\x1b[2J\x1b[H", ""}
	for b.Len() < size {
		plain := r.IntN(4) == 0
		for range r.IntN(600) {
			for range r.IntN(9) {
				b.WriteString(words[r.IntN(len(words)-5*min(1, r.IntN(4)))])
			}
			if plain {
				b.WriteByte('\n')
			} else {
				b.WriteString(ends[r.IntN(len(ends))])
			}
		}
	}
	return b.String()
}

var patterns = []string{
	"error", "(?i)error", "error|warn", "^error", "error$", "er{2}o", "warn.*error", `\d+$`, `\berror\b`, "日本", "^$", "[^ -~]", "k", "(?i)k", "(?i)S",
	`\x{FFFD}`, `(error|warn){2}`, `^.{5}$`, `x*`, `(?i:ERR)or:?`, `12(?:\t|$)`, `\Aerror`, `error\z`, `[[:upper:]]{4}`, `(?U)e.*r`, `ü|x`, `\Berror`, `\p{Greek}|\p{Han}`,
}

// want returns the lines of the text of b that match.
func want(b, pattern string) (list []string) {
	expr := regexp.MustCompile(pattern)
	all := strings.Split(view.Text([]byte(b)), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	for _, line := range all {
		if expr.MatchString(line) {
			list = append(list, excerpt([]byte(line), expr.FindStringIndex(line)))
		}
	}
	return list
}

// A search finds the lines that the expression alone finds in all of the text.
func TestRunFindsWhatTheExpressionFinds(t *testing.T) {
	racetest.Skip(t)
	r := rand.New(rand.NewPCG(5, 6))
	rounds := 28
	if testing.Short() { // each compares many patterns with the expression alone, which is slow
		rounds = 10
	}
	for round := range rounds {
		text := noise(r, 1<<(5+round%14))
		log := newLog()
		for rest := text; rest != ""; {
			n := min(1+r.IntN(1<<r.IntN(18)), len(rest))
			log.Write(output.TTY, []byte(rest[:n]))
			rest = rest[n:]
		}
		for _, pattern := range patterns {
			got := texts(run(t, log, Query{Pattern: compile(t, pattern), Matches: 1 << 20}).Matches)
			if diff := cmp.Diff(want(text, pattern), got); diff != "" {
				t.Fatalf("%s in %d bytes (-want +got):\n%s", pattern, len(text), diff)
			}
		}
	}
}

// The filter of an expression of very many states gives up, and everything is found all the same.
func TestRunOfManyStates(t *testing.T) {
	racetest.Skip(t)
	r := rand.New(rand.NewPCG(9, 10))
	text := make([]byte, 60_000)
	for i := range text {
		if text[i] = "ab"[r.IntN(2)]; i%50 == 49 {
			text[i] = '\n'
		}
	}
	log := newLog()
	log.Write(output.TTY, text)
	for _, pattern := range []string{`a[ab]{17}[^ab]|a[ab]{19}b`, `(?i)a[ab]{200}$|a.{20}b$`} {
		p := compile(t, pattern)
		got := texts(run(t, log, Query{Pattern: p, Matches: 1 << 20}).Matches)
		if diff := cmp.Diff(want(string(text), pattern), got); diff != "" || len(got) == 0 {
			t.Errorf("%s finds %d lines (-want +got):\n%s", pattern, len(got), diff)
		}
	}
	f := newFilter(compile(t, `a[ab]{17}X`).tree) // every line is read to its end
	if f.candidate(text); f.resets == 0 || len(f.table) > maxTable {
		t.Errorf("the filter began again %d times, and has %d entries", f.resets, len(f.table))
	}
}

func FuzzRun(f *testing.F) {
	for i, pattern := range patterns {
		f.Add(noise(rand.New(rand.NewPCG(uint64(i), 0)), 2000), pattern, uint16(i*77))
	}
	f.Add(strings.Repeat("plain\n", 6000)+"\x1b[3A\x1b[2Kerror\n", "error|in$", uint16(0))
	f.Fuzz(func(t *testing.T, text, pattern string, cut uint16) {
		p, err := Compile(pattern)
		if err != nil || len(text) > 1<<16 {
			return
		}
		log := newLog()
		for rest := []byte(text); len(rest) > 0; {
			n := min(int(cut)+1, len(rest))
			log.Write(output.Stdout, rest[:n])
			rest = rest[n:]
		}
		got := texts(run(t, log, Query{Pattern: p, Matches: 1 << 20}).Matches)
		if diff := cmp.Diff(want(text, pattern), got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", pattern, diff)
		}
	})
}

// A search of a log that grows sees what was there when it began, and neither waits for the other.
func TestRunWhileTheLogGrows(t *testing.T) {
	dir := t.TempDir()
	log := output.NewStore(output.Config{Dir: func() (string, error) { return dir, nil }}).NewLog("")
	defer log.Discard()
	const n = 10_000
	written := make(chan struct{})
	go func() { // owned by the test, which waits for it
		defer close(written)
		for i := range n {
			log.Write(output.TTY, fmt.Appendf(nil, "line %d of many\r\n", i))
		}
		log.Finish()
	}()
	q := Query{Pattern: compile(t, `^line \d*999 `), Matches: 1000}
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		r := run(t, log, q)
		for i, m := range r.Matches {
			if want := fmt.Sprintf("line %d of many", 1000*i+999); !strings.HasPrefix(want, m.Text) {
				t.Fatalf("match %d is %q", i, m.Text)
			}
		}
		if done && len(r.Matches) != n/1000 {
			t.Errorf("%d matches", len(r.Matches))
		}
	}
}

// Searches that continue at the cursor of the one before find every match once, of every stream.
func TestRunContinues(t *testing.T) {
	racetest.Skip(t)
	r := rand.New(rand.NewPCG(7, 8))
	log := newLog()
	var all [lines.Sections][]string
	for i := range 5000 {
		s := []output.Stream{output.Stdout, output.Stderr}[r.IntN(2)]
		line := fmt.Sprintf("line %d of %s", i, s)
		log.Write(s, []byte(line+"\n"))
		if i%10 == 3 {
			all[lines.SectionOf(s)] = append(all[lines.SectionOf(s)], line)
		}
	}
	var got [lines.Sections][]string
	from, last := int64(0), int64(-1)
	for from >= 0 {
		res := run(t, log, Query{Pattern: compile(t, `^line \d*3 `), From: from, Matches: 7})
		if len(res.Matches) > 7 || res.From != from || res.Next >= 0 && res.Next <= from {
			t.Fatalf("from %d: %d matches, searched %d..%d, next %d", from, len(res.Matches), res.From, res.To, res.Next)
		}
		for _, m := range res.Matches {
			if m.At <= last {
				t.Fatalf("cursor %d after %d", m.At, last)
			}
			last = m.At
			got[m.Section] = append(got[m.Section], m.Text)
		}
		from = res.Next
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A match has the lines around it, also if they are in other blocks or can still change.
func TestRunShowsContext(t *testing.T) {
	log := newLog()
	const n = 30_000
	for i := range n {
		log.Write(output.Stderr, fmt.Appendf(nil, "number %05d\n", i))
		if i%1000 == 0 {
			log.Write(output.Stdout, []byte("\x1b[1mbold\x1b[0m\n"))
		}
	}
	for _, i := range []int{0, 1, 2, 77, 4095, 16_000, 16_001, n - 3, n - 2, n - 1} {
		res := run(t, log, Query{Pattern: compile(t, fmt.Sprintf("r %05d", i)), Context: 2})
		if len(res.Matches) != 1 {
			t.Fatalf("%d: %d matches", i, len(res.Matches))
		}
		var got, want []string
		m := res.Matches[0]
		for _, l := range slices.Concat(m.Before, []Line{m.Line}, m.After) {
			got = append(got, l.Text)
		}
		for k := max(0, i-2); k <= min(n-1, i+2); k++ {
			want = append(want, fmt.Sprintf("number %05d", k))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("around %d (-want +got):\n%s", i, diff)
		}
	}
	res := run(t, log, Query{Pattern: compile(t, "number 16"), Matches: 1, Context: 20})
	if m := res.Matches[0]; len(m.After) != 20 || len(m.Before) != 20 || m.After[19].Text != "number 16020" {
		t.Errorf("%d lines before, %d after the first of several: %v", len(m.Before), len(m.After), m.After)
	}
}

// A match far inside a line that is longer than memory is shown with what is around it, at a cursor
// of its own; so is one at the end of a piece.
func TestRunFindsInLongLines(t *testing.T) {
	racetest.Skip(t)
	const size = 3 << 20
	for _, at := range []int{100, 5000, 1<<20 - 3, 1<<20 + 1023, size - 6} {
		for name, filler := range map[string]string{"plain": "x", "wide": "ü", "coloured": "\x1b[1mx\x1b[0m12345678"} {
			line := strings.Repeat(filler, size/len(filler))
			at -= at % len(filler)
			log := newLog()
			log.Write(output.TTY, []byte("before\n"+line[:at]+"needle"+line[at:]+"\nafter\n"))
			res := run(t, log, Query{Pattern: compile(t, "ne+dle"), Context: 1})
			if len(res.Matches) != 1 || !strings.Contains(res.Matches[0].Text, "needle") {
				t.Fatalf("%s, at %d: %v", name, at, texts(res.Matches))
			}
			m := res.Matches[0]
			if d := int64(at+len("before\n")) - m.At; d < 0 || d > 12<<10 { // a reply shows 16,000 characters
				t.Errorf("%s, at %d: cursor %d", name, at, m.At)
			}
			if n := len([]rune(m.Text)); n > lineMax || n < 100 && at < size-1000 {
				t.Errorf("%s, at %d: an excerpt of %d characters", name, at, n)
			}
			if !res.Pieces {
				t.Errorf("%s, at %d: not said to be searched in pieces", name, at)
			}
		}
	}
}

// A search ends with its context, and one that takes too long says how far it came.
func TestRunStops(t *testing.T) {
	log := newLog()
	log.Write(output.TTY, []byte(strings.Repeat("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", 300_000)))
	pattern := compile(t, `(x+x+)+y|z`)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	if _, err := Run(ctx, log, Query{Pattern: pattern, Matches: 1, Limit: time.Hour}); err != context.DeadlineExceeded {
		t.Errorf("the error is %v", err)
	}
	res, err := Run(t.Context(), log, Query{Pattern: pattern, Matches: 1, Limit: time.Nanosecond})
	if err != nil || !res.Late || res.Next != 0 || res.To != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

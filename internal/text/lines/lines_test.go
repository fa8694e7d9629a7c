package lines

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/view"
)

// newLog returns a log in memory that keeps at most so many bytes.
func newLog(limit int64) output.Log { return output.NewStore(output.Config{Cap: limit}).NewLog("") }

// A sectionLine is one line of a section.
type sectionLine struct {
	Section Section
	Text    []byte
	At      int64
	Begun   bool
}

// linesOf returns the lines of a block.
func linesOf(b Block) iter.Seq[sectionLine] {
	return func(yield func(sectionLine) bool) {
		for at := 0; at < len(b.Text); {
			start, end, next := b.Bounds(at)
			text := []byte(string([]rune(string(b.Text[start:end])))) // raw text need not be UTF-8
			if !yield(sectionLine{b.Section, text, b.Cursor(start), b.Begun && start == 0}) {
				return
			}
			at = next
		}
	}
}

// between returns the lines of the part of a log from a cursor up to another one, or up to its end.
// A line's Text is valid until the next line.
func between(log output.Reader, from, to int64) iter.Seq[sectionLine] {
	return func(yield func(sectionLine) bool) {
		done := false
		s := NewScanner(log, from, func(b Block) {
			for line := range linesOf(b) {
				if done {
					return
				}
				done = !yield(line)
			}
		})
		for !done && s.Read(to) {
		}
		if !done {
			s.Finish()
		}
	}
}

// textOf returns the lines of a log, by section, and the cursors at which they begin.
func textOf(log output.Reader, from, to int64) (text [Sections][]string, at [Sections][]int64) {
	for line := range between(log, from, to) {
		if s := line.Section; line.Begun {
			text[s][len(text[s])-1] += string(line.Text)
		} else {
			text[s] = append(text[s], string(line.Text))
			at[s] = append(at[s], line.At)
		}
	}
	return text, at
}

// The lines of each section are those of its text, however the streams alternate, and each can be
// read at its cursor.
func TestBetween(t *testing.T) {
	racetest.Skip(t)
	r := rand.New(rand.NewPCG(3, 4))
	streams := []output.Stream{output.Stdout, output.Stderr, output.TTY, output.Result, output.Display}
	log := newLog(8 << 20)
	var all [Sections]bytes.Buffer
	for i := range 4000 {
		s := streams[r.IntN(len(streams))]
		b := fmt.Appendf(nil, "line %d of %s: %s\n", i, s, strings.Repeat("ü", r.IntN(80)))
		if r.IntN(4) == 0 {
			b = b[:r.IntN(len(b))] // the line, or a character of it, continues with what follows
		}
		log.Write(s, b)
		all[SectionOf(s)].Write(b)
	}
	text, at := textOf(log, 0, math.MaxInt64)
	for s := range Sections {
		want := strings.Split(view.Text(all[s].Bytes()), "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		if diff := cmp.Diff(want, text[s]); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", s, diff)
		}
		for range 6 {
			i := r.IntN(len(text[s]))
			if from, _ := textOf(log, at[s][i], log.Stat().End); from[s][0] != text[s][i] {
				t.Errorf("%s: at cursor %d is %q, not %q", s, at[s][i], from[s][0], text[s][i])
			}
		}
	}
}

// A part of a log is read up to its last byte, and a character that its beginning cuts is left out.
func TestBetweenCursors(t *testing.T) {
	log := newLog(0)
	log.Write(output.TTY, []byte("a\r\nü\r\nthird\r\nfourth"))
	text, at := textOf(log, 4, 10)
	if diff := cmp.Diff([]string{"", "thi"}, text[Stdout]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !slices.Equal(at[Stdout], []int64{5, 7}) {
		t.Errorf("the lines begin at %d", at[Stdout])
	}
	for line := range between(log, 0, 99) {
		if string(line.Text) != "a" {
			t.Fatal("a second line was passed")
		}
		break
	}
}

// The line of a bar of many updates is read shortly before its last state.
func TestBetweenOfABar(t *testing.T) {
	log := newLog(4 << 20)
	log.Write(output.TTY, []byte("start\r\n"))
	for i := range 10_001 {
		log.Write(output.TTY, fmt.Appendf(nil, "\r%3d%% |%-60s|", i/100, strings.Repeat("#", i*60/10_000)))
	}
	log.Write(output.TTY, []byte("\r\nend\r\n"))
	text, at := textOf(log, 0, math.MaxInt64)
	if len(text[Stdout]) != 3 || !strings.HasPrefix(text[Stdout][1], "100% |#") {
		t.Fatalf("%.200q", text[Stdout])
	}
	from := at[Stdout][1]
	if again, _ := textOf(log, from, at[Stdout][2]); again[Stdout][0] != text[Stdout][1] || at[Stdout][2]-from > 65<<10 {
		t.Errorf("up to %d, at cursor %d is %.200q", at[Stdout][2], from, again[Stdout])
	}
}

// Where bytes were dropped, the lines before and after are apart.
func TestScannerSaysWhatWasDropped(t *testing.T) {
	log := newLog(64 << 10)
	var written bytes.Buffer
	for i := range 20_000 {
		fmt.Fprintf(&written, "line %05d\n", i)
	}
	log.Write(output.Stdout, written.Bytes())
	gap := log.Stat().Gaps[0]
	var got []string
	s := NewScanner(log, 0, func(b Block) {
		for line := range linesOf(b) {
			got = append(got, string(line.Text))
		}
	})
	for s.Read(math.MaxInt64) {
	}
	s.Finish()
	if diff := cmp.Diff([]output.Range{gap}, s.Dropped()); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	all := written.String()
	want := slices.Concat(strings.Split(all[:gap.From], "\n"), strings.Split(strings.TrimSuffix(all[gap.To:], "\n"), "\n"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("around the gap (-want +got):\n%s", diff)
	}
	n := 0
	for range between(log, gap.From+5, gap.To) {
		n++
	}
	if n > 0 {
		t.Errorf("%d lines in a gap", n)
	}
}

// A reader that follows a log sees each line once when it can't change any more, and the others,
// the unfinished last one too, as they are.
func TestScannerFollows(t *testing.T) {
	log := newLog(0)
	var passed []string
	add := func(to *[]string) func(Block) {
		return func(b Block) {
			for line := range linesOf(b) {
				*to = append(*to, string(line.Text))
			}
		}
	}
	s := NewScanner(log, 0, add(&passed))
	look := func() (pending []string) {
		for s.Read(math.MaxInt64) {
		}
		s.Pending(add(&pending))
		return pending
	}
	log.Write(output.TTY, []byte("start\r\n 50%"))
	if got := look(); !slices.Equal(got, []string{"start", " 50%"}) {
		t.Errorf("pending: %q", got)
	}
	log.Write(output.TTY, []byte("\r100%\r\nPass"))
	look()
	log.Write(output.TTY, []byte("word: "))
	if got := look(); !slices.Equal(got, []string{"start", "100%", "Password: "}) {
		t.Errorf("pending: %q", got)
	}
	if s.Passed() != 0 || s.Cursor() != log.Stat().End {
		t.Errorf("passed up to %d, cursor %d", s.Passed(), s.Cursor())
	}
	for i := range 500 {
		log.Write(output.TTY, fmt.Appendf(nil, "\r\n%d", i))
	}
	pending := look()
	all := slices.Concat(passed, pending)
	if len(all) != 503 || all[2] != "Password: " || all[502] != "499" {
		t.Errorf("%d lines: %q", len(all), all)
	}
	if len(pending) > 200 || s.Passed() == 0 {
		t.Errorf("%d lines can still change; passed up to %d", len(pending), s.Passed())
	}
	s.Finish()
	if !slices.Equal(all, passed) {
		t.Errorf("passed in the end: %q", passed)
	}
}

package report

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/view"
)

// textOf returns the text of each section of the bytes from..to of a log.
func textOf(log output.Reader, from, to int64) (text [sections]string) {
	var data [sections][]byte
	for _, span := range read(log, from, to).Spans {
		data[span.Section] = append(data[span.Section], span.Data...)
	}
	for i, b := range data {
		text[i] = view.Text(b)
	}
	return text
}

// someOutput returns a log with output of all streams at random: short and long lines, wide
// characters, colours and titles, in pieces that end anywhere. Nothing in it moves the cursor or
// reads as a mark.
func someOutput(t *testing.T, random *rand.Rand) output.Reader {
	t.Helper()
	log := output.NewStore(output.Config{Cap: 1 << 20, Dir: func() (string, error) { return t.TempDir(), nil }}).NewLog("x")
	t.Cleanup(log.Discard)
	var rest [sections][]byte
	words := []string{"word ", "日本", "é", "\n", "\x1b[1;31mred\x1b[0m", "\x1b]0;a title\x07", "\x1b(B", "🙂 ", "\t"}
	for i := range rest {
		for range random.IntN(4000) {
			rest[i] = append(rest[i], words[random.IntN(len(words))]...)
			if random.IntN(1000) == 0 {
				rest[i] = append(rest[i], strings.Repeat("0123456789", random.IntN(3000))...)
			}
		}
	}
	streams := [sections]output.Stream{output.Stdout, output.Stderr, output.Result}
	for i := stdout; len(rest[stdout])+len(rest[stderr]) > 0; i = stdout + stderr - i {
		n := min(random.IntN(1+random.IntN(pieceMax)), len(rest[i]))
		log.Write(streams[i], rest[i][:n])
		rest[i] = rest[i][n:]
	}
	log.Write(output.Result, rest[result])
	log.Finish()
	return log
}

// pieceMax is the most bytes of one piece. A page can't end where the pieces of two streams split
// each other's sequences, so a page for fewer characters than sequenceMax can be longer.
const (
	pieceMax    = 200
	sequenceMax = 4 << 10
)

// rounds returns how often a test repeats: each takes up to a tenth of a second.
func rounds(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

// anyRoom returns a number of characters that a call can ask for.
func anyRoom(random *rand.Rand) int {
	return random.IntN([]int{10, 500, 5000, 45_000}[random.IntN(4)])
}

// Whatever the room, the pages that the cursors of replies lead to show all output once.
func TestCursorsLeadThroughAllOutput(t *testing.T) {
	racetest.Skip(t)
	for range rounds(10) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		log := someOutput(t, random)
		end := log.Stat().End
		var shown [sections]string
		for cursor := int64(0); cursor < end; {
			most := anyRoom(random)
			x := newExcerpt(log, true, Window{From: cursor, Part: Forward}, most)
			n := 0
			for i, text := range x.text {
				shown[i] += text
				n += chars(text)
			}
			if x.next <= cursor || n > max(sequenceMax, most) {
				t.Fatalf("seed %d: %d characters in a room for %d, from %d to %d of %d", seed, n, most, cursor, x.next, end)
			}
			if x.next < end && (len(x.omitted) != 1 || x.omitted[0] != output.Range{From: x.next, To: end}) {
				t.Fatalf("seed %d: read up to %d of %d, omitted are %v", seed, x.next, end, x.omitted)
			}
			cursor = x.next
		}
		if d := cmp.Diff(textOf(log, 0, end), shown); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
	}
}

// Whatever the room, the two ends that a reply shows and what it says it omits are all output.
func TestOmittedIsWhatIsNotShown(t *testing.T) {
	racetest.Skip(t)
	for range rounds(20) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		log := someOutput(t, random)
		end := log.Stat().End
		most := anyRoom(random)
		x := newExcerpt(log, true, Window{}, most)
		if len(x.omitted) == 0 {
			if d := cmp.Diff(textOf(log, 0, end), x.text); d != "" {
				t.Fatalf("seed %d: %s", seed, d)
			}
			continue
		}
		o := x.omitted[0]
		before, between, after := textOf(log, 0, o.From), textOf(log, o.From, o.To), textOf(log, o.To, end)
		mark := fmt.Sprintf("[… cursor %d..%d not shown …]", o.From, o.To)
		n := 0
		for i := range before {
			n += chars(before[i]) + chars(after[i])
			want := before[i] + mark + after[i]
			switch {
			case between[i] == "" || before[i]+after[i] == "":
				want = before[i] + after[i]
			case before[i] == "" || strings.HasSuffix(before[i], "\n"):
				want = before[i] + mark + "\n" + after[i]
			}
			shown := x.text[i]
			if shown != want { // what is omitted of this section can be without characters
				shown = strings.NewReplacer(mark+"\n", "", mark, "").Replace(shown)
			}
			if shown != want {
				t.Fatalf("seed %d, %s: %s", seed, sectionNames[i], cmp.Diff(want, x.text[i]))
			}
			if before[i]+between[i]+after[i] != textOf(log, 0, end)[i] {
				t.Fatalf("seed %d, %s: cut at %d or %d inside a character or a sequence", seed, sectionNames[i], o.From, o.To)
			}
		}
		if n > max(sequenceMax, most) || n == 0 {
			t.Fatalf("seed %d: %d characters in a room for %d", seed, n, most)
		}
	}
}

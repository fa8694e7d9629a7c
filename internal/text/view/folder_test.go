package view

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/racetest"
)

// A logLine is one line of text, without its newline.
type logLine struct {
	Text  []byte // it is valid until the function that gets the line returns
	At    int64  // the cursor at which it begins
	Begun bool   // it is the rest of a line
	Open  bool   // it is the beginning of a line
}

// lines returns the lines of the block.
func (b *Block) lines() iter.Seq[logLine] {
	return func(yield func(logLine) bool) {
		for at := 0; at < len(b.Text); {
			start, end, next := b.Bounds(at)
			line := logLine{Text: valid(b.Text[start:end]), At: b.Cursor(start)}
			line.Begun = b.Begun && start == 0
			line.Open = b.Open && next == len(b.Text)
			if !yield(line) {
				return
			}
			at = next
		}
	}
}

// A folding is what a Folder has passed on.
type folding struct {
	text   strings.Builder
	lines  []string
	starts []int64 // the beginnings of the lines
}

func (g *folding) add(b Block) {
	for line := range b.lines() {
		if line.Begun {
			g.lines[len(g.lines)-1] += string(line.Text)
		} else {
			g.lines = append(g.lines, string(line.Text))
			g.starts = append(g.starts, line.At)
		}
	}
	for line := range strings.Lines(string(b.Text)) {
		line = string(valid([]byte(line)))
		if b.raw && strings.HasSuffix(line, "\r\n") {
			line = line[:len(line)-2] + "\n"
		}
		g.text.WriteString(line)
	}
}

// fold passes b to a Folder in pieces, of which next returns the sizes. asks makes it look at the
// pending lines after each piece, and fails if they are not the rest of the text so far.
func fold(t *testing.T, b []byte, from int64, next func() int, asks bool) *folding {
	t.Helper()
	g := &folding{}
	f := NewFolder(from, g.add)
	for at := 0; at < len(b); {
		n := min(next(), len(b)-at)
		f.Write(b[at:at+n:at+n], []Place{{0, from + int64(at)}})
		at += n
		if asks {
			now := folding{}
			now.text.WriteString(g.text.String())
			f.Pending(func(block Block) { now.text.WriteString(string(block.Text)) })
			if want := Text(b[:completeWithin(b[:at], maxOpen)]); now.text.String() != want {
				t.Fatalf("pending after %d bytes (-want +got):\n%s", at, cmp.Diff(want, now.text.String()))
			}
		}
	}
	f.Finish()
	return g
}

// sample returns output of the kinds that programs write, with much that is drawn over.
func sample(r *rand.Rand, size int) []byte {
	var b strings.Builder
	pick := func(of ...string) { b.WriteString(of[r.IntN(len(of))]) }
	for b.Len() < size {
		switch r.IntN(12) {
		case 0, 1, 2:
			for range r.IntN(400) {
				fmt.Fprintf(&b, "plain line %d of some length %s", r.IntN(1000), strings.Repeat("=", r.IntN(60)))
				pick("\n", "\n", "\r\n")
			}
		case 3:
			for i := range r.IntN(50) {
				fmt.Fprintf(&b, "\r%d%% done", i)
			}
			pick("\n", "\r\n", "")
		case 4:
			fmt.Fprintf(&b, "\x1b[%dA\r\x1b[2Kdrawn over\x1b[%dB\r", r.IntN(200), r.IntN(200))
		case 5:
			fmt.Fprintf(&b, "\x1b[%d;%dHplaced", r.IntN(60), r.IntN(100))
		case 6:
			pick("\x1b[2J\x1b[H", "\x1b[?1049h", "\x1b[?1049l", "\x1b7", "\x1b8", "\x1b[J", "\x1b[K", "\x1bc",
				"\x1b(0", "\x1b(B", "\x1b)0", "\x0e", "\x0f")
		case 7:
			pick("日本語 ü 🙂", "\xff", "\xe2\x82", "\x00", "\x07", "\u009b31m", "a\u0085b", "\x7f", "\x1b]0;title", "\x1bPq")
		case 8:
			fmt.Fprintf(&b, "\x1bPq#0;%s\n~~\n\x1b\\", strings.Repeat("?", r.IntN(3000)))
		case 9:
			b.WriteString(strings.Repeat("wide ", r.IntN(1000)))
		default:
			fmt.Fprintf(&b, "\x1b[3%dmcoloured %d\x1b[0m", r.IntN(8), r.IntN(100))
			pick("\n", "\n", " ")
		}
	}
	return []byte(b.String())
}

func FuzzFolder(f *testing.F) {
	for i := range 8 {
		f.Add(sample(rand.New(rand.NewPCG(uint64(i), 0)), 3000), uint16(i*i*50), i%2 == 0)
	}
	f.Add([]byte(numbered(5000, 9)+"\x1b[3A\x1b[2Kx"), uint16(40_000), false)
	f.Fuzz(func(t *testing.T, b []byte, cut uint16, asks bool) {
		g := fold(t, b, 0, func() int { return int(cut) + 1 }, asks && len(b) < 1<<12)
		if want := Text(b); g.text.String() != want {
			t.Fatalf("-want +got:\n%s", cmp.Diff(want, g.text.String()))
		}
	})
}

func TestFolderFoldsAsText(t *testing.T) {
	racetest.Skip(t)
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		b := sample(r, 1<<(6+round%13))
		most := 1 + r.IntN(len(b))
		if r.IntN(3) == 0 && len(b) < 1<<14 {
			most = 1 + r.IntN(20)
		}
		g := fold(t, b, 0, func() int { return 1 + r.IntN(most) }, len(b) < 1<<12)
		if want := Text(b); g.text.String() != want {
			t.Fatalf("round %d, %d bytes: (-want +got):\n%s", round, len(b), cmp.Diff(want, g.text.String()))
		}
	}
}

// Every control character between plain bytes is seen, wherever it is in a word of the machine.
func TestPlainLen(t *testing.T) {
	line := []byte("some text, some more text and the end\tof it\r\n")
	for c := range 256 {
		for at := range 20 {
			b := append(append([]byte(nil), line...), line...)
			b[at] = byte(c)
			want := len(b)
			if c < 0x20 && c != '\n' && c != '\t' || c == 0x7f || c == 0xc2 {
				want = at
			}
			if got := plainLen(b); got != want {
				t.Errorf("%#x at %d: %d plain bytes, want %d", c, at, got, want)
			}
		}
	}
}

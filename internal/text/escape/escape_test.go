package escape_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/terminal/keys"
	"asyncrepl/internal/text/escape"
)

// The modes are the same however the output is cut.
func TestModesFollowTheOutput(t *testing.T) {
	for output, want := range map[string]keys.Modes{
		"":                                {},
		"\x1b[?1h":                        {ApplicationCursor: true},
		"text\x1b[?1h\x1b=more\x1b[31m":   {ApplicationCursor: true},
		"\x1b[?1h\x1b[?1l":                {},
		"\x1b[?2004h\x1b[?1049h":          {BracketedPaste: true},
		"\x1b[?12;1;2004h":                {ApplicationCursor: true, BracketedPaste: true},
		"\x1b[?1;2004h\x1b[?2004l":        {ApplicationCursor: true},
		"\x1b[?1;2004h\x1bc":              {},
		"\x1b[?1;2004h\x1b[!p":            {BracketedPaste: true},
		"\x1b[1h\x1b[>1h\x1b[?11h\x1b[?h": {},
		"\x1b[?1 h\x1b[?1$p\x1b[?1\x18h":  {},
		"\x1b[?1\x1b[?2004h":              {BracketedPaste: true},
		"\x1b\x1b[?1h":                    {ApplicationCursor: true},
		"\x1b]0;title\x1b[?1h":            {ApplicationCursor: true},
		"\x1b[?1h\x1b[?" + strings.Repeat("9;", 5000) + "1l": {ApplicationCursor: true},
	} {
		for size := 1; size <= len(output)+1 && size < 40; size++ {
			if len(output) > 1000 && size > 1 { // cut where the sequence is held
				continue
			}
			var f escape.Modes
			for piece := range chunks([]byte(output), size) {
				f.Write(piece)
				clear(piece) // the piece is the caller's again
			}
			if keys.ModesOf(&f) != want {
				t.Errorf("%.40q in pieces of %d: %+v, want %+v", output, size, keys.ModesOf(&f), want)
			}
		}
	}
}

func chunks(b []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(bytes.Clone(b[:n])) {
				return
			}
			b = b[n:]
		}
	}
}

func FuzzModes(f *testing.F) {
	f.Add([]byte("\x1b[?1h\x1b[?1;2004l\x1bc\x1b[!p"), 3)
	f.Fuzz(func(t *testing.T, output []byte, size int) {
		if len(output) > 200 { // a longer sequence is given up if it is cut
			return
		}
		var whole, cut escape.Modes
		whole.Write(output)
		for piece := range chunks(output, max(1, size)) {
			cut.Write(piece)
		}
		if a, b := keys.ModesOf(&whole), keys.ModesOf(&cut); a != b {
			t.Errorf("%+v in one piece, %+v in pieces of %d", a, b, size)
		}
	})
}

// BenchmarkModes measures the follower beside a search for one byte that is not there.
func BenchmarkModes(b *testing.B) {
	for name, line := range map[string]string{
		"plain":    "2026-11-22 10:00:00 INFO request served in 12 ms by worker 7\n",
		"coloured": "\x1b[32mINFO\x1b[0m request \x1b[1mserved\x1b[0m in 12 ms by \x1b[36mworker 7\x1b[0m\n",
	} {
		text := []byte(strings.Repeat(line, 1<<20/len(line)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var f escape.Modes
			for b.Loop() {
				f.Write(text)
			}
		})
		b.Run(name+"-floor", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				bytes.IndexByte(text, 1)
			}
		})
	}
}

// What sequences are found, and where they end, does not depend on where the output is cut.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"a\x1b[31mb\x1b]0;title\a\x1b]8;;u\x1b\\c", "\x1b", "\x1b\x1b[6n", "\x1bPq\n1\x1b[6n", "\x1b]x\x18\x1b[?1h", "\x1b(B\x1b[!p\x1b]1337;a\nb\a",
		"\x1b[" + strings.Repeat("9;", 200) + "m\x1b[6n", "\x1b]" + strings.Repeat("t", 300) + "\x1b\\\x1bc", "\x1b]" + strings.Repeat("t", 300) + "\x1b[1m",
	} {
		f.Add([]byte(s), 1, 3)
		f.Add([]byte(s), 258, 2)
	}
	f.Fuzz(func(t *testing.T, b []byte, first, second int) {
		want := found(b)
		for _, q := range want {
			if s := escape.Scan([]byte(q.text)); s.Open || s.Broken || s.Len != len(q.text) {
				t.Errorf("%q is found, and is %+v", q.text, s)
			}
		}
		i := max(0, first) % (len(b) + 1)
		j := i + max(0, second)%(len(b)-i+1)
		if got := found(b[:i], b[i:j], b[j:]); !slices.Equal(got, want) {
			t.Errorf("%q, %q, %q: %+v, want %+v", b[:i], b[i:j], b[j:], got, want)
		}
		if got := found(slices.Collect(slices.Chunk(b, 1))...); !slices.Equal(got, want) {
			t.Errorf("%q byte by byte: %+v, want %+v", b, got, want)
		}
	})
}

type sequence struct {
	text string
	end  int // in all of the output
}

// found returns what a Reader finds in output in pieces.
func found(pieces ...[]byte) (all []sequence) {
	var r escape.Reader
	before := 0
	for _, b := range pieces {
		r.Read(bytes.Clone(b), func(text []byte, end int) { all = append(all, sequence{string(text), before + end}) })
		before += len(b)
	}
	return all
}

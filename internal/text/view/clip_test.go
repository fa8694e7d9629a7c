package view

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/racetest"
)

// numbered returns so many lines of width characters and a newline, each with its number.
func numbered(n, width int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%0*d\n", width, i)
	}
	return b.String()
}

func one(cursor int64, s string) Stretch {
	return Stretch{Cursor: cursor, Spans: []Span{{0, []byte(s)}}}
}

func TestClip(t *testing.T) {
	type want struct {
		head, tail string
		from, to   int64
	}
	lines := numbered(1000, 9) // 10 bytes each
	long := strings.Repeat("x", 5000)
	tests := map[string]struct {
		head, tail Stretch
		budget     Budget
		want       want
	}{
		"nothing":       {Stretch{}, Stretch{}, Budget{Head: 100, Max: 1000}, want{}},
		"all":           {one(7, "a\nb"), Stretch{}, Budget{Head: 100, Max: 1000}, want{"a\nb", "", 7, 7}},
		"just fits":     {one(0, lines[:1000]), Stretch{}, Budget{Head: 200, Max: 1000}, want{lines[:1000], "", 0, 0}},
		"does not":      {one(0, lines[:1010]), Stretch{}, Budget{Head: 200, Max: 1000}, want{lines[:200], lines[210:1010], 200, 210}},
		"two stretches": {one(0, lines[:5000]), one(5000, lines[5000:]), Budget{Head: 4000, Max: 8000}, want{lines[:4000], lines[6000:], 4000, 6000}},
		"in the second": {one(0, lines[:50]), one(50, lines[50:]), Budget{Head: 400, Max: 1000}, want{lines[:400], lines[9400:], 400, 9400}},
		"a gap":         {one(0, lines[:500]), one(70_005, lines[5:5000]), Budget{Head: 600, Max: 1000}, want{lines[:500], lines[4500:5000], 500, 74_500}},
		"torn at the gap": {one(0, lines[:20]), one(1003, "567\n"+lines[:30]), Budget{Head: 100, Max: 1000},
			want{lines[:20], lines[:30], 20, 1007}},
		"newest only":  {one(40, lines), Stretch{}, Budget{Head: 0, Max: 300}, want{"", lines[9700:], 40, 9740}},
		"small head":   {one(0, lines), Stretch{}, Budget{Head: 9, Max: 300}, want{lines[:9], lines[9710:], 9, 9710}},
		"only a head":  {one(0, lines), Stretch{}, Budget{Head: 305, Max: 305}, want{lines[:300], "", 300, 10_000}},
		"no budget":    {one(7, "日本"), Stretch{}, Budget{Head: 1, Max: 0}, want{"日", "", 10, 13}},
		"least budget": {one(0, lines), Stretch{}, Budget{Head: 0, Max: 1}, want{"", "\n", 0, 9999}},
		"no newline at the end": {one(0, lines+"end"), Stretch{}, Budget{Head: 0, Max: 300},
			want{"", lines[9710:] + "end", 0, 9710}},
		"long line": {one(0, "a\n"+long+"\nb\n"), Stretch{}, Budget{Head: 1000, Max: 9000}, want{"a\n" + long + "\nb\n", "", 0, 0}},
		"longer line": {one(0, "a\n"+long+"\nb\n"), Stretch{}, Budget{Head: 1000, Max: 4000},
			want{"a\n" + long[:998], long[:2997] + "\nb\n", 1000, 2005}},
		"long last line": {one(0, lines+long), Stretch{}, Budget{Head: 100, Max: 300}, want{lines[:100], long[:200], 100, 14_800}},
		"page of a long line": {one(7, long+"\n"+lines), Stretch{}, Budget{Head: 3000, Max: 3000},
			want{long[:3000], "", 3007, 15_008}},
		"page that ends after a long line": {one(7, long+"\n"+lines), Stretch{}, Budget{Head: 5004, Max: 5004},
			want{long + "\n", "", 5008, 15_008}},
		"wide characters": {one(0, strings.Repeat("日本", 50)), Stretch{}, Budget{Head: 30, Max: 60},
			want{strings.Repeat("日本", 15), strings.Repeat("日本", 15), 90, 210}},
		"colours": {one(0, strings.Repeat("\x1b[31mred\x1b[0m", 50)), Stretch{}, Budget{Head: 30, Max: 60},
			want{strings.Repeat("red", 10), strings.Repeat("red", 10), 116, 476}},
		"progress": {one(0, strings.Repeat("\r50%", 10_000)+"\n"+lines[:100]), Stretch{}, Budget{Head: 100, Max: 1000},
			want{"50%\n" + lines[:100], "", 0, 0}},
		"progress before much": {one(0, strings.Repeat("\r50%", 10_000)+"\n"+lines), Stretch{}, Budget{Head: 104, Max: 304},
			want{"50%\n" + lines[:100], lines[9800:], 40_101, 49_801}},
		"looks like a mark": {one(0, "--- STDERR ---\nx"), Stretch{}, Budget{Head: 100, Max: 1000},
			want{"\\--- STDERR ---\nx", "", 0, 0}},
		"only the second": {Stretch{}, one(30, lines[:30]), Budget{Head: 100, Max: 1000}, want{lines[:30], "", 30, 30}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := Clip(tt.head, tt.tail, tt.budget)
			var s Section
			if len(p.Sections) > 0 {
				s = p.Sections[0]
			}
			got := want{s.Head, s.Tail, p.From, p.To}
			if got != tt.want {
				t.Errorf("\n got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestClipSections(t *testing.T) {
	var w Stretch
	for i := range 100 {
		w.Spans = append(w.Spans, Span{0, fmt.Appendf(nil, "out %02d\n", i)}, Span{1, fmt.Appendf(nil, "err %02d\n", i)})
	}
	p := Clip(w, Stretch{}, Budget{Head: 70, Max: 280})
	if p.From != 70 || p.To != 1190 || p.Omitted() != 1120 {
		t.Errorf("left out %d..%d", p.From, p.To)
	}
	for i, name := range []string{"out", "err"} {
		s := p.Sections[i]
		if !strings.HasPrefix(s.Head, name+" 00\n") || strings.Count(s.Head, "\n") != 5 {
			t.Errorf("%s: head %q", name, s.Head)
		}
		if !strings.HasSuffix(s.Tail, name+" 99\n") || strings.Count(s.Tail, "\n") != 15 {
			t.Errorf("%s: tail %q", name, s.Tail)
		}
	}
}

// A sequence stays one even if bytes of another stream come in the middle of it.
func TestClipJoinsSequencesOfAStream(t *testing.T) {
	w := Stretch{Cursor: 0, Spans: []Span{{0, []byte("a\x1b[3")}, {1, []byte("err\n")}, {0, []byte("1mb\xe2")}, {1, []byte("x")}, {0, []byte("\x82\xac")}}}
	p := Clip(w, Stretch{}, Budget{Head: 100, Max: 1000})
	if p.Sections[0].Head != "ab€" || p.Sections[1].Head != "err\nx" {
		t.Errorf("got %q", p.Sections)
	}
}

// A page shows at least one character, also if the first sequences have none and pieces of two
// sections split each other's sequences.
func TestClipShowsACharacter(t *testing.T) {
	page := Clip(Stretch{Cursor: 0, Spans: []Span{
		{1, []byte("\x1b]0;a title\a\x1b]0;a ")}, {0, []byte("two \x1b[1;31mred\x1b")}, {1, []byte("title\a")}, {0, []byte("[0m" + numbered(9, 9))},
	}}, Stretch{}, Budget{Head: 1, Max: 1})
	if got := page.Sections[0].Head; !strings.HasPrefix(got, "two red") {
		t.Errorf("the page shows %q, %q", got, page.Sections)
	}
}

// A stretch without any newline, or with a screen that is drawn by moving the cursor.
func TestClipWithoutLines(t *testing.T) {
	var screen strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&screen, "\x1b[%d;1Hrow %d%s", i%40+1, i, strings.Repeat(".", 100))
	}
	for name, w := range map[string]Stretch{
		"one line":      one(0, strings.Repeat("日本語", 100_000)),
		"torn one line": one(12_345, strings.Repeat("日本語", 100_000)[1:]),
		"screen":        one(0, screen.String()),
	} {
		t.Run(name, func(t *testing.T) {
			p := Clip(w, Stretch{}, Budget{Head: 400, Max: 2000})
			s := p.Sections[0].Head + p.Sections[0].Tail
			if n := utf8.RuneCountInString(s); n > 2000 || n < 1000 {
				t.Errorf("%d characters", n)
			}
			if strings.Contains(s, "\uFFFD") {
				t.Errorf("got %.80q", s)
			}
		})
	}
}

// In all sizes, a page shows the text of its bytes and as much as fits.
func TestClipShowsAsMuchAsFits(t *testing.T) {
	racetest.Skip(t)
	var b bytes.Buffer
	for i := range 300 {
		fmt.Fprintf(&b, "%s\r\x1b[Kline %d %s\n", strings.Repeat("#", i%50), i, strings.Repeat("ä", i*7%97))
	}
	log := b.String()
	for max := 256; max < 8000; max += 571 {
		for _, head := range []int{0, 50, max / 5, max / 2} {
			p := Clip(one(0, log), Stretch{}, Budget{Head: head, Max: max})
			s := p.Sections[0]
			if s.Head != Text([]byte(log[:p.From])) || s.Tail != Text([]byte(log[p.To:])) {
				t.Fatalf("budget %d/%d: %d..%d is not the omission", head, max, p.From, p.To)
			}
			n := utf8.RuneCountInString(s.Head) + utf8.RuneCountInString(s.Tail)
			next := strings.LastIndexByte(log[:p.To-1], '\n') + 1
			if more := n + utf8.RuneCountInString(Text([]byte(log[next:p.To]))); n > max || more <= max {
				t.Fatalf("budget %d/%d: %d characters, %d would be the next", head, max, n, more)
			}
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add([]byte("a\nb\x1b[31mc\n--- STDOUT ---\n"), uint16(300), uint16(50), uint16(3), uint8(2), uint16(9))
	f.Add([]byte(numbered(200, 9)), uint16(300), uint16(50), uint16(700), uint8(1), uint16(0))
	f.Add([]byte(strings.Repeat("\x1b[3;3Hx\xff", 900)), uint16(1), uint16(0), uint16(70), uint8(3), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, limit, head, cut uint16, width uint8, gap uint16) {
		stretches := stretchesOf(b, min(int(cut), len(b)), int64(gap), int(width)*8+1)
		p := Clip(stretches[0], stretches[1], Budget{Head: int(head), Max: int(limit)})
		n := 0
		for _, s := range p.Sections {
			for _, text := range []string{s.Head, s.Tail} {
				if p.Omitted() == 0 && s.Tail != "" {
					t.Fatalf("a tail though nothing is left out: %q", s.Tail)
				}
				checkReadable(t, text)
				n += utf8.RuneCountInString(text)
				checkLines(t, text)
			}
		}
		if n > max(int(limit), 1) {
			t.Fatalf("%d characters of %d", n, limit)
		}
		start, end := stretches[0].Cursor, stretches[1].End()
		if len(stretches[0].Spans) == 0 && len(stretches[1].Spans) > 0 {
			start = stretches[1].Cursor
		}
		if len(stretches[1].Spans) == 0 {
			end = stretches[0].End()
		}
		if p.From < start || p.To < p.From || p.To > end {
			t.Fatalf("left out %d..%d of %d..%d", p.From, p.To, start, end)
		}
	})
}

// stretchesOf makes two stretches of b, cut at an offset, with a gap between them and spans of a
// size in turn in three sections.
func stretchesOf(b []byte, at int, gap int64, size int) [2]Stretch {
	stretches := [2]Stretch{{Cursor: gap}, {Cursor: gap + int64(at) + gap}}
	for i, part := range [][]byte{b[:at], b[at:]} {
		for n := 0; len(part) > 0; n++ {
			size := min(len(part), size)
			stretches[i].Spans = append(stretches[i].Spans, Span{n % 3, part[:size]})
			part = part[size:]
		}
	}
	return stretches
}

// checkLines fails if a line of text reads as a section mark.
func checkLines(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if isMark([]rune(line)) && line[0] != '\\' {
			t.Fatalf("a section mark in %q", text)
		}
	}
}

// FuzzSpans clips output that comes in one span and the same in many: the pieces make no
// difference.
func FuzzSpans(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\xe2\x82\xac\r\nc\x1b[A\x1b[2Kd\n"), uint16(300), uint16(100), uint8(1))
	f.Add([]byte(numbered(90, 9)), uint16(300), uint16(100), uint8(7))
	f.Add([]byte(strings.Repeat("x", 3000)+"\n--- X ---\n"), uint16(256), uint16(0), uint8(255))
	f.Fuzz(func(t *testing.T, b []byte, limit, head uint16, width uint8) {
		many := Stretch{}
		for rest := b; len(rest) > 0; {
			n := min(len(rest), int(width)+1)
			many.Spans = append(many.Spans, Span{0, rest[:n]})
			rest = rest[n:]
		}
		one := Stretch{}
		if len(b) > 0 {
			one.Spans = []Span{{0, b}}
		}
		budget := Budget{Head: int(head), Max: int(limit)}
		want := Clip(one, Stretch{}, budget)
		if diff := cmp.Diff(want, Clip(many, Stretch{}, budget)); diff != "" {
			t.Fatalf("in spans of %d bytes:\n%s", int(width)+1, diff)
		}
		// Two stretches that touch are one, wherever the first ends.
		at := len(many.Spans) / 2
		first := Stretch{Cursor: 0, Spans: many.Spans[:at]}
		if diff := cmp.Diff(want, Clip(first, Stretch{Cursor: first.End(), Spans: many.Spans[at:]}, budget)); diff != "" {
			t.Fatalf("in two stretches, the second at %d:\n%s", first.End(), diff)
		}
	})
}

// BenchmarkText has as its floor to decode the characters of the same bytes.
func BenchmarkText(b *testing.B) {
	var bars bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&bars, "\r\x1b[2K%3d%%|####      | %d/10000 [00:01<00:00, 9.8it/s]", i/100, i)
	}
	for name, in := range map[string][]byte{
		"plain":  []byte(numbered(10_000, 79)),
		"colour": bytes.Repeat([]byte("\x1b[32m✓\x1b[0m \x1b[1mtest/case.go\x1b[22m passed in 12ms\r\n"), 10_000),
		"bars":   bars.Bytes(),
		// Input that could cost more than its length: rows erased at their full width, screens
		// cleared, rows changed far apart.
		"hostile": bytes.Repeat([]byte(strings.Repeat("x", maxCols)+strings.Repeat("\x1b[1K\x1b[1@\x1b[P\x1b[2J\x1b[99A\x1b[999Cx\x1b[99B\x1b]\x1bP\n", 100)), 100),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				Text(in)
			}
		})
		b.Run(name+"/floor", func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			var sum rune
			for b.Loop() {
				for rest := in; len(rest) > 0; {
					r, n := utf8.DecodeRune(rest)
					sum |= r
					rest = rest[n:]
				}
			}
			if sum == 0 {
				b.Error("nothing was decoded")
			}
		})
	}
}

func BenchmarkClip(b *testing.B) {
	for _, size := range []int{16 << 10, 256 << 10, 1 << 20} {
		w := one(0, numbered(size/80, 79))
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				Clip(w, Stretch{}, Budget{Head: 3200, Max: 16_000})
			}
		})
	}
}

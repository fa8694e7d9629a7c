package report

import (
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/view"
)

// pieces cuts b into pieces. Each byte of ops chooses the length of one and its stream.
func pieces(b, ops []byte, each func(s output.Stream, piece []byte)) {
	for i := 0; len(b) > 0; i++ {
		op := byte(255)
		if len(ops) > 0 {
			op = ops[i%len(ops)]
		}
		n := min(len(b), int(op>>2)+1)
		each([]output.Stream{output.Stdout, output.Stderr, output.TTY, output.Result}[op%4], b[:n])
		b = b[n:]
	}
}

// FuzzReading writes output piece by piece and reads it by cursor in between, as a client does.
// Cursors only grow, omitted bytes are counted, and a repeated call gets the same answer.
func FuzzReading(f *testing.F) {
	f.Add([]byte("one\ntwo\x1b[31mred\x1b[0m\r\n€\xff"), []byte{0, 9, 41}, uint16(500))
	f.Add([]byte("\x1b]0;title\x07\x1b[5;9Hx\x1b[2A\x1b[K--- STDOUT ---\n"), []byte{7}, uint16(0))
	f.Add([]byte(strings.Repeat("line of some length\n", 90)), []byte{200, 3}, uint16(300))
	f.Fuzz(func(t *testing.T, b, ops []byte, room uint16) {
		b = b[:min(len(b), 4<<10)]
		log := output.NewStore(output.Config{Cap: 1 << 20, Dir: func() (string, error) { return t.TempDir(), nil }}).NewLog("x")
		defer log.Discard()
		cursor := int64(0)
		read := func(final bool) {
			for _, part := range []Part{Newest, Ends, Forward} {
				w := Window{From: cursor, Part: part}
				x := newExcerpt(log, final, w, int(room))
				if again := newExcerpt(log, final, w, int(room)); !reflect.DeepEqual(again, x) {
					t.Fatalf("the same call is answered in two ways:\n%+v\n%+v", x, again)
				}
				checkExcerpt(t, x, w, log.Stat().End, int(room))
				if part == Forward {
					cursor = x.next
				}
			}
		}
		pieces(b, ops, func(s output.Stream, piece []byte) {
			log.Write(s, piece)
			read(false)
		})
		log.Finish()
		for last := int64(-1); cursor > last; {
			last = cursor
			read(true)
		}
		if cursor != int64(len(b)) {
			t.Fatalf("the end is at %d, the last cursor %d", len(b), cursor)
		}
	})
}

// checkExcerpt fails the test if x is not a valid excerpt of the output from w.From to end.
func checkExcerpt(t *testing.T, x excerpt, w Window, end int64, room int) {
	t.Helper()
	if x.next < w.From || x.next > end {
		t.Fatalf("read from %d, the next cursor is %d of %d", w.From, x.next, end)
	}
	for _, o := range x.omitted {
		valid := w.From <= o.From && o.From < o.To && o.To <= end
		if beyond := o.From == x.next; !valid || beyond != (w.Part == Forward) {
			t.Fatalf("read %d to %d, left out are %+v", w.From, x.next, o)
		}
	}
	n := 0
	for _, s := range x.text {
		n += chars(s)
	}
	if n > max(room, 1)+3*80 { // a mark for each of three holes stands beside the text
		t.Fatalf("%d characters in a room for %d", n, room)
	}
	for _, s := range x.text {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Fatalf("shown: %q", s)
		}
	}
}

// FuzzReadingOn reads output without cursor movements. In whatever pieces it is written, and
// whatever the room, the text shown page by page is the text of the complete output.
func FuzzReadingOn(f *testing.F) {
	f.Add("one\n€ \x1b[31mred\x1b[0m 日本\n\n", "", []byte{0, 9, 41})
	f.Add("a\x1b]0;title\x07b\x1b(Bc\n", "warning: \x1b\n", []byte{4})
	f.Add("000\n€0\x1b00000", "00\x1b0000日本 \n", []byte{49, 48})
	f.Fuzz(func(t *testing.T, out, errs string, ops []byte) {
		rest := [sections][]byte{coloured(out), coloured(errs)}
		if rest[stdout] == nil || rest[stderr] == nil {
			return
		}
		log := output.NewStore(output.Config{Cap: 1 << 20, Dir: func() (string, error) { return t.TempDir(), nil }}).NewLog("x")
		defer log.Discard()
		want := [sections]string{stdout: view.Text(rest[stdout]), stderr: view.Text(rest[stderr])}
		var shown [sections]string
		cursor := int64(0)
		rooms := 0
		read := func(final bool) {
			rooms++
			x := newExcerpt(log, final, Window{From: cursor, Part: Forward}, []int{45_000, 1, 9, 300}[rooms%4])
			for i, s := range x.text {
				shown[i] += s
			}
			cursor = x.next
		}
		for i := 0; len(rest[stdout])+len(rest[stderr]) > 0; i++ {
			op := byte(i)
			if len(ops) > 0 {
				op = ops[i%len(ops)]
			}
			section := int(op & 1)
			n := min(int(op>>1)+1, len(rest[section]))
			log.Write([]output.Stream{output.Stdout, output.Stderr}[section], rest[section][:n])
			rest[section] = rest[section][n:]
			read(false)
			if n == 0 {
				ops = nil // from here on both streams have their turn
			}
		}
		log.Finish()
		for last := int64(-1); cursor > last; {
			last = cursor
			read(true)
		}
		if shown != want {
			t.Fatalf("of %q and %q\n read on: %q\nat once: %q", out, errs, shown, want)
		}
	})
}

// coloured returns s with each ESC replaced by a sequence that moves nothing. It returns nil if s
// moves the cursor itself or is not text.
func coloured(s string) []byte {
	const esc = '\x1b'
	moves := func(r rune) bool { return r != esc && r != '\n' && unicode.IsControl(r) }
	// A dash can begin a mark, which counts only if it is complete.
	if !utf8.ValidString(s) || len(s) > 1500 || strings.Contains(s, "-") || strings.ContainsFunc(s, moves) {
		return nil
	}
	b := []byte{}
	for i, r := range s {
		if r == esc {
			b = append(b, []string{"\x1b[1;31m", "\x1b]0;a title\x1b\\", "\x1b(B", "\x1b[?25l"}[i%4]...)
			continue
		}
		b = utf8.AppendRune(b, r)
	}
	return b
}

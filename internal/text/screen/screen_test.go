package screen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/vt"

	"asyncrepl/internal/text/view"
)

// What a program asks its terminal to do beyond what the library knows, or as it does not do it.
func TestScreen(t *testing.T) {
	const scrolled = "1\r\n2\r\n3\r\n4\r\n5\r\n6"
	tests := map[string]struct {
		in   string
		want string // its rows
		at   string // the cursor
	}{
		"text":                      {"one\r\ntwo", "one\ntwo", "2,4"},
		"scrolled":                  {scrolled, "2\n3\n4\n5\n6", "5,2"},
		"the other screen":          {"main\x1b[?1049hother", "    other", "1,10"},
		"and back":                  {"main\x1b[?1049h\x1b[3;3Hother\x1b[?1049l!", "main!", "1,6"},
		"by another number":         {"main\x1b[?47h\x1b[3;3Hother\x1b[?47l!", "main!", "1,6"},
		"again":                     {"a\x1b[?1049hb\x1b[?1049l\x1b[?1049hc", " c", "1,3"},
		"with another mode":         {"\x1b[?1049;25hx", "x", "1,2"},
		"back without having left":  {"ab\x1b[?1049lc", "cb", "1,2"},
		"reset":                     {"main\x1b[?1049hother\x1bcnew", "new", "1,4"},
		"saved cursor":              {"ab\x1b[scd\x1b[uX", "abXd", "1,4"},
		"next line":                 {"ab\x1bEcd", "ab\ncd", "2,3"},
		"scrollback erased":         {"ab\x1b[3Jcd", "abcd", "1,5"},
		"margins beyond the screen": {"\x1b[1;9999r" + scrolled, "2\n3\n4\n5\n6", "5,2"},
		"margins at the sides":      {"\x1b[?69h\x1b[3;9999sab\x1b[2Lc", "c\n\nab", "1,2"},
		"repeated for ever":         {"a\x1b[999999999bb", strings.Repeat(strings.Repeat("a", 10)+"\n", 4) + "ab", "5,3"},
		"queries":                   {"a\x1b[6n\x1b[c\x1b[>c\x1b[5n\x1b]10;?\x07\x1b[?1$pb", "ab", "1,3"},
		"wide characters":           {"日本\x1b[1;3HX", "日X", "1,4"},
		"combining":                 {"e\u0301x", "e\u0301x", "1,3"},
		"line drawing":              {"\x1b(0lqk\x1b(B", "┌─┐", "1,4"},
		"not UTF-8":                 {"a\xffb\xc3", "ab", "1,3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			whole, torn := New(5, 10), New(5, 10)
			whole.Write([]byte(tt.in))
			for i := range len(tt.in) {
				torn.Write([]byte(tt.in[i : i+1]))
			}
			for s, how := range map[*Screen]string{whole: "at once", torn: "in bytes"} {
				if how == "in bytes" && name == "combining" {
					continue // a character is drawn at the end of a write, or waits for what combines with it
				}
				row, col, ok := s.Cursor()
				if got := strings.Join(s.Rows(), "\n"); got != tt.want || fmt.Sprintf("%d,%d", row, col) != tt.at || !ok {
					t.Errorf("%s:\n got %q at %d,%d %t\nwant %q at %s", how, got, row, col, ok, tt.want, tt.at)
				}
			}
		})
	}
}

func TestResize(t *testing.T) {
	s := New(5, 10)
	s.Write([]byte("12345678\x1b[?1049h\x1b[5;10Hx"))
	s.Resize(3, 20)
	s.Write([]byte("\x1b[3;20Hy"))
	if got, want := strings.Join(s.Rows(), "\n"), "\n\n"+strings.Repeat(" ", 19)+"y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, size := range []Size{{0, 80}, {24, 0}, {100_000, 100_000}} {
		s := New(24, 80)
		s.Resize(size.Rows, size.Cols)
		s.Write([]byte("x"))
		if _, _, ok := s.Cursor(); ok || s.Rows() != nil {
			t.Errorf("%v is drawn", size)
		}
	}
}

// FuzzScreen: no output makes a screen panic, and its rows are text that fits.
func FuzzScreen(f *testing.F) {
	for _, s := range []string{
		"a\r\n\x1b[2Jb\x1b[H", "\x1b[1;9999r\x1b[?69h\x1b[2;9999s\x1b[9L\x1b[9M\n", "\x1b[?1049h\x1b[99999999b\x1b[9P\x1b[9@\x1b[?1049l\x1bc",
		"日\x1b[2D\x1b[K\u0301\xff\x00\x1b]8;;x\x07\x1bPq", "\x1b(0x\x0e\x1b7\x1b[9T\x1b8\x1b[I\x1b[Z\x1b[3g\t",
	} {
		f.Add([]byte(s), uint8(5), uint8(10))
	}
	f.Fuzz(func(t *testing.T, b []byte, rows, cols uint8) {
		size := Size{int(rows)%60 + 1, int(cols)%150 + 1}
		p, err := Draw(b, true, size)
		if err != nil && err != errSlow {
			t.Fatalf("%q on %v: %v", b, size, err)
		}
		s := New(size.Rows, size.Cols)
		s.Write(b[:len(b)/2])
		s.Resize(size.Rows/2+1, size.Cols+1)
		s.Write(b[len(b)/2:])
		for _, row := range append(p.Rows, s.Rows()...) {
			if !utf8.ValidString(row) || strings.ContainsFunc(row, unicode.IsControl) || strings.HasSuffix(row, " ") {
				t.Fatalf("row %q", row)
			}
		}
		if err == nil && (p.Row < 1 || p.Row > size.Rows || p.Col < 1 || p.Col > size.Cols || len(p.Rows) > size.Rows) {
			t.Fatalf("cursor %d,%d and %d rows on %v", p.Row, p.Col, len(p.Rows), size)
		}
	})
}

// BenchmarkDraw draws the newest 256 KiB of some programs, and of output that is made to cost time,
// on a screen of 40 rows and 120 columns. The floor is the library alone.
func BenchmarkDraw(b *testing.B) {
	var frames bytes.Buffer
	for i := 0; frames.Len() < Window; i++ {
		frames.WriteString("\x1b[H")
		for row := range 40 {
			fmt.Fprintf(&frames, "\x1b[1m%5d\x1b(B\x1b[m root      20   0  %6d  %5d \x1b[32mR\x1b[39m  %3d.%d  program\x1b[K", row, i*row%99999, i%9999, i%100, row%10)
			if row < 39 {
				frames.WriteString("\r\n")
			}
		}
	}
	for name, in := range map[string][]byte{
		"frames": frames.Bytes(),
		"log":    []byte(strings.Repeat("a line of a log that a program prints in the course of its work\r\n", Window/66)),
	} {
		in = in[max(0, len(in)-Window):]
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Draw(in, false, Size{40, 120}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/floor", func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				_, _ = vt.NewEmulator(120, 40).Write(in)
			}
		})
	}
}

// Text and screen show the same characters for the line drawing set. The library has another shape of ≤
// and ≥, and shows _ as it is, which xterm does not.
func TestLineDrawingIsThatOfText(t *testing.T) {
	b := []byte("\x1b(0")
	for c := byte(' ') + 1; c < 0x7f; c++ {
		if !strings.ContainsRune("_yz", rune(c)) {
			b = append(b, c)
		}
	}
	p, err := Draw(b, true, Size{2, 120})
	if want := view.Text(b); err != nil || len(p.Rows) != 1 || p.Rows[0] != want {
		t.Errorf("screen %q, text %q, %v", p.Rows, want, err)
	}
}

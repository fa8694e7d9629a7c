package view

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/racetest"
)

// drawnText is Text without its shortcut for plain output.
func drawnText(b []byte, l lines) lines {
	s := new(screen)
	s.reset(l)
	s.draw(b, 0, len(b))
	s.finish()
	return s.out
}

// Plain output that is not drawn reads as if it were.
func TestPlainTextIsNotDrawn(t *testing.T) {
	racetest.Skip(t)
	plain := numbered(500, 60)
	tests := map[string]string{
		"plain":                   plain,
		"CRLF":                    strings.ReplaceAll(plain, "\n", "\r\n"),
		"begun":                   "a\x1b[31mb" + plain,
		"cut by colour":           plain + "\x1b[31mred\x1b[m\n" + plain,
		"moved up afterwards":     plain + "\x1b[120A\x1b[Kx",
		"moved up before":         "a\nb\nc\x1b[2A" + plain,
		"on the other screen":     "\x1b[?1049h" + strings.ReplaceAll(plain, "0", " ") + "\x1b[?1049l",
		"placed":                  "\x1b[5;1Hx" + plain + "\x1b[1;1Hy",
		"line drawing":            "\x1b(0" + plain + "\x1b(B" + plain,
		"a status line":           "\x1b7\x1b[40;1Hbar" + plain + "\x1b8",
		"saved":                   "a\x1b7" + plain + "\x1b8b",
		"marks":                   "--- STDOUT ---\n" + strings.Repeat("--- STDERR ---\r\n--- a/b\n\\--- X ---\n   --- Y ---\n\u00a0--- Z ---\n\u200b---Z---\n", 400),
		"not UTF-8":               strings.Repeat("a\xffb\xe2\x82\n\xed\xa0\x80\n", 2000),
		"wide":                    strings.Repeat("äöü 日本語 🙂\n", 700),
		"long lines":              strings.Repeat(strings.Repeat("x", 3*maxCols)+"\n", 140),
		"a long line":             strings.Repeat("x", 40_000),
		"blank lines":             strings.Repeat("\n", 20_000),
		"tabs, blanks at the end": strings.Repeat("\ta b  \n", 3000),
		"bars":                    plain + strings.Repeat("\r 10%\r 20%", 100) + "\n" + plain,
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			for _, max := range []int{-1, 5000, 1 << 30} {
				for _, mark := range []bool{false, true} {
					want := drawnText([]byte(in), lines{mark: mark, max: max})
					got := render([]byte(in), lines{mark: mark, max: max})
					if max == 5000 { // text beyond a budget is not used
						if (got.chars > max) != (want.chars > max) {
							t.Errorf("%d characters, not %d", got.chars, want.chars)
						}
						continue
					}
					if diff := cmp.Diff(string(want.text), string(got.text)); diff != "" || got.chars != want.chars {
						t.Fatalf("%d characters, not %d; -want +got:\n%.2000s", got.chars, want.chars, diff)
					}
				}
			}
		})
	}
}

// FuzzPlainText puts short output between runs of plain text that are long enough not to be drawn.
func FuzzPlainText(f *testing.F) {
	f.Add([]byte("a\r\n\x1b[2Ax"), []byte("\x1b7\x1b[9;9Hy\x1b8"), uint8(3))
	f.Add([]byte("--- X ---\n\xff"), []byte("\x1b[?1049h~\n~\n"), uint8(9))
	f.Fuzz(func(t *testing.T, line, between []byte, n uint8) {
		var in bytes.Buffer
		for i := range int(n)%3 + 1 {
			in.Write(between)
			for in.Len() < (i+1)*20_000 {
				fmt.Fprintf(&in, "%d %s\n", in.Len(), line)
			}
		}
		in.Write(between)
		for _, mark := range []bool{false, true} {
			want, got := drawnText(in.Bytes(), lines{mark: mark, max: -1}), render(in.Bytes(), lines{mark: mark, max: -1})
			if diff := cmp.Diff(string(want.text), string(got.text)); diff != "" || want.chars != got.chars {
				t.Fatalf("%d characters, not %d; -want +got:\n%.2000s", got.chars, want.chars, diff)
			}
		}
	})
}

package screen

import (
	"slices"
	"strings"
	"testing"
)

// Lines wrap around wide characters as those of tmux 3.3a do.
func TestWideCharactersAtTheEndOfALine(t *testing.T) {
	for name, c := range map[string]struct {
		written  string
		row, col int
		rows     []string
	}{
		"fits":                  {"ab\u6f22", 1, 5, []string{"ab\u6f22"}},
		"fills the line":        {"abcdef\u6f22", 1, 8, []string{"abcdef\u6f22"}},
		"does not fit":          {"abcdefg\u6f22", 2, 3, []string{"abcdefg", "\u6f22"}},
		"after a full line":     {"abcdefgh\u6f22", 2, 3, []string{"abcdefgh", "\u6f22"}},
		"only wide":             {"\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57", 2, 5, []string{"\u6f22\u5b57\u6f22\u5b57", "\u6f22\u5b57"}},
		"then text":             {"\u6f22\u5b57\u6f22\u5b57x", 2, 2, []string{"\u6f22\u5b57\u6f22\u5b57", "x"}},
		"then colour and text":  {"\u6f22\u5b57\u6f22\u5b57\x1b(B\x1b[31mx", 2, 2, []string{"\u6f22\u5b57\u6f22\u5b57", "x"}},
		"then a new line":       {"\u6f22\u5b57\u6f22\u5b57\r\nx", 2, 2, []string{"\u6f22\u5b57\u6f22\u5b57", "x"}},
		"then a return":         {"\u6f22\u5b57\u6f22\u5b57\rx", 1, 2, []string{"x \u5b57\u6f22\u5b57"}},
		"then a move":           {"\u6f22\u5b57\u6f22\u5b57\x1b[1;1Hx", 1, 2, []string{"x \u5b57\u6f22\u5b57"}},
		"emoji":                 {"abcdef\U0001f469\u200d\U0001f52cx", 2, 2, []string{"abcdef\U0001f469\u200d\U0001f52c", "x"}},
		"a title":               {"abcdefg\x1b]0;\u6f22\u5b57\ax", 1, 8, []string{"abcdefgx"}},
		"a title in the last 2": {"abcdef\x1b]0;\u6f22\u5b57\ax", 1, 8, []string{"abcdefx"}},
		"scrolls":               {"\n\n\nabcdefg\u6f22", 4, 3, []string{"", "", "abcdefg", "\u6f22"}},
	} {
		t.Run(name, func(t *testing.T) {
			written := strings.ReplaceAll(c.written, "\n\n\n", "\r\n\r\n\r\n")
			s := New(4, 8)
			s.Write([]byte(written))
			row, col, ok := s.Cursor()
			if rows := s.Rows(); !ok || row != c.row || col != c.col || !slices.Equal(rows, c.rows) {
				t.Errorf("cursor %d,%d, rows %q, want %d,%d, %q", row, col, rows, c.row, c.col, c.rows)
			}
		})
	}
}

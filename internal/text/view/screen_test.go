package view

import (
	"fmt"
	"strings"
	"testing"
)

// Rows of a full screen lose the blanks at their end, and of several that only fill it one is
// shown.
func TestTextOfFullScreens(t *testing.T) {
	blanks := strings.Repeat(" ", 119)
	var editor strings.Builder
	editor.WriteString("$ vim a\r\n\x1b[?1049h\x1b[H\x1b[2Jfirst" + blanks + "\r\n\x1b[94m~" + blanks)
	for row := range 36 {
		fmt.Fprintf(&editor, "\x1b[%d;1H~%s", row+3, blanks)
	}
	editor.WriteString("\x1b[m\x1b[40;1H\"a\" 1L" + blanks + "\x1b[1;1H")
	tests := map[string]struct{ in, want string }{
		"editor":           {editor.String(), "$ vim a\nfirst\n~\n\n\"a\" 1L"},
		"and what follows": {editor.String() + "\x1b[?1049l$ echo\r\n\r\n\r\n~\r\n~\r\n$ ", "$ vim a\nfirst\n~\n\n\"a\" 1L\n$ echo\n\n\n~\n~\n$ "},
		"a part redrawn":   {"\x1b[3;1H~" + blanks + "\x1b[4;1H~" + blanks + "\x1b[5;1H~\x1b[7;1Hend", "\n~\n\nend"},
		"watch":            {"\x1b[?1049h\x1b[H\x1b[2JEvery 2.0s\x1b[3;1Hone\x1b[40;120H", "Every 2.0s\n\none\n\n"},
		"a screen cleared": {"\x1b[H\x1b[2Ja\n\n\n~\n~\nb  \n", "a\n\n\n~\n~\nb  \n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Text([]byte(tt.in)); got != tt.want {
				t.Errorf("\n got %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestFullScreen(t *testing.T) {
	for in, want := range map[string]bool{
		"": false, "$ ": false, "\x1b[?1049h\x1b[Hx\x1b[?25l": true, "\x1b[?1049hx\x1b[?1049l$ \x1b[?2004h": false, "\x1b[?47hx": true, "\x1b[?1049": false,
	} {
		if got := FullScreen([]byte(in)); got != want {
			t.Errorf("%q: %t", in, got)
		}
	}
}

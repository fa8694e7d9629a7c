package screen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/racetest"
)

// Programs are drawn as tmux draws them. Each file of testdata holds what a program has written to a
// terminal of 24 rows and 80 columns, and the one beside it the cursor and the rows that tmux 3.3a
// showed of it (capture-pane).
func TestProgramsAreDrawnAsByTmux(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bin")
	if err != nil || len(files) < 11 {
		t.Fatalf("%d programs, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".bin"), func(t *testing.T) {
			written, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(strings.TrimSuffix(file, ".bin") + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			p, err := Draw(written, true, Size{24, 80})
			if err != nil || !p.Whole {
				t.Fatalf("whole: %t, %v", p.Whole, err)
			}
			if diff := cmp.Diff(string(want), described(p)); diff != "" {
				t.Errorf("-tmux +drawn:\n%s", diff)
			}
			s := New(24, 80)
			for i := range written {
				s.Write(written[i : i+1])
			}
			p.Rows = s.Rows()
			p.Row, p.Col, _ = s.Cursor()
			if diff := cmp.Diff(string(want), described(p)); diff != "" {
				t.Errorf("byte by byte, -tmux +drawn:\n%s", diff)
			}
		})
	}
}

// described returns a picture as the files of testdata describe it.
func described(p Picture) string {
	text := fmt.Sprintf("cursor %d,%d ", p.Row, p.Col)
	if p.Hidden {
		text += "hidden\n"
	} else {
		text += "shown\n"
	}
	for _, row := range p.Rows {
		text += row + "\n"
	}
	return text
}

// Output that is made to cost time or memory ends in an error within a time that does not grow with
// it, or is drawn.
func TestHostileOutput(t *testing.T) {
	racetest.Skip(t)
	for name, in := range map[string]string{
		"a line without an end": strings.Repeat("x", Window),
		"NULs":                  strings.Repeat("\x00", Window),
		"line feeds":            strings.Repeat("\n", Window),
		"unfinished sequences":  strings.Repeat("\x1b[", Window/2),
		"an unfinished string":  "\x1b]0;" + strings.Repeat("x", Window),
		"cursor moves":          strings.Repeat("\x1b[A\x1b[99;99H", Window/11),
		"erased":                strings.Repeat("\x1b[J", Window/3),
		"inserted":              strings.Repeat("\x1b[9999L", Window/7),
		"scrolled":              strings.Repeat("\x1b[1;9999r\x1b[9999S\x1b[9999T", Window/23),
		"repeated":              strings.Repeat("x\x1b[99999999999b", Window/15),
		"switched":              strings.Repeat("\x1b[?1049h\x1b[?1049l", Window/16),
		"reset":                 strings.Repeat("\x1bc", Window/2),
		"saved":                 strings.Repeat("\x1b[s\x1b[u\x1b7\x1b8\x1bE", Window/12),
		"combining":             "a" + strings.Repeat("\u0301", Window/2),
		"tabs":                  strings.Repeat("\x1b[99999I\x1b[99999Z\t", Window/16),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Draw([]byte(in), true, Size{40, 120}); err != nil && err != errSlow {
				t.Error(err)
			}
		})
	}
}

package files

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

func TestEdit(t *testing.T) {
	d, path := workspace(t)
	file := filepath.Join(path, "file")
	for name, tt := range map[string]struct {
		before, old, new string
		most             int
		after, err       string
		lines            []int
	}{
		"one":             {"a\nb\nc\n", "b", "x", 1, "a\nx\nc\n", "", []int{2}},
		"several":         {"a\nb\na a\n", "a", "aa", 3, "aa\nb\naa aa\n", "", []int{1, 3, 3}},
		"fewer than most": {"a\n", "a", "", 9, "\n", "", []int{1}},
		"over lines":      {"1\n2\n1\n2\n", "1\n2\n", "x\n", 2, "x\nx\n", "", []int{1, 3}},
		"not UTF-8":       {"\xff\x00a\xfe", "a", "b", 1, "\xff\x00b\xfe", "", []int{1}},
		"missing":         {"a\n", "b", "x", 1, "", "old does not occur in the file: read the file for its exact text, blanks included", nil},
		"CRLF":            {"a\r\nb\r\n", "a\nb", "x", 1, "", `old does not occur in the file: its lines end in \r\n`, nil},
		"only its first line": {"a\nb\n  if x:\n    y\n", "  if x:\n  y", "x", 1, "",
			"old does not occur in the file, but its first line does, in lines 3", nil},
		"too often": {"a\na\nb a\n", "a", "x", 2, "",
			"old occurs 3 times, more than count=2: in lines 1, 2, 3; give more of the text around it, or a count", nil},
		"much too often": {strings.Repeat("a\n", 30), "a", "x", 1, "",
			"in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 and 10 more;", nil},
	} {
		put(t, file, tt.before, 0o644)
		lines, err := d.Edit("file", tt.old, tt.new, tt.most)
		if tt.err != "" {
			if m := (*MatchError)(nil); !errors.As(err, &m) || !strings.Contains(err.Error(), tt.err) || content(t, file) != tt.before {
				t.Errorf("%s: %v, and the file has %q", name, err, content(t, file))
			}
			continue
		}
		if err != nil || !slices.Equal(lines, tt.lines) || content(t, file) != tt.after {
			t.Errorf("%s: lines %v, %v, %q", name, lines, err, content(t, file))
		}
	}
}

func TestEditOfALargeFile(t *testing.T) {
	d, path := workspace(t)
	file := filepath.Join(path, "file")
	put(t, file, "x", 0o644)
	needtest.Unless(t, "no file can be so large", os.Truncate(file, 10<<30), syscall.EFBIG)
	if _, err := d.Edit("file", "x", "y", 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("10 GiB: %v", err)
	}
	must.Do(t, os.Truncate(file, 1))
	if _, err := d.Edit("file", "x", strings.Repeat("y", EditMax+1), 1); !errors.Is(err, ErrTooLarge) || content(t, file) != "x" {
		t.Errorf("more than the limit: %v", err)
	}
}

// Of many edits at once that each add a line, none is lost: those that fail say so.
func TestEditsAtOnceLoseNothing(t *testing.T) {
	d, path := workspace(t)
	put(t, filepath.Join(path, "file"), "end", 0o644)
	results := make(chan error)
	const edits = 40
	for range edits {
		go func() {
			_, err := d.Edit("file", "end", "line\nend", 1)
			results <- err
		}()
	}
	made := 0
	for range edits {
		if err := <-results; err == nil {
			made++
		} else if !errors.Is(err, ErrChanged) {
			t.Error(err)
		}
	}
	if got, want := content(t, filepath.Join(path, "file")), strings.Repeat("line\n", made)+"end"; made == 0 || got != want {
		t.Errorf("%d edits succeeded, and the file has %d lines", made, strings.Count(got, "\n"))
	}
}

package files

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
)

func TestList(t *testing.T) {
	d, path := workspace(t)
	for _, dir := range []string{"sub/deep/deeper", "empty"} {
		must.Do(t, os.MkdirAll(filepath.Join(path, dir), 0o755))
	}
	for _, file := range []string{"b", "a", "sub/c", "sub/deep/d", "sub/deep/deeper/e", "odd\n\x1bname"} {
		put(t, filepath.Join(path, file), "x", 0o644)
	}
	link(t, "sub/c", filepath.Join(path, "link"))
	link(t, "../outside", filepath.Join(path, "out"))
	must.Do(t, syscall.Mkfifo(filepath.Join(path, "fifo"), 0o644))
	all := Listing{Depth: 1, Files: true, Dirs: true, Chars: 1000}
	for name, tt := range map[string]struct {
		path string
		l    func(*Listing)
		want string
	}{
		"flat": {".", func(*Listing) {}, "a\nb\nempty/\nfifo (FIFO)\nlink -> sub/c\nodd\\n\\x1bname\nout -> ../outside\nsub/\n"},
		"two levels": {"./", func(l *Listing) { l.Depth = 2 },
			"a\nb\nempty/\nfifo (FIFO)\nlink -> sub/c\nodd\\n\\x1bname\nout -> ../outside\nsub/\nsub/c\nsub/deep/\n"},
		"below":            {"sub/", func(l *Listing) { l.Depth = 9 }, "sub/c\nsub/deep/\nsub/deep/d\nsub/deep/deeper/\nsub/deep/deeper/e\n"},
		"absolute":         {path + "/sub", func(*Listing) {}, "sub/c\nsub/deep/\n"},
		"only files":       {"sub", func(l *Listing) { l.Depth, l.Dirs = 9, false }, "sub/c\nsub/deep/d\nsub/deep/deeper/e\n"},
		"only directories": {"sub", func(l *Listing) { l.Depth, l.Files = 9, false }, "sub/deep/\nsub/deep/deeper/\n"},
		"an empty one":     {"empty", func(*Listing) {}, ""},
		"tree":             {"sub", func(l *Listing) { l.Depth, l.Tree = 2, true }, "sub/\n├── c\n└── deep/\n    ├── d\n    └── deeper/\n"},
		"tree of files":    {"sub", func(l *Listing) { l.Depth, l.Tree, l.Dirs = 2, true, false }, "sub/\n└── c\n"},
		"tree of directories": {".", func(l *Listing) { l.Depth, l.Tree, l.Files = 2, true, false },
			"./\n├── empty/\n└── sub/\n    └── deep/\n"},
	} {
		l := all
		tt.l(&l)
		got, err := d.List(t.Context(), tt.path, l)
		if err != nil || got.Text != tt.want {
			t.Errorf("%s: %v, %+v\nwant %q", name, err, got, tt.want)
			continue
		}
		lines := strings.Count(tt.want, "\n")
		if l.Tree {
			lines--
		}
		if got.Shown != lines || got.Count != lines || got.Partial || got.Unreadable > 0 {
			t.Errorf("%s: %+v, want %d entries", name, got, lines)
		}
	}
}

func TestListIsBounded(t *testing.T) {
	d, path := workspace(t)
	for i := range 300 {
		put(t, filepath.Join(path, fmt.Sprintf("file%03d", i)), "", 0o644)
		put(t, filepath.Join(path, "sub", fmt.Sprintf("file%03d", i)), "", 0o644)
	}
	got, err := d.List(t.Context(), ".", Listing{Depth: 2, Files: true, Dirs: true, Chars: 100})
	if err != nil || got.Text != lines("file%03d\n", 12) || got.Shown != 12 || got.Count != 601 {
		t.Errorf("%+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.List(ctx, ".", Listing{Depth: 2, Files: true, Dirs: true, Chars: 100}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	got, err = d.List(t.Context(), ".", Listing{Depth: math.MaxInt, Files: true, Chars: math.MaxInt})
	if err != nil || got.Shown != 600 || got.Count != 600 {
		t.Errorf("without bounds: %d of %d, %v", got.Shown, got.Count, err)
	}
}

// A listing ends at a number of entries, in one directory or in many, and says so.
func TestListEndsAtItsBound(t *testing.T) {
	d, path := workspace(t)
	for i := range 3 {
		dir := filepath.Join(path, fmt.Sprint("dir", i))
		must.Do(t, os.Mkdir(dir, 0o755))
		for j := range 20 {
			put(t, filepath.Join(dir, fmt.Sprint(j)), "", 0o644)
		}
	}
	for most, want := range map[int]int{1000: 64, 64: 64, 20: 24, 30: 44} { // a directory is read as a whole
		got, err := d.list(t.Context(), ".", Listing{Depth: 2, Files: true, Dirs: true, Chars: 1 << 20}, most)
		if err != nil || got.Count != want || got.Partial != (most <= 64) {
			t.Errorf("%d: %d entries, partial: %t, %v", most, got.Count, got.Partial, err)
		}
	}
}

// lines returns n numbered lines.
func lines(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

package files

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkRead reads a file of 4 KiB; the floor is os.Open.
func BenchmarkRead(b *testing.B) {
	d, path := workspace(b)
	put(b, filepath.Join(path, "sub", "file"), strings.Repeat("x", 4096), 0o644)
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			f, err := os.Open(filepath.Join(path, "sub", "file"))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadAll(f); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
	b.Run("workspace", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.Read("sub/file", 0, 64_000); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkList lists 100,000 files; the floor is fs.WalkDir.
func BenchmarkList(b *testing.B) {
	for name, dirs := range map[string]int{"one directory": 1, "a thousand directories": 1000} {
		d, path := workspace(b)
		for i := range dirs {
			dir := filepath.Join(path, fmt.Sprintf("dir%03d", i))
			if err := os.Mkdir(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for j := range 100_000 / dirs {
				put(b, filepath.Join(dir, fmt.Sprintf("file%05d", j)), "", 0o644)
			}
		}
		b.Run(name+"/floor", func(b *testing.B) {
			for b.Loop() {
				n := 0
				if err := fs.WalkDir(os.DirFS(path), ".", func(string, fs.DirEntry, error) error { n++; return nil }); err != nil || n < 100_000 {
					b.Fatal(n, err)
				}
			}
		})
		b.Run(name+"/workspace", func(b *testing.B) {
			for b.Loop() {
				l, err := d.List(context.Background(), ".", Listing{Depth: 3, Files: true, Dirs: true, Chars: 16_000})
				if err != nil || l.Count < 100_000 || len(l.Text) > 16_000 {
					b.Fatal(l, err)
				}
			}
		})
	}
}

package files

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"asyncrepl/internal/test/must"
)

// Aim: listing 100,000 files takes at most 2x fs.WalkDir, and the reply is bounded.
func BenchmarkList(b *testing.B) {
	for name, dirs := range map[string]int{"one directory": 1, "a thousand directories": 1000} {
		d, path := workspace(b)
		for i := range dirs {
			dir := filepath.Join(path, fmt.Sprintf("dir%03d", i))
			must.Do(b, os.Mkdir(dir, 0o755))
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

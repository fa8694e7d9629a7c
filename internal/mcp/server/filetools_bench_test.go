package server

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/files"
	"asyncrepl/internal/mcp/arguments"
)

// Aim: reading a file of 4 KiB takes at most 3x os.Open, as far as it is not the transport's work.
func BenchmarkReadFile(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, "sub", "file")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcde\n", 256)), 0o644); err != nil {
		b.Fatal(err)
	}
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadAll(f); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
	d := new(files.Store).Dir(dir)
	b.Run("read_file", func(b *testing.B) {
		for b.Loop() {
			if r, err := readFile(d, &arguments.Args{Path: "sub/file"}, 16_000); err != nil || len(r.String()) < 4096 {
				b.Fatal(err)
			}
		}
	})
}

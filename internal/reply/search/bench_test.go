package search

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
)

// benchSize is the size of the logs of BenchmarkRun: SEARCH_BENCH_MB in MiB, or 64 MiB.
func benchSize(b *testing.B) int {
	mb := 64
	if s := os.Getenv("SEARCH_BENCH_MB"); s != "" {
		must.Get(fmt.Sscan(s, &mb))(b)
	}
	return mb << 20
}

// flood returns about 1 MiB of a build's output on a terminal.
func flood(coloured bool) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < 1<<20; i++ {
		kind := []string{"INFO", "DEBUG", "WARN"}[i%3]
		if coloured {
			kind = "\x1b[3" + string(rune('2'+i%3)) + "m" + kind + "\x1b[0m"
		}
		fmt.Fprintf(&b, "2026-11-22T10:%02d:%02d.%03d %s worker-%d: compiled module_%d in %d ms %s\r\n",
			i/60%60, i%60, i%1000, kind, i%8, i, i%97, strings.Repeat(".", i%23))
	}
	return b.Bytes()
}

// BenchmarkRun searches a log on disk for what is not in it, and reports how much memory that takes
// at most. The floors read a file with the same bytes in the same pieces.
func BenchmarkRun(b *testing.B) {
	size := benchSize(b)
	for _, kind := range []string{"plain", "coloured"} {
		piece := flood(kind == "coloured")
		dir := b.TempDir()
		log := output.NewStore(output.Config{Cap: int64(size) * 2, Dir: func() (string, error) { return dir, nil }}).NewLog("")
		file := must.Get(os.Create(filepath.Join(dir, "file")))(b)
		defer file.Close()
		total := 0
		for total < size {
			log.Write(output.TTY, piece)
			must.Get(file.Write(piece))(b)
			total += len(piece)
		}
		log.Finish()
		for name, pattern := range map[string]string{
			"literal": "fatal error", "expression with literal": `fatal: \d+ errors?`, "no case": "(?i)fatal", "alternatives": "fatal|panic|segfault",
			"digits": `\d{6,}$`, "anchored": `^\s*at `, "class": `[A-Z]{6}`, "dots": `x.*y.*z.*q`,
		} {
			p := compile(b, pattern)
			b.Run(kind+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(total))
				memory := peak()
				for b.Loop() {
					if r := run(b, log, Query{Pattern: p}); r.To != int64(total) {
						b.Fatal(r.To)
					}
				}
				b.ReportMetric(memory(), "MiB")
			})
			if kind == "plain" {
				b.Run("floor regexp/"+name, func(b *testing.B) {
					b.SetBytes(int64(total))
					expr := regexp.MustCompile("(?m)" + pattern)
					for b.Loop() {
						eachPiece(b, file, func(text []byte) { expr.Find(text) })
					}
				})
			}
		}
		b.Run("floor bytes.Index/"+kind, func(b *testing.B) {
			b.SetBytes(int64(total))
			for b.Loop() {
				eachPiece(b, file, func(text []byte) { bytes.Index(text, []byte("fatal error")) })
			}
		})
	}
}

// peak returns a function that returns how many MiB more than now the process has had in memory
// since, or 0 where the kernel does not say it.
func peak() (more func() float64) {
	debug.FreeOSMemory()
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // forgets the earlier peak
	resident := func() (kib float64) {
		status, _ := os.ReadFile("/proc/self/status")
		_, line, _ := strings.Cut(string(status), "VmHWM:")
		fmt.Sscan(line, &kib)
		return kib
	}
	before := resident()
	return func() float64 { return (resident() - before) / 1024 }
}

// eachPiece reads a file in pieces as large as a scanner's.
func eachPiece(b *testing.B, file *os.File, each func([]byte)) {
	buf := make([]byte, 512<<10)
	for at := int64(0); ; {
		n, err := file.ReadAt(buf, at)
		each(buf[:n])
		at += int64(n)
		if err == io.EOF {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

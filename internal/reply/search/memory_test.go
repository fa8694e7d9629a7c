package search

import (
	"runtime"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
)

// A weighed log takes note of how much memory is in use while it is read.
type weighed struct {
	output.Reader
	reads int
	most  uint64
}

func (w *weighed) ReadInto(cursor int64, b []byte) output.Chunk {
	if w.reads++; w.reads%4 == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		w.most = max(w.most, m.HeapAlloc)
	}
	return w.Reader.ReadInto(cursor, b)
}

// However hostile the output, and whatever is asked for, a search takes less than 32 MiB.
func TestRunTakesLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("searches text of a gigabyte")
	}
	if racetest.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	const size = 4 << 20
	dir := t.TempDir()
	store := output.NewStore(output.Config{Dir: func() (string, error) { return dir, nil }})
	for name, piece := range map[string]string{
		"plain lines":   "a line of some length, with an error\n",
		"short lines":   "e\n",
		"one line":      "error and more ",
		"colours":       "\x1b[31merror\x1b[0m\r\n",
		"wide columns":  "\x1b[1023Ce\n",
		"cursor moves":  "\x1b[5A\x1b[3Berror\r",
		"open string":   "\x1bPq error ",
		"alternating":   "",
		"wide on a bar": "\r\x1b[1023Ce",
	} {
		t.Run(name, func(t *testing.T) {
			log := store.NewLog("")
			defer log.Discard()
			for i := 0; i < size; i += 1 << 20 {
				log.Write(output.TTY, []byte(strings.Repeat(piece, (1<<20)/max(1, len(piece)))))
			}
			if piece == "" {
				for range size / 64 {
					log.Write(output.Stdout, []byte("an error\n"))
					log.Write(output.Stderr, []byte("no end "))
				}
			}
			var before runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for _, pattern := range []string{"error", "e", `\p{L}{5}\d|\d{9}`} {
				w := &weighed{Reader: log}
				run(t, w, Query{Pattern: compile(t, pattern), Matches: 200, Context: 20})
				if mib := int64(w.most-before.HeapAlloc) >> 20; w.most > before.HeapAlloc && mib >= 32 {
					t.Errorf("%s takes %d MiB", pattern, mib)
				}
			}
		})
	}
}

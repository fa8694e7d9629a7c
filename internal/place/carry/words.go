package carry

import (
	"strings"
	"sync"

	"asyncrepl/internal/text/view"
)

// Words keeps the last part of what a program prints. Several goroutines can use it at once.
type Words struct {
	mu   sync.Mutex
	kept []byte
}

const (
	maxWords = 4096 // bytes of the last part; up to twice as many are kept
	maxLines = 5    // lines that are shown
	maxWidth = 600  // characters of such a line: kubectl says in one which right is missing
)

// Write keeps the end of b. The error is always nil.
func (w *Words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, b...)
	if extra := len(w.kept) - maxWords; extra > maxWords {
		w.kept = append(w.kept[:0], w.kept[extra:]...)
	}
	return len(b), nil
}

// String returns the last lines, escaped and as one line.
func (w *Words) String() string { return lastLines(w.last()) }

func (w *Words) last() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]byte(nil), w.kept[max(0, len(w.kept)-maxWords):]...)
}

// lastLines returns the last lines of a text, escaped and as one line.
func lastLines(b []byte) string {
	var lines []string
	for line := range strings.Lines(view.Text(b)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, view.Line(line, maxWidth))
		}
	}
	return strings.Join(lines[max(0, len(lines)-maxLines):], "; ")
}

//go:build unix

package queries

import (
	"asyncrepl/internal/output"
	"asyncrepl/internal/text/escape"
)

// Modes are the modes of a terminal, as far as the log of its output has been followed. Each byte is
// read once, and only when the modes matter. The zero Modes have followed nothing.
type Modes struct {
	escape.Modes
	at int64 // the cursor up to which the log is followed
}

// pieceSize is how many bytes of a log are followed at a time.
const pieceSize = 256 << 10

// Follow follows the output of the terminal up to the cursor end.
func (m *Modes) Follow(log output.Reader, end int64) {
	for m.at < end {
		c := log.Read(m.at, int(min(pieceSize, end-m.at)))
		if c.Dropped > 0 {
			m.Gap()
		}
		for _, s := range c.Spans {
			if s.Stream == output.TTY {
				m.Write(s.Data)
			}
		}
		if m.at = c.Next; len(c.Spans) == 0 {
			return
		}
	}
}

//go:build unix

package tty

import "time"

// LineMax is the longest line that a terminal in line mode passes on.
const LineMax = lineMax

// ErrFull is the error of a Send to a terminal that stays full.
var ErrFull = errFull

// SetLimit bounds the time of one Send.
func (p *PTY) SetLimit(d time.Duration) { p.limit = d }

// Half reports whether a line is begun and not ended.
func (k *Keyboard) Half() bool { return k.half }

// WithKeys returns m with another end-of-file character and the usual keys for signals.
func (m Mode) WithKeys(c byte) Mode {
	m.signals = [3]byte{3, 28, 26}
	m.eof = c
	return m
}

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

// WithEOF returns m with another end-of-file character.
func (m Mode) WithEOF(c byte) Mode {
	m.eof = c
	return m
}

//go:build unix

package tty

import "time"

// LineMax is the longest line that a terminal in line mode passes on.
const LineMax = lineMax

// ErrFull is the error of a Send to a terminal that stays full.
var ErrFull = errFull

// SetLimit sets the time that one Send may take.
func (p *PTY) SetLimit(d time.Duration) { p.limit = d }

// Half reports whether a line is begun and not ended.
func (k *Keyboard) Half() bool { return k.half }

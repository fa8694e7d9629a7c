// Package ladder names the rungs of the escalation that ends a job or a process: it is interrupted,
// then terminated, then killed. The packages that ask for an end and the packages that bring it
// about share these words, and know nothing else of each other.
package ladder

import "slices"

// A Rung is one step of the escalation. The empty Rung is below all others.
type Rung string

// The rungs, from the lowest.
const (
	Interrupt Rung = "interrupt"
	Terminate Rung = "terminate"
	Kill      Rung = "kill"
)

var rungs = []Rung{Interrupt, Terminate, Kill}

// Above reports whether r is a higher rung than other.
func (r Rung) Above(other Rung) bool {
	return slices.Index(rungs, r) > slices.Index(rungs, other)
}

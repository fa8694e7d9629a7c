package ladder_test

import (
	"testing"

	"asyncrepl/internal/ladder"
)

func TestAboveOrdersTheRungs(t *testing.T) {
	rungs := []ladder.Rung{"", ladder.Interrupt, ladder.Terminate, ladder.Kill}
	for i, r := range rungs {
		for k, other := range rungs {
			if got := r.Above(other); got != (i > k) {
				t.Errorf("%q above %q: %t", r, other, got)
			}
		}
	}
}

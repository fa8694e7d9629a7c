package ladder_test

import (
	"fmt"
	"testing"

	"asyncrepl/internal/process/ladder"
)

// A second request to stop counts only if its rung is higher.
func Example() {
	fmt.Println(ladder.Kill.Above(ladder.Terminate), ladder.Kill.Above(ladder.Kill))
	// Output: true false
}

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

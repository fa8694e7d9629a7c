// Package racetest skips tests that the race detector would only slow down, and says how much more
// memory a program takes under it.
package racetest

import "testing"

// Skip skips a test that computes in one goroutine: the detector finds nothing in it and makes it
// about ten times slower. The gate runs such a test without the detector.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("one goroutine computes: the race detector finds nothing and makes it ten times slower")
	}
}

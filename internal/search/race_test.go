//go:build race

package search

// race reports whether the race detector watches the tests.
const race = true

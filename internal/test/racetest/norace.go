//go:build !race

package racetest

// Enabled reports whether the program was built with the race detector.
const Enabled = false

// Memory is the factor by which the race detector can increase a program's memory.
const Memory = 1

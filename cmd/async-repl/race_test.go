//go:build race

package main

// raceFactor is how many times the memory of a program its race detector may
// take.
const raceFactor = 5

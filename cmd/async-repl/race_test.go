//go:build race

package main

// raceFactor is the factor by which the race detector can increase a program's memory.
const raceFactor = 5

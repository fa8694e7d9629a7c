//go:build race

package files

// swapTries is how often a test gets at files while another thread swaps directories. What it looks
// for is a race with another program, in which the race detector is only slow.
const swapTries = 10_000

//go:build !race

package files

// swapTries is how often a test gets at files while another thread swaps directories.
const swapTries = 1_000_000

//go:build linux && !amd64

package threads

// Calls that this architecture leaves out: numbers that no thread shows.
const (
	sysPoll = -10 - iota
	sysSelect
	sysEpollWait
	sysPause
)

// Package runner holds what the runners that start processes share: it puts what package process
// says of a process tree into the terms of package jobs. It knows no Python and no protocol.
//
// Begin with probe.go.
package runner

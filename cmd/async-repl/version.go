//go:build unix

package main

import (
	"runtime/debug"

	"asyncrepl/internal/release/version"
)

// ownVersion returns the version of this program.
func ownVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return version.Of(info)
	}
	return version.Release
}

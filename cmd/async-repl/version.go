//go:build unix

package main

import "runtime/debug"

// version returns the module's version, as the Go toolchain stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

//go:build unix

package main

import (
	"fmt"
	"os"
)

// guardCommand is the subcommand of the guard, the process that ends the remaining processes if the
// server is killed. Only the server uses it, so help does not name it.
const guardCommand = "guard"

// ownLine returns the command line of a subcommand of the program that runs, even if another version has
// taken the place of its file meanwhile: an engine can outlive an upgrade.
func ownLine(command string) ([]string, error) {
	const own = "/proc/self/exe"
	if _, err := os.Stat(own); err != nil {
		return commandLine(command)
	}
	return []string{own, command}, nil
}

// commandLine returns the command line that runs a subcommand of this program.
func commandLine(command string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return []string{self, command}, nil
}

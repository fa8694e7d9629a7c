//go:build unix

package main

import (
	"fmt"
	"os"
)

// guardCommand is the subcommand of the guard, the process that ends the remaining processes if the
// server is killed. Only the server uses it, so help does not name it.
const guardCommand = "guard"

// commandLine returns the command line that runs a subcommand of this program.
func commandLine(command string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return []string{self, command}, nil
}

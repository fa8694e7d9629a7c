package keeper

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Available returns why an engine can't be a process of its own here, or nil.
func Available() error { return errors.New("on macOS the server is one process") }

// dup makes the descriptor to refer to what from refers to.
func dup(from, to int) error { return unix.Dup2(from, to) }

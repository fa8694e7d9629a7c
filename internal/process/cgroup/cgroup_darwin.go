package cgroup

import (
	"errors"

	"asyncrepl/internal/kernel/procfs"
)

// A Group can't be made on macOS: only nil is one. Its methods do nothing.
type Group struct{}

// Include does nothing.
func Include(procfs.Process) {}

// Available returns errors.ErrUnsupported.
func Available() error { return errors.ErrUnsupported }

// New returns nil.
func New(int64) (*Group, error) { return nil, nil }

// Another returns nil.
func (*Group) Another() (*Group, error) { return nil, nil }

// Add does nothing.
func (*Group) Add(int) error { return nil }

// Counter returns nil.
func (*Group) Counter() func() (uint64, error) { return nil }

// Full returns false.
func (*Group) Full() bool { return false }

// Remove does nothing.
func (*Group) Remove() {}

// Kills returns errors.ErrUnsupported: this system does not count OOM kills.
func Kills() (uint64, error) { return 0, errors.ErrUnsupported }

// Clean does nothing.
func Clean(int) {}

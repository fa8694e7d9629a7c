package oom

import "errors"

// Kills is not counted on this system.
func Kills() (uint64, error) { return 0, errors.ErrUnsupported }

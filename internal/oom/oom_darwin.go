package oom

import "errors"

// Kills returns errors.ErrUnsupported: this system does not count OOM kills.
func Kills() (uint64, error) { return 0, errors.ErrUnsupported }

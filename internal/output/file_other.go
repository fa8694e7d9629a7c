//go:build !linux

package output

import "errors"

func (f diskFile) Punch(off, n int64) error { return errors.ErrUnsupported }

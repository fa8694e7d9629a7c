package process

import "errors"

// Busiest tells nothing: the kernel keeps these figures from other programs.
func Busiest(int) (p Process, percent float64, ok bool) { return Process{}, 0, false }

// Busiest is not supported here.
func (h *Handle) Busiest() (p Process, percent float64, err error) {
	return p, 0, errors.ErrUnsupported
}

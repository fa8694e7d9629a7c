package process

import "errors"

// Busiest is not supported here.
func (h *Handle) Busiest() (p Process, percent float64, err error) {
	return p, 0, errors.ErrUnsupported
}

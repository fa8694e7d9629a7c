package pystack

import (
	"errors"
	"time"
)

// errSystem is why there is no look.
var errSystem = errors.New("this system does not show the memory of another process")

type process int

func (process) read([]span) error { return &UnavailableError{errSystem} }

func runtimeOf(int) (uint64, error) { return 0, errSystem }

func activity(int) (ran time.Duration, switches int, runs, stopped bool) { return 0, 0, false, false }

// Available returns why no look can work on this system.
func Available() error { return errSystem }

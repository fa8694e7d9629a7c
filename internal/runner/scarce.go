//go:build unix

package runner

import (
	"errors"
	"fmt"
	"syscall"
)

// Scarce returns err, the error of a start. If a limit caused it, Scarce adds which one and what
// helps (https://man7.org/linux/man-pages/man2/fork.2.html,
// https://man7.org/linux/man-pages/man2/open.2.html).
func Scarce(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE):
		var l syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
			return err
		}
		return fmt.Errorf("%w: the server may have %d (ulimit -n): end jobs, or start it with a higher limit", err, l.Cur)
	case errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w in the whole system: end programs, or raise fs.file-max", err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%w: the user or the container has as many processes as it may (ulimit -u, pids.max): end jobs, or raise the limit", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: end jobs, or raise the limit of memory (ulimit -v, memory.max)", err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("%w: the environment is too large for a program to be started; start the server with a smaller one, or give less in env", err)
	}
	return err
}

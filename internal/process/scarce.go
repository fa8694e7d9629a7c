//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Scarce says of the error of a start, if it is for want of something, which limit was reached and what helps.
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

// crowded tells whether a child that is given files may need a number beyond the limit of descriptors: it moves them, and
// what it tells of itself by, above the highest of them before it puts each in its place. The kernel calls such a number
// a bad one.
func crowded(files []*os.File) bool {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return false
	}
	highest := len(files)
	for _, f := range files {
		highest = max(highest, int(f.Fd()))
	}
	return uint64(highest+1+len(files)) >= l.Cur
}

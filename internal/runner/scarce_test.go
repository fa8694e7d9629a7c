//go:build unix

package runner_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/runner"
)

// The error of a start that a limit has refused names the limit and what helps.
func TestScarceNamesTheLimit(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EMFILE: "(ulimit -n): end jobs",
		syscall.ENFILE: "fs.file-max",
		syscall.EAGAIN: "(ulimit -u, pids.max): end jobs",
		syscall.ENOMEM: "memory.max",
		syscall.E2BIG:  "the environment is too large",
	} {
		err := runner.Scarce(fmt.Errorf("starting true: %w", errno))
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want one that says %q", err, want)
		}
	}
	if other := errors.New("other"); runner.Scarce(other) != other {
		t.Error("another error is changed")
	}
}

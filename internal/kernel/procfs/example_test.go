//go:build linux

package procfs_test

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"asyncrepl/internal/kernel/procfs"
)

// A process is identified, signalled, and gone. A later process with its pid would not be
// signalled.
func Example() {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	s, err := procfs.Inspect(cmd.Process.Pid)
	if err != nil {
		fmt.Println(err) // not ErrGone: it can be alive
		return
	}
	fmt.Println("ended:", s.Ended())
	if err := s.Signal(syscall.SIGKILL); err != nil {
		fmt.Println(err)
	}
	cmd.Wait()
	fmt.Println("gone:", errors.Is(s.Signal(syscall.SIGKILL), procfs.ErrGone))
	// Output:
	// ended: false
	// gone: true
}

//go:build unix

package procset_test

import (
	"fmt"
	"os/exec"
	"syscall"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/procset"
)

func Example() {
	c := exec.Command("sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		return
	}
	s, err := procfs.Inspect(c.Process.Pid)
	if err != nil {
		fmt.Println(err)
		return
	}
	procset.Terminate([]procfs.Stat{s})
	fmt.Println(c.Wait())
	// Output: signal: terminated
}

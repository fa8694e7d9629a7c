//go:build linux

package child_test

import (
	"fmt"
	"os"
	"syscall"

	"asyncrepl/internal/process/child"
)

func Example() {
	c, err := child.Start("/bin/sh", []string{"sh", "-c", "exit 7"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.AwaitEnd()
	fmt.Println(c.Reap().ExitStatus())
	// Output: 7
}

//go:build linux

package carry

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
)

// TestMain adopts orphans, as our program does, and fails if a process is left. Those that end in sessions of
// their own are for the program to reap, not for this package.
func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	session, err := unix.Getsid(0)
	if err != nil {
		panic(err)
	}
	code := m.Run()
	all, err := procfs.All()
	if err != nil {
		panic(err)
	}
	for _, p := range all {
		if p.Parent == os.Getpid() && (p.Session == session || !p.Ended()) {
			fmt.Printf("left: %+v\n", p)
			code = 1
		}
	}
	os.Exit(code)
}

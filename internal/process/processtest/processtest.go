// Package processtest gives tests an owner of real processes, programs to start, and a wait for a
// process to be gone. Begin with Main, which TestMain must call.
package processtest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process"
	"asyncrepl/internal/process/guard"
	"asyncrepl/internal/test/polltest"
)

// guardArg makes the test binary play the guard.
const guardArg = "processtest-guard"

// Main runs the tests of a package that starts processes, or the guard if the test binary is
// started as one. Call it from TestMain.
func Main(m *testing.M) int {
	if len(os.Args) > 1 && os.Args[1] == guardArg {
		return guard.Run(os.Stdin)
	}
	return m.Run()
}

// Guard returns the command line by which the test binary plays the guard.
func Guard(t testing.TB) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, guardArg}
}

// Owner returns an owner with a guard. It is shut down at the end of the test.
func Owner(t testing.TB) *process.Owner {
	t.Helper()
	// With its GORACE, without which a guard under the race detector waits for a second at its end.
	o, err := process.NewOwner(process.Config{Guard: Guard(t), GuardEnv: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Shutdown)
	return o
}

// Gone waits until the process has ended and been reaped, unless it is for the system's init to reap
// it: of an orphan whose server has ended, it is enough that it has ended.
func Gone(t testing.TB, pid int) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("the end of process %d", pid), func() bool {
		s, err := procfs.Inspect(pid)
		return errors.Is(err, procfs.ErrGone) || err == nil && s.Ended() && s.Parent == 1
	})
}

// WriteProgram writes a program that can be executed at once. Nothing is forked meanwhile: a child
// would hold the file open for writing until it executes its own program, and until then the kernel
// would refuse to execute this one (https://go.dev/issue/22315).
func WriteProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// Package needtest skips tests that need something that a machine can lack: a program, a module of Python, root, a
// right. It skips a test only if this one thing is missing. Any other error fails the test, because a skip would hide
// it.
package needtest

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Program returns the path of a program. It skips the test if the program is not on the PATH.
func Program(t testing.TB, name string) (path string) {
	t.Helper()
	path, err := exec.LookPath(name)
	Unless(t, "there is no "+name, err, exec.ErrNotFound)
	return path
}

// Module skips the test if an interpreter of Python has no module of this name. A module that is there and can't be
// imported fails it.
func Module(t testing.TB, python, name string) {
	t.Helper()
	out, err := exec.Command(python, "-c", "import "+name).CombinedOutput()
	switch {
	case err == nil:
	case strings.Contains(string(out), "ModuleNotFoundError: No module named '"+name+"'"):
		t.Skipf("%s has no %s", python, name)
	default:
		t.Fatalf("importing %s in %s: %v\n%s", name, python, err, out)
	}
}

// Root skips the test unless root runs it: only root can do what it needs.
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can " + what)
	}
}

// Linux skips the test on other systems, which lack what it needs.
func Linux(t testing.TB, what string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has " + what)
	}
}

// Right skips the test if err or the output of a program says that the user has no right to do something. The
// machine of the test may deny it even to root.
func Right(t testing.TB, to string, err error, out []byte) {
	t.Helper()
	said := strings.ToLower(string(out))
	for _, denied := range []string{"permission denied", "no permissions to", "operation not permitted", "must be superuser"} {
		if err != nil && strings.Contains(said, denied) {
			t.Skipf("no right to %s: %v, %s", to, err, out)
		}
	}
	if err != nil && len(out) > 0 {
		t.Fatalf("no right to %s? %v, %s", to, err, out)
	}
	Unless(t, "no right to "+to, err, syscall.EPERM, syscall.EACCES)
}

// Unless skips the test if err is one of the errors that mean that something is missing, and fails it on any other
// error.
func Unless(t testing.TB, missing string, err error, means ...error) {
	t.Helper()
	for _, m := range means {
		if errors.Is(err, m) {
			t.Skipf("%s: %v", missing, err)
		}
	}
	if err != nil {
		t.Fatalf("%s? %v", missing, err)
	}
}

// Listen listens until the test ends. It skips the test if the machine has no such address: many have no IPv6.
func Listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if network == "tcp6" || strings.HasPrefix(address, "[") {
		Unless(t, "no "+address, err, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Tracing skips the test if err, which says why this program can read the memory of no process, is a rule of the
// system: that of a container, or of Yama.
func Tracing(t testing.TB, err error) {
	t.Helper()
	Linux(t, "looks at a process")
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope") // an error: there is no Yama
	if err != nil && len(scope) > 0 && scope[0] >= '2' {
		t.Skip(err)
	}
	Unless(t, "no right to read the memory of a process", err, syscall.EPERM, syscall.ENOSYS)
}

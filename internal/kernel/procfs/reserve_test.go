//go:build linux

package procfs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/fdtest"
	"asyncrepl/internal/test/must"
)

// With a full table of descriptors every function still sees the process, ten times of ten. Without
// the reserve none does, and none says that the process is gone.
func TestReserveSeesWithAFullTable(t *testing.T) {
	cmd := start(t, `sleep 1000 & echo; wait`, "MARK=x")
	pid := cmd.Process.Pid
	p := must.Get(Inspect(pid))(t).Process
	asks := map[string]func() error{
		"Inspect":       func() error { _, err := Inspect(pid); return err },
		"All":           func() error { _, err := All(); return err },
		"Children":      func() error { _, err := Children(pid, 0); return err },
		"Files":         func() error { _, err := Files(pid); return err },
		"LookupEnv":     func() error { _, _, err := LookupEnv(pid, "MARK"); return err },
		"DispositionOf": func() error { _, err := DispositionOf(pid, syscall.SIGINT); return err },
		"Signal":        func() error { return p.Signal(syscall.SIGCONT) },
		"a socket": func() error {
			return WithReserve(func() error {
				fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
				if err == nil {
					unix.Close(fd)
				}
				return err
			})
		},
	}
	failures := func(times int, want error) (failed []string) {
		restore := fdtest.Exhaust(t)
		defer restore()
		if f, err := os.Open("/"); err == nil {
			f.Close()
			failed = append(failed, "there was a descriptor")
		}
		for range times {
			for name, ask := range asks {
				if err := ask(); !errors.Is(err, want) {
					failed = append(failed, fmt.Sprintf("%s: %v", name, err))
				}
			}
		}
		return failed
	}
	for _, failed := range failures(10, nil) {
		t.Error("with the reserve: ", failed)
	}

	reserve.mu.Lock()
	for _, fd := range reserve.fds {
		unix.Close(fd)
	}
	reserve.fds = nil
	reserve.full.Store(false)
	reserve.mu.Unlock()
	for _, failed := range failures(3, unix.EMFILE) {
		t.Error("without the reserve: ", failed)
	}
	must.Get(Inspect(pid))(t)
	if !reserve.full.Load() {
		t.Error("a later read has not filled the reserve")
	}
	if got := strings.Join(failures(1, nil), ", "); got != "" {
		t.Error("with the reserve filled again: ", got)
	}
}

package place

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/process"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// An engine that a carrier on this machine has started below this process is left to itself. A process that does not
// bear our key, or one of another machine, is none.
func TestDisown(t *testing.T) {
	owner := must.Get(process.NewOwner(process.Config{}))(t)
	t.Cleanup(func() { owner.Shutdown() })
	// The engine leads a session, as the one that dial starts. Its carrier has ended.
	out := must.Get(exec.Command("/bin/sh", "-c", `setsid sh -c 'sleep 1000 & wait' thekeyofthetest >/dev/null 2>&1 & echo $!`).Output())(t)
	pid := must.Get(strconv.Atoi(strings.TrimSpace(string(out))))(t)
	t.Cleanup(func() { syscall.Kill(-pid, syscall.SIGKILL) })
	polltest.Until(t, "the engine", func() bool { // it is a shell at first, and setsid
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return strings.HasPrefix(string(line), "sh\x00-c\x00sleep")
	})
	boot := must.Get(sockets.BootID())(t)
	ps := must.Get(New(Config{Places: []config.Place{{Name: "gpu", SSH: []string{"h"}}}, Key: "thekeyofthetest"}))(t)
	for g, want := range map[far.Greeting]bool{
		{Boot: "another", PID: pid}: false,
		{Boot: boot, PID: 1}:        false,
		{Boot: boot, PID: pid}:      true,
	} {
		if got := ps.disown(g); got != want {
			t.Errorf("%+v: %t", g, got)
		}
	}
	ps.Key = "anotherkey"
	if ps.disown(far.Greeting{Boot: boot, PID: pid}) {
		t.Error("a process without our key was disowned")
	}
	if _, err := procfs.Inspect(pid); err != nil {
		t.Error(fmt.Errorf("it has ended: %w", err))
	}
}

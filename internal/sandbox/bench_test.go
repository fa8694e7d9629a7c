//go:build linux

package sandbox_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
)

// The floor of a start is bubblewrap with the same namespaces and one mount.
func BenchmarkStart(b *testing.B) {
	w := newWorld(b, os.Getuid())
	obeyedFiles(b, w)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	run := func(b *testing.B, args ...string) {
		if out, err := exec.Command("bwrap", args...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			run(b, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true")
		}
	})
	b.Run("plan", func(b *testing.B) {
		for b.Loop() {
			must.Get(sandbox.New(w.config()))(b).Close()
		}
	})
	b.Run("sandbox", func(b *testing.B) {
		box := must.Get(sandbox.New(w.config()))(b)
		defer box.Close()
		filter := must.Get(sandbox.Filter())(b)
		for b.Loop() {
			r, wr := must.Get2(os.Pipe())(b)
			must.Get(wr.Write(filter))(b)
			wr.Close()
			cmd := exec.Command("bwrap", box.Args("/", 3, "true")...)
			cmd.ExtraFiles = []*os.File{r}
			out, err := cmd.CombinedOutput()
			r.Close()
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}

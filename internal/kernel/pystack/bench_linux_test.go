package pystack_test

import (
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// A look takes less than 2 ms; the floor is one reading of a word of the other process's memory.
func BenchmarkLook(b *testing.B) {
	const code = `import time
def down(n):
    if n:
        return down(n - 1)
    time.sleep(3600)
print("here", flush=True)
down(30)
`
	for _, python := range interpreters(b) {
		r := python.start(b, code)
		r.reaches(b, regexp.MustCompile("down:5$"))
		b.Run(python.version, func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Look(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(python.version+"/floor", func(b *testing.B) {
			addr := uintptr(r.Runtime())
			var word [8]byte
			for b.Loop() {
				local := []unix.Iovec{{Base: &word[0], Len: 8}}
				remote := []unix.RemoteIovec{{Base: addr, Len: 8}}
				if _, err := unix.ProcessVMReadv(r.cmd.Process.Pid, local, remote, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

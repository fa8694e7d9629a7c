//go:build linux

package pump

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"asyncrepl/internal/tty"
)

const volume = 64 << 20

// bare does nothing but read.
func bare(f *os.File, count func([]byte)) {
	buf := make([]byte, chunkSize)
	for {
		n, err := f.Read(buf)
		count(buf[:n])
		if err != nil {
			return
		}
	}
}

// BenchmarkPTY is 64 MB from a terminal. Its floor is a loop that does nothing but read.
func BenchmarkPTY(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		flow(b, true, bare)
	})
	b.Run("pump", func(b *testing.B) {
		flow(b, true, func(f *os.File, count func([]byte)) { <-NewPump(f, true, count).Done() })
	})
}

// BenchmarkPipe is 64 MB from a pipe. Its floor is a loop that does nothing but read.
func BenchmarkPipe(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		flow(b, false, bare)
	})
	b.Run("pump", func(b *testing.B) {
		flow(b, false, func(f *os.File, count func([]byte)) { <-NewPump(f, false, count).Done() })
	})
}

// flow measures how fast read takes what head writes.
func flow(b *testing.B, terminal bool, read func(f *os.File, count func([]byte))) {
	b.SetBytes(volume)
	for b.Loop() {
		cmd := exec.Command("head", "-c", strconv.Itoa(volume), "/dev/zero")
		var from, to *os.File
		if terminal {
			pty, err := tty.Open(40, 120)
			if err != nil {
				b.Fatal(err)
			}
			defer pty.Close()
			from, to = pty.Master(), pty.Slave()
		} else {
			var err error
			if from, to, err = os.Pipe(); err != nil {
				b.Fatal(err)
			}
		}
		cmd.Stdout = to
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		to.Close()
		got := 0
		read(from, func(b []byte) { got += len(b) })
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		if err := from.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			b.Fatal(err)
		}
		if got != volume {
			b.Fatalf("%d bytes of %d", got, volume)
		}
	}
}

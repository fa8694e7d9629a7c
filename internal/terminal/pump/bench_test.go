//go:build linux

package pump_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/tty"
)

const volume = 64 << 20 // bytes

// bare only reads.
func bare(f *os.File, count func([]byte)) {
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		count(buf[:n])
		if err != nil {
			return
		}
	}
}

// BenchmarkPTY reads 64 MiB from a terminal. Its floor is a loop that only reads.
func BenchmarkPTY(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		flow(b, true, bare)
	})
	b.Run("pump", func(b *testing.B) {
		flow(b, true, func(f *os.File, count func([]byte)) { <-pump.Shared(f, count).Done() })
	})
}

// BenchmarkPipe reads 64 MiB from a pipe. Its floor is a loop that only reads.
func BenchmarkPipe(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		flow(b, false, bare)
	})
	b.Run("pump", func(b *testing.B) {
		flow(b, false, func(f *os.File, count func([]byte)) { <-pump.New(f, count).Done() })
	})
}

// flow measures how fast read consumes the output of head.
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
			b.Fatalf("read %d bytes, want %d", got, volume)
		}
	}
}

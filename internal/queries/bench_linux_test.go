package queries_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/pump"
	"asyncrepl/internal/queries"
	"asyncrepl/internal/tty"
)

// BenchmarkWrite reads 32 MiB of a program's output from a terminal and writes it to a log. Its floor
// is the same pump without a Responder, and runs in turn with it.
func BenchmarkWrite(b *testing.B) {
	const size = 32 << 20
	for name, line := range map[string]string{
		"plain":    "2026-11-22T10:00:00.000 INFO worker-3: compiled module_812 in 12 ms\n",
		"coloured": "\x1b[32m2026-11-22\x1b[0m \x1b[1mINFO\x1b[0m worker-3: compiled \x1b[36mmodule_812\x1b[0m in 12 ms\n",
	} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "output")
			if err := os.WriteFile(path, bytes.Repeat([]byte(line), size/len(line)), 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(2 * size)
			var ours, floor time.Duration
			for b.Loop() {
				floor += pumped(b, path, false)
				ours += pumped(b, path, true)
			}
			b.ReportMetric(floor.Seconds()/ours.Seconds(), "of-floor")
			b.ReportMetric(size*float64(b.N)/1e6/ours.Seconds(), "MB/s-scanned")
			b.ReportMetric(size*float64(b.N)/1e6/floor.Seconds(), "MB/s-floor")
		})
	}
}

// pumped returns how long it takes to read a file that cat shows on a terminal.
func pumped(b *testing.B, path string, scanned bool) time.Duration {
	pty, err := tty.Open(40, 120)
	if err != nil {
		b.Fatal(err)
	}
	defer pty.Close()
	log := output.NewStore(output.Config{}).NewLog("1")
	defer log.Discard()
	write := func(p []byte) { log.Write(output.TTY, p) }
	if scanned {
		r := queries.New(pty, func() ([]int, error) { return nil, nil })
		defer r.Close()
		write = func(p []byte) { r.Printed(log, log.Write(output.TTY, p), p) }
	}
	cmd := exec.Command("cat", path)
	cmd.Stdout = pty.Slave()
	begin := time.Now()
	p := pump.Shared(pty.Master(), write)
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	for pty.InTransit() {
		time.Sleep(100 * time.Microsecond)
	}
	p.Drain()
	took := time.Since(begin)
	p.Close()
	return took
}

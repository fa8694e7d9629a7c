package shell_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"

	"github.com/creack/pty"
)

// compare runs what is measured and its floor in turn, so that a drift of the machine hits both,
// and reports the ratios of the times that they took together: of the clock, and of the processor
// in this process, without the commands.
func compare(b *testing.B, measured, floor func()) {
	var ours, theirs, oursCPU, theirsCPU time.Duration
	for b.Loop() {
		begin, cpu := time.Now(), processorTime(b)
		measured()
		middle, middleCPU := time.Now(), processorTime(b)
		floor()
		ours, oursCPU = ours+middle.Sub(begin), oursCPU+middleCPU-cpu
		theirs, theirsCPU = theirs+time.Since(middle), theirsCPU+processorTime(b)-middleCPU
	}
	b.ReportMetric(float64(ours)/float64(theirs), "x-floor")
	b.ReportMetric(float64(oursCPU)/float64(theirsCPU), "x-floor-cpu")
	b.ReportMetric(float64(ours)/1e6/float64(b.N), "ms/job")
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func end(b *testing.B, j *jobs.Job) {
	if record := jobstest.End(b, j); record.Status != jobs.Completed {
		b.Fatal(record.Receipt.Text())
	}
}

// bareTTY runs a command on a PTY as a program of a few lines would, and copies all it prints.
func bareTTY(b *testing.B, bash, line string, to io.Writer) (n int64) {
	cmd := exec.Command(bash, "-c", line)
	f, err := pty.Start(cmd)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	n, err = io.CopyBuffer(struct{ io.Writer }{to}, onlyReader{f}, make([]byte, 64<<10))
	if err != nil && !errors.Is(err, syscall.EIO) {
		b.Fatal(err)
	}
	// It leads a session of its own, so a look may have reaped it first, as an orphan.
	if err := cmd.Wait(); err != nil && !errors.Is(err, syscall.ECHILD) {
		b.Fatal(err)
	}
	return n
}

// An onlyReader keeps io.Copy from other roads than read(2).
type onlyReader struct{ io.Reader }

// Aim: 2x of the same command on a PTY, started, read and waited for in Go.
func BenchmarkEcho(b *testing.B) {
	s := newBench(b)
	end(b, s.start("true")) // the first job starts the guard
	compare(b,
		func() { end(b, s.start("echo hi")) },
		func() { bareTTY(b, s.bash, "echo hi", io.Discard) })
}

const floodSize = 64 << 20

// compareFloods compares jobs that print 64 MiB with bare, which appends what the same command
// prints to a file. One command prints a single line without an end, the other lines of 80
// characters. Aim: 90 % of the speed of bare, so at most 1.11x its time.
func compareFloods(b *testing.B, s *bench, start func(line string) *jobs.Job, bare func(b *testing.B, bash, line string, to io.Writer) int64) {
	lines := filepath.Join(b.TempDir(), "lines")
	line := fmt.Appendf(nil, "%-79s\n", "compiling another source file of a large project")
	must.Do(b, os.WriteFile(lines, bytes.Repeat(line, floodSize/len(line)+1)[:floodSize], 0o600))
	for _, flood := range []struct{ name, line string }{
		{"zeros", fmt.Sprint("head -c ", floodSize, " /dev/zero")},
		{"lines", "cat " + lines},
	} {
		b.Run(flood.name, func(b *testing.B) {
			dir := b.TempDir() // emptied at the end, as the logs of the jobs are
			b.SetBytes(floodSize)
			compare(b,
				func() { end(b, start(flood.line)) },
				func() {
					file := must.Get(os.CreateTemp(dir, ""))(b)
					defer file.Close()
					if n := bare(b, s.bash, flood.line, file); n < floodSize { // a terminal adds CR
						b.Fatalf("%d bytes", n)
					}
				})
		})
	}
}

func BenchmarkFloodTTY(b *testing.B) {
	s := newBench(b)
	compareFloods(b, s, s.start, bareTTY)
}

func BenchmarkFloodPipe(b *testing.B) {
	s := newBench(b)
	compareFloods(b, s, s.startPiped, barePipe)
}

// barePipe runs a command on a pipe and copies all it prints.
func barePipe(b *testing.B, bash, line string, to io.Writer) int64 {
	r, w := must.Get2(os.Pipe())(b)
	defer r.Close()
	cmd := exec.Command(bash, "-c", line)
	cmd.Stdout = w
	must.Do(b, cmd.Start())
	w.Close()
	n := must.Get(io.CopyBuffer(struct{ io.Writer }{to}, onlyReader{r}, make([]byte, 64<<10)))(b)
	must.Do(b, cmd.Wait())
	return n
}

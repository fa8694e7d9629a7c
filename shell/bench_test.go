package shell_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

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

const flood = "head -c 67108864 /dev/zero"

// Aim: 90 % of a bare reader that appends to a file, so at most 1.11x its time.
func BenchmarkFloodTTY(b *testing.B) {
	s := newBench(b)
	dir := b.TempDir() // emptied at the end, as the logs of the jobs are
	b.SetBytes(64 << 20)
	compare(b,
		func() { end(b, s.start(flood)) },
		func() {
			file, err := os.CreateTemp(dir, "")
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			if n := bareTTY(b, s.bash, flood, file); n != 64<<20 {
				b.Fatalf("%d bytes", n)
			}
		})
}

// Aim: 90 % of a bare reader that appends to a file.
func BenchmarkFloodPipe(b *testing.B) {
	s := newBench(b)
	dir := b.TempDir() // emptied at the end, as the logs of the jobs are
	b.SetBytes(64 << 20)
	compare(b,
		func() { end(b, s.startPiped(flood)) },
		func() { barePipe(b, s.bash, dir) })
}

// barePipe appends what a command prints to a file.
func barePipe(b *testing.B, bash, dir string) {
	file, err := os.CreateTemp(dir, "")
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(bash, "-c", flood)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	w.Close()
	buf := make([]byte, 64<<10)
	n, err := io.CopyBuffer(struct{ io.Writer }{file}, onlyReader{r}, buf)
	if err != nil || n != 64<<20 {
		b.Fatal(n, err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
}

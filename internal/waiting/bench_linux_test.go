package waiting

import (
	"encoding/binary"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/polltest"
	"asyncrepl/internal/procfs"
	"asyncrepl/internal/tty/ttytest"
)

// BenchmarkTick measures the cost of an idle job at each tick.
func BenchmarkTick(b *testing.B) {
	p := start(b, []string{"sleep", "1000"})
	waitState(b, p, "S")
	var c procfs.Clocks
	c.Follow(p.List)
	for b.Loop() {
		if c.Moved() {
			b.Fatal("moved")
		}
	}
}

// BenchmarkScan scans one process.
func BenchmarkScan(b *testing.B) {
	for name, argv := range map[string][]string{"idle": {"sleep", "1000"}, "waiting": {"cat"}} {
		b.Run(name, func(b *testing.B) {
			p := start(b, argv)
			waitState(b, p, "S")
			tree := p.Tree()
			var c procfs.Clocks
			for b.Loop() {
				c.Moved()
				c.Follow(func() ([]int, error) { return tree, nil })
				if _, ok := scanOnce(p.PTY, tree); ok != (name == "waiting") {
					b.Fatal(ok)
				}
			}
		})
	}
}

// BenchmarkIdleJobs measures the share of one processor that watching 500 jobs takes. Its floor,
// bare, reads the clock of each at every tick and does nothing else.
func BenchmarkIdleJobs(b *testing.B) {
	const jobs = 500
	b.Run("bare", func(b *testing.B) {
		all := make([]int, jobs)
		for i := range all {
			all[i] = start(b, []string{"sleep", "1000"}).PID
		}
		ticks := time.NewTicker(tickTime)
		defer ticks.Stop()
		share(b, func() {
			for range restTime / tickTime {
				<-ticks.C
				for i := range all {
					if _, err := procfs.CPUTime(all[i]); err != nil {
						b.Fatal("no clock")
					}
				}
			}
		})
	})
	for name, argv := range map[string][]string{"idle": {"sleep", "1000"}, "waiting": {"cat"}} {
		b.Run(name, func(b *testing.B) {
			var reported []<-chan change
			for range jobs {
				p := start(b, argv)
				reported = append(reported, p.watch(b))
				waitState(b, p, "S")
			}
			for _, c := range reported {
				if name == "waiting" {
					nextWaiting(b, c)
				}
			}
			share(b, func() { <-time.After(restTime) })
		})
	}
}

// share reports what share of one processor this process uses while f runs again and again.
func share(b *testing.B, f func()) {
	var used, wall time.Duration
	for b.Loop() {
		began, before := time.Now(), processorTime(b)
		f()
		used += processorTime(b) - before
		wall += time.Since(began)
	}
	b.ReportMetric(100*used.Seconds()/wall.Seconds(), "%cpu")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkEvidence measures the time from a program's last instruction before its read to the
// report. aloud: it has just printed a prompt; silent: it has slept, and only its clock shows that
// it runs.
func BenchmarkEvidence(b *testing.B) {
	for name, code := range map[string]string{
		"aloud":  `os.write(1, b"? ")`,
		"silent": `time.sleep(0.3 + n % 13 / 100)`,
	} {
		b.Run(name, func(b *testing.B) {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			p := start(b, []string{"python3", "-c", `
import os, time
for n in range(1000000):
    ` + code + `
    os.write(3, time.clock_gettime_ns(time.CLOCK_MONOTONIC).to_bytes(8, "little"))
    os.read(0, 100)
`}, w)
			w.Close()
			reported := p.watch(b)
			var took []time.Duration
			for b.Loop() {
				nextWaiting(b, reported)
				now := monotonic(b)
				var then [8]byte
				if _, err := r.Read(then[:]); err != nil {
					b.Fatal(err)
				}
				took = append(took, now-time.Duration(binary.LittleEndian.Uint64(then[:])))
				p.Send(b, "\n")
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "ms-median")
			b.ReportMetric(float64(took[len(took)-1])/1e6, "ms-max")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func waitState(b *testing.B, p program, want string) {
	b.Helper()
	polltest.Until(b, "state "+want, func() bool { return ttytest.State(p.PID) == want })
}

func monotonic(b *testing.B) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// processorTime returns the CPU time of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

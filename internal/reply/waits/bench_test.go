//go:build unix

package waits

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
)

// processorTime returns how long the process has computed.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIdle has 1,000 waiters wait for a second, and measures their processor time. The floor is
// the same waiters without patterns.
func BenchmarkIdle(b *testing.B) {
	for name, c := range map[string]Conditions{
		"floor":    {},
		"patterns": {Pattern: expression(b, `listening on (\d+)`), Stop: expression(b, "error|panic")},
	} {
		b.Run(name, func(b *testing.B) {
			r := registry(b)
			var all []*jobs.Job
			for range 1000 {
				j, p := start(b, r)
				p.prints("starting…\n> ")
				all = append(all, j)
			}
			ctx, cancel := context.WithCancel(b.Context())
			over := make(chan struct{})
			go func() { defer close(over); Wait(ctx, all, c, time.Hour) }() // ends with ctx
			time.Sleep(2 * time.Second)                                     // the first scan
			before := processorTime(b)
			for b.Loop() {
				time.Sleep(time.Second)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "µs-cpu/s")
			cancel()
			<-over
		})
	}
}

// BenchmarkWriter writes to a log while a waiter looks for what never comes. The floor is the same
// log without a waiter.
func BenchmarkWriter(b *testing.B) {
	chunk := []byte(strings.Repeat("noise and more noise, all of it in lines\n", 100))
	for _, waits := range []bool{false, true} {
		b.Run(map[bool]string{false: "floor", true: "waiter"}[waits], func(b *testing.B) {
			j, p := start(b, registry(b))
			ctx, cancel := context.WithCancel(b.Context())
			over := make(chan struct{})
			go func() { // ends with ctx
				defer close(over)
				if waits {
					Wait(ctx, []*jobs.Job{j}, Conditions{Pattern: expression(b, "listening")}, time.Hour)
				}
			}()
			b.SetBytes(int64(len(chunk)))
			p.does(func(port *jobs.Port) {
				for b.Loop() {
					port.Write(output.TTY, chunk)
				}
			})
			cancel()
			<-over
		})
	}
}

package jobs

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkSmallJob reports the memory of a job with 4 KB of output, its goroutine included.
func BenchmarkSmallJob(b *testing.B) {
	size := 0
	for b.Loop() {
		size = jobSize(b, 1000)
	}
	b.ReportMetric(float64(size), "B/job")
}

// BenchmarkJob is the life of a job that does nothing, in a registry that keeps no other and in one
// that keeps as many as it can: each end forgets a job there.
func BenchmarkJob(b *testing.B) {
	nothing := runFunc(func(_ context.Context, p *Port) Outcome {
		p.Begin()
		return Outcome{Receipt: Receipt{End: Returned}}
	})
	for _, kept := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d kept", kept), func(b *testing.B) {
			r := NewRegistry(Config{Keep: kept})
			defer r.Close(Stop{By: Shutdown})
			run := func() {
				j, err := r.Start(Spec{}, nothing)
				if err != nil {
					b.Fatal(err)
				}
				<-j.Done()
			}
			for range kept {
				run()
			}
			for b.Loop() {
				run()
			}
		})
	}
}

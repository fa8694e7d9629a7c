package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"asyncrepl/jobs"
)

// BenchmarkLongLine makes a reply of one line of 45,000 characters and, in the same run, one of as
// many characters in short lines. The aim is 1.2 times the time.
func BenchmarkLongLine(b *testing.B) {
	var rp Reporter
	output := func(line string, size int) *jobs.Job {
		return ended(b, script{write: func(p *jobs.Port) { out(p, strings.Repeat(line, size/len(line))) }})
	}
	for name, test := range map[string]struct {
		size int
		part Part
	}{
		"all":  {44_000, Ends},
		"ends": {200_000, Ends},
		"page": {200_000, Forward},
	} {
		all := []*jobs.Job{output("0123456789", test.size), output(fmt.Sprintf("%079d\n", 7), test.size)}
		b.Run(name, func(b *testing.B) {
			var times [2]time.Duration
			for b.Loop() {
				for i, j := range all {
					start := time.Now()
					rp.Job(j, Window{Part: test.part, MaxChars: maxChars})
					times[i] += time.Since(start)
				}
			}
			b.ReportMetric(float64(times[0])/float64(times[1]), "x/short-lines")
		})
	}
}

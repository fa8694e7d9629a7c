//go:build unix

package history

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// record returns the record of a job as most are.
func record(id string) jobs.Record {
	now := time.Now()
	return jobs.Record{
		Version: jobs.RecordVersion, ID: id, Spec: jobs.Spec{Kind: jobs.Shell, Title: "npm test -- --grep 'feature number 4211'"},
		Status: jobs.Completed, Created: now, Started: now, Ended: now, Output: output.Stat{End: 40, Final: 40, Last: now},
		Receipt: jobs.Receipt{End: jobs.Exited, By: jobs.Program}, Terminal: &jobs.Size{Rows: 40, Cols: 120},
	}
}

// The records of a job on a terminal cost its three lines. The floor writes lines of that length.
func BenchmarkRecord(b *testing.B) {
	const id = "01K9ZC3V7Q0W6N8X2M4B5D7F9H"
	short := []output.Span{{Stream: output.TTY, Data: []byte("all 211 tests have passed in 3.2 seconds\r\n")}}
	b.Run("lines", func(b *testing.B) {
		s := Open(newConfig(b))
		defer s.Close()
		for b.Loop() {
			r := record(id)
			started := r
			started.Status, started.Receipt = jobs.Queued, jobs.Receipt{}
			must.Do(b, s.Begin(started))
			must.Do(b, s.Resize(id, *r.Terminal))
			must.Do(b, s.End(jobs.Saved{Record: r, Short: short}))
		}
	})
	b.Run("floor", func(b *testing.B) {
		file := must.Get(os.Create(filepath.Join(b.TempDir(), "lines")))(b)
		defer file.Close()
		line := must.Get(encode(end, jobs.Saved{Record: record(id), Short: short}))(b)
		size := resizeLine(id, jobs.Size{Rows: 40, Cols: 120})
		var at int64
		for b.Loop() {
			for _, line := range [][]byte{line, size, line} {
				n := must.Get(file.WriteAt(line, at))(b)
				at += int64(n)
			}
		}
	})
}

// makeRuns makes runs with jobs that have ended, and returns what the next engine has for them.
func makeRuns(b *testing.B, runs, jobsEach int) Config {
	c := newConfig(b)
	for run := range runs {
		e := newEngine(c)
		for i := range jobsEach {
			e.do(b, fmt.Sprintf("npm test -- --grep 'feature number %d'", run*jobsEach+i), prints("all 211 tests have passed in 3.2 seconds\r\n"))
		}
		e.end()
	}
	return c
}

// The aims are 2 ms for the newest 20 jobs, and 150 ms for all.
func BenchmarkPast(b *testing.B) {
	for name, shape := range map[string][2]int{"20runs": {20, 50}, "1run": {1, 5000}} {
		e := newEngine(makeRuns(b, shape[0], shape[1]))
		for _, n := range []int{20, 1000} {
			b.Run(fmt.Sprintf("%s/newest%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if got := len(e.List(jobs.Filter{Limit: n})); got != n {
						b.Fatalf("%d jobs", got)
					}
				}
			})
		}
		oldest := e.List(jobs.Filter{})[999].ID
		b.Run(name+"/get", func(b *testing.B) {
			for b.Loop() {
				must.Get(e.Get(oldest))(b)
			}
		})
		e.end()
	}
}

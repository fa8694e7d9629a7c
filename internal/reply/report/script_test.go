package report

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A script is a runner that writes output. It ends when the output is written, or when its context
// does if it hangs.
type script struct {
	write  func(p *jobs.Port)
	result string
	hangs  bool
	fails  bool
}

// Run implements jobs.Runner.
func (s script) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	s.write(p)
	if s.hangs {
		<-ctx.Done()
		st := p.Stop()
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Stop: st}}
	}
	if s.fails {
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Code: 1}}
	}
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}, Result: s.result, HasResult: s.result != ""}
}

func out(p *jobs.Port, s string)  { p.Write(output.Stdout, []byte(s)) }
func errs(p *jobs.Port, s string) { p.Write(output.Stderr, []byte(s)) }

// flood writes n numbered lines to stdout.
func flood(p *jobs.Port, n int) {
	for i := range n {
		out(p, fmt.Sprintf("line %d\n", i))
	}
}

// ended returns a job that has written its output and ended.
func ended(t testing.TB, s script) *jobs.Job {
	t.Helper()
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, s)
	jobstest.End(t, j)
	return j
}

// field returns the value of a header line, "" if there is none.
func field(r *Reply, name string) string {
	head, _, _ := strings.Cut(r.String(), "\n\n")
	for _, line := range strings.Split(head, "\n") {
		if v, ok := strings.CutPrefix(line, name+": "); ok {
			return v
		}
	}
	return ""
}

package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/text/progress"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// The bar of a running job is in the header of its reply, in its record and in what a waiting client
// is told. An ended job needs none.
func TestProgressOfARunningJob(t *testing.T) {
	const bar = "\r 43%|████▎     | 4300/10000 [00:12<00:16, 350.12it/s]"
	const want = "43 %, 4300 of 10000, 350 it/s, 0:16 left"
	var rp Reporter
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, script{hangs: true, write: func(p *jobs.Port) { errs(p, bar); out(p, "loading\n") }})
	jobstest.Prints(t, j, "loading\n")
	if got := rp.Job(j, Window{MaxChars: 1000}); field(got, "Progress") != want {
		t.Errorf("the reply:\n%s", got)
	}
	r := &Reply{}
	rp.Summary(r, j, j.Record())
	if field(r, "Progress") != want {
		t.Errorf("the reply about several jobs:\n%s", r)
	}
	if b, err := json.Marshal(rp.Document(j.Record(), j.Live(), nil, j.Log())); err != nil || !strings.Contains(string(b), `"progress":{"text":"`+want+`","percent":43,"left_seconds":16}`) {
		t.Errorf("the record: %s, %v", b, err)
	}
	late := Reporter{now: func() time.Time { return time.Now().Add(11 * time.Second) }}
	if got := late.Job(j, Window{MaxChars: 1000}); field(got, "Progress") != "" {
		t.Errorf("an old bar above newer lines:\n%s", got)
	}
	j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt})
	jobstest.End(t, j)
	showsNoProgress(t, j)
}

// showsNoProgress checks that neither a reply about a job nor its record has a bar.
func showsNoProgress(t *testing.T, j *jobs.Job) {
	t.Helper()
	var rp Reporter
	if got := rp.Job(j, Window{MaxChars: 1000}); field(got, "Progress") != "" {
		t.Errorf("the reply:\n%s", got)
	}
	r := &Reply{}
	rp.Summary(r, j, j.Record())
	if field(r, "Progress") != "" {
		t.Errorf("the reply about several jobs:\n%s", r)
	}
	if b, err := json.Marshal(rp.Document(j.Record(), j.Live(), nil, j.Log())); err != nil || strings.Contains(string(b), "progress") {
		t.Errorf("the record: %s, %v", b, err)
	}
}

// A bar that the job has replaced is no longer shown.
func TestProgressThatWasReplaced(t *testing.T) {
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, script{hangs: true, write: func(p *jobs.Port) {
		errs(p, "\r 43%|████▎     | 4300/10000 [00:12<00:16, 350.12it/s]")
		p.Clear(false)
		out(p, "loading\n")
	}})
	jobstest.Prints(t, j, "loading\n")
	showsNoProgress(t, j)
}

// What it costs a reply about a running job to look for a bar in its newest output.
func BenchmarkProgress(b *testing.B) {
	for name, text := range map[string]string{
		"bar": " 43%|████▎     | 4300/10000 [00:12<00:16, 350.12it/s]\r", "log": "2026-11-21 10:12:13 INFO worker 3 [http] GET /a/1/2 200 12ms\n",
	} {
		b.Run(name, func(b *testing.B) {
			j := jobstest.Start(b, jobstest.Registry(b), jobs.Spec{Kind: jobs.Shell}, script{hangs: true, write: func(p *jobs.Port) { out(p, strings.Repeat(text, 1000)+"\nend") }})
			jobstest.Prints(b, j, "end")
			for b.Loop() {
				if _, ok := progress.TailOf(j.Log(), 0, time.Now()).Bar(); ok != (name == "bar") {
					b.Fatal("wrong")
				}
			}
		})
	}
}

package jobs_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// The first three are kept, the same target and program is counted once, and the others are only counted. No
// earlier copy changes.
func TestDeniedIsBounded(t *testing.T) {
	curl, pip := jobs.Process{PID: 8, Program: "curl"}, jobs.Process{PID: 9, Program: "pip"}
	var d jobs.Denied
	add := func(target string, p jobs.Process, first bool) {
		t.Helper()
		if got := d.Add(target, p); got != first {
			t.Errorf("%s by %s: first is %v", target, p, got)
		}
	}
	add("CONNECT a:443", curl, true)
	one := d
	add("CONNECT a:443", jobs.Process{PID: 10, Program: "curl"}, false)
	add("CONNECT a:443", pip, true)
	two := d
	add("GET http://b/", curl, true)
	for i := range 1000 {
		add(fmt.Sprintf("CONNECT c%d:443", i), curl, false)
	}
	add("CONNECT a:443", pip, false)
	first := []jobs.Denial{{Target: "CONNECT a:443", Process: curl, Times: 1}}
	if diff := cmp.Diff(jobs.Denied{First: first}, one); diff != "" {
		t.Error("the copy after one: " + diff)
	}
	if got := two.First[1].Times; len(two.First) != 2 || got != 1 {
		t.Errorf("the copy after two: %+v", two)
	}
	want := jobs.Denied{More: 1000, First: []jobs.Denial{
		{Target: "CONNECT a:443", Process: curl, Times: 2}, {Target: "CONNECT a:443", Process: pip, Times: 2}, {Target: "GET http://b/", Process: curl, Times: 1},
	}}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	for want, denial := range map[string]jobs.Denial{
		"CONNECT a:443 by curl (pid 8)":              {Target: "CONNECT a:443", Process: curl, Times: 1},
		"CONNECT a:443 by curl (pid 8), 1,200 times": {Target: "CONNECT a:443", Process: curl, Times: 1200},
		"CONNECT a:443":                              {Target: "CONNECT a:443", Times: 1},
	} {
		if got := denial.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What a job is denied is in its record, also once it has ended. Then no more is added. Only what a reply
// would name wakes those that wait for a change.
func TestDenyIsRecorded(t *testing.T) {
	curl := jobs.Process{PID: 8, Program: "curl"}
	end := make(chan struct{})
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Shell}, runner(func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		<-end
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	}))
	j.AwaitStart(t.Context())
	changed := j.Changed()
	if !j.Deny("CONNECT a:443", curl) {
		t.Error("a running job does not record it")
	}
	select {
	case <-changed:
	default:
		t.Error("the first one is not announced")
	}
	changed = j.Changed()
	j.Deny("CONNECT a:443", curl)
	select {
	case <-changed:
		t.Error("a count is announced")
	default:
	}
	close(end)
	record := jobstest.End(t, j)
	if j.Deny("CONNECT a:443", curl) {
		t.Error("an ended job records it")
	}
	want := jobs.Denied{First: []jobs.Denial{{Target: "CONNECT a:443", Process: curl, Times: 2}}}
	if diff := cmp.Diff(want, record.Denied); diff != "" {
		t.Error(diff)
	}
}

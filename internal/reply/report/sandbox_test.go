package report

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// The failures that a sandbox can cause repeat what it is, in a line of bounded length. Others don't.
func TestFailureRepeatsTheSandbox(t *testing.T) {
	limit := &jobs.Stop{By: jobs.Limit}
	for name, tt := range map[string]struct {
		receipt jobs.Receipt
		want    bool
	}{
		"exit 3":         {jobs.Receipt{End: jobs.Exited, Code: 3}, true},
		"exception":      {jobs.Receipt{End: jobs.Raised}, true},
		"killed":         {jobs.Receipt{End: jobs.Signaled, Signal: "SIGSYS"}, true},
		"not started":    {jobs.Receipt{End: jobs.NotStarted}, true},
		"timed out":      {jobs.Receipt{End: jobs.Signaled, Stop: limit}, true},
		"returned":       {jobs.Receipt{End: jobs.Returned}, false},
		"exit 0":         {jobs.Receipt{End: jobs.Exited}, false},
		"cancelled":      {jobs.Receipt{End: jobs.Signaled, Stop: &jobs.Stop{By: jobs.Agent}}, false},
		"out of memory":  {jobs.Receipt{End: jobs.OutOfMemory}, false},
		"not run":        {jobs.Receipt{End: jobs.NotRun}, false},
		"internal error": {jobs.Receipt{End: jobs.Internal}, false},
		"server ended":   {jobs.Receipt{End: jobs.ServerEnded}, false},
	} {
		record := jobs.Record{Status: tt.receipt.Status(), Receipt: tt.receipt}
		var r, plain Reply
		rp := &Reporter{Sandbox: "workspace; " + strings.Repeat("x", 200)}
		rp.describe(&r, record, jobs.Live{}, inputContext{})
		new(Reporter).describe(&plain, record, jobs.Live{}, inputContext{})
		got := strings.TrimPrefix(r.String(), plain.String())
		want := ""
		if tt.want {
			want = "Sandbox: workspace; " + strings.Repeat("x", 108) + "…\n"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, status := range []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput} {
		var r Reply
		(&Reporter{Sandbox: "workspace"}).describe(&r, jobs.Record{Status: status}, jobs.Live{}, inputContext{})
		if strings.Contains(r.String(), "Sandbox") {
			t.Errorf("%s: %q", status, r.String())
		}
	}
	past := jobs.Record{ID: "01M8A26GJME88Y3MYDSSFHENM4", Status: jobs.Failed, Receipt: jobs.Receipt{End: jobs.Raised}}
	var r Reply
	(&Reporter{Sandbox: "workspace", Jobs: jobstest.Registry(t)}).describe(&r, past, jobs.Live{}, inputContext{})
	if strings.Contains(r.String(), "Sandbox") {
		t.Errorf("a job of an earlier server: %q", r.String())
	}
}

func TestDenialsAreNamedAndCounted(t *testing.T) {
	curl := jobs.Process{PID: 8, Program: "curl"}
	denial := func(target string, times int) jobs.Denial {
		return jobs.Denial{Target: target, Process: curl, Times: times}
	}
	long := strings.Repeat("h", 100)
	for want, d := range map[string]jobs.Denied{
		"": {},
		"Denied: CONNECT evil.example:443 by curl (pid 8)\n": {First: []jobs.Denial{denial("CONNECT evil.example:443", 1)}},
		"Denied: a by curl (pid 8); b by curl (pid 8), 4 times; c by curl (pid 8); and 1,200 more\n": {
			First: []jobs.Denial{denial("a", 1), denial("b", 4), denial("c", 1)}, More: 1200},
		"Denied: " + long + "1 by curl (pid 8); " + long + "2 by curl (pid 8); and 13 more\n": {
			First: []jobs.Denial{denial(long+"1", 1), denial(long+"2", 1), denial(long+"3", 4)}, More: 9},
		"Denied: x\\ny by z\\x1b (pid 8)\n": {First: []jobs.Denial{{Target: "x\ny", Process: jobs.Process{PID: 8, Program: "z\x1b"}, Times: 1}}},
	} {
		var r Reply
		r.Denied(d, "")
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	// The longest that an engine records, with the remark of the state of a server.
	d := jobs.Denied{More: 2_000_000}
	for i := range 3 {
		d.Add(fmt.Sprint(i)+long[1:], jobs.Process{PID: 4_194_304, Program: "a-long-program"})
	}
	var r Reply
	r.Denied(d, "; of no job that runs")
	if got := r.String(); !strings.HasSuffix(got, " more; of no job that runs\n") || chars(got) > len("Denied: ")+lineMax {
		t.Errorf("%d characters: %q", chars(got), got)
	}
}

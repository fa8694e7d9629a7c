package overview

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/jobs"
)

func TestResumed(t *testing.T) {
	list := []jobs.Record{{ID: "01A", Status: jobs.WaitingInput}, {ID: "01B", Status: jobs.Running}, {ID: "01C", Status: jobs.Queued}}
	sessions := []Session{{Name: "default", Variables: 1}, {Name: "lab", Variables: 12}, {Name: "empty"}, {Name: "busy", Job: "01B"}}
	const want = "job 01A waits for input; job 01B running; job 01C queued; session default with 1 variable; session lab with 12 variables; session busy"
	if got := Resumed(list, sessions, ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	there := Place{Name: "gpu", Sessions: []Session{{Name: "default", Variables: 1}, {Name: "busy", Job: "01D"}}}
	list = []jobs.Record{{ID: "01D", Spec: jobs.Spec{Place: "gpu"}, Status: jobs.Running}}
	if got := Resumed(list, there.Own(), ""); got != "job 01D at gpu running; session default at gpu with 1 variable; session busy at gpu" {
		t.Errorf("at a place: %q", got)
	}
	if got := Resumed(nil, nil, ""); got != "" {
		t.Errorf("nothing is resumed as %q", got)
	}
	if got := Resumed(nil, sessions[:1], "an older engine"); got != "an older engine; session default with 1 variable" {
		t.Errorf("got %q", got)
	}
}

// The line has at most 300 characters, and counts what does not fit.
func TestResumedIsShort(t *testing.T) {
	for n := range 40 {
		var list []jobs.Record
		for i := range n {
			list = append(list, jobs.Record{ID: fmt.Sprintf("01M8BE5DV12RZS20905WTEJ%03d", i), Status: jobs.Running})
		}
		got := Resumed(list, []Session{{Name: "default", Variables: 1}}, "")
		shown, more := strings.Count(got, " running"), 0
		if _, tail, cut := strings.Cut(got, "; "+fmt.Sprint(n+1-shown)+" more: see list_jobs and list_sessions"); cut && tail == "" {
			more = n + 1 - shown
		} else {
			shown += strings.Count(got, "session default")
		}
		if len(got) > resumedMax || shown+more != n+1 {
			t.Errorf("%d jobs: %d characters, %d shown, %d more: %q", n, len(got), shown, more, got)
		}
	}
}

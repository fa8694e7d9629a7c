package report

import (
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
)

func TestReceiptIsDescribedInLines(t *testing.T) {
	var r Reply
	receipt(&r, "", jobs.Receipt{
		End:    jobs.Signaled,
		By:     jobs.Unknown,
		Rungs:  []jobs.Rung{jobs.Interrupt, jobs.Terminate},
		Rest:   []jobs.Rung{jobs.Kill},
		HungUp: []jobs.Process{{PID: 812, Program: "npm"}, {PID: 813, Program: "no\nde"}}, Left: []jobs.Process{{PID: 9, Program: "sleep"}},
		Survivors: []jobs.Process{{PID: 10, Program: "dd"}}, Unclaimed: []jobs.Process{{PID: 11, Program: "x"}},
		PendingTasks: 2, LoopServers: []string{"127.0.0.1:8000", "[::1]:8000"}, Notes: []string{"one", "two"}, LostOutput: output.Loss{Cap: 1, Disk: 2, Limit: 3},
	})
	want := "Ended by: outside or unknown\nRungs: interrupt, terminate; kill for the processes it had started\n" +
		"Hung up: npm (pid 812), no\\nde (pid 813); give a server a job of its own\nLeft running: sleep (pid 9)\n" +
		"Survivors: dd (pid 10)\nUnclaimed: x (pid 11); of this job or of another\nPending tasks: 2\nNote: one\nNote: two\n" +
		"Note: the session's event loop serves 127.0.0.1:8000, [::1]:8000: it answers only while a job awaits\n" +
		"Note: 2 bytes of output were lost: the disk could not be written to or read\n" +
		"Note: 3 bytes of output were lost: running jobs had reached the limit of all output (REPL_MAX_STATE)\n"
	if r.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", r.String(), want)
	}
}

func TestReceiptOfAJobThatEndedInItsOwnWaySaysWhoAskedForTheEnd(t *testing.T) {
	for _, rec := range []jobs.Receipt{
		{End: jobs.Exited, By: jobs.Agent, Rungs: []jobs.Rung{jobs.Interrupt}},
		{End: jobs.Returned, By: jobs.Agent, Rungs: []jobs.Rung{jobs.Interrupt}, State: jobs.Kept},
		{End: jobs.Raised, By: jobs.Agent, Rungs: []jobs.Rung{jobs.Interrupt}, State: jobs.Kept},
	} {
		var r Reply
		receipt(&r, "", rec)
		if got := r.String(); got != "Ended by: agent\n" {
			t.Errorf("%s: %q", rec.Text(), got)
		}
	}
}

func TestStatusNamesTheRemedyForTheCause(t *testing.T) {
	for cause, want := range map[jobs.Cause]string{
		"":                "failed (could not start: why)",
		"unknown":         "failed (could not start: why)",
		jobs.NoTerminal:   "failed (could not start: why: a command that needs no terminal runs with tty=false)",
		jobs.NoDirectory:  "failed (could not start: why: make it, or name another in cwd)",
		jobs.OpenQuestion: "failed (could not start: why: answer it with send_python_input, or cancel_job)",
		jobs.NoQuestions:  "failed (could not start: why, which only execute_python can give)",
	} {
		record := jobs.Record{Status: jobs.Failed, Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: "why", Cause: cause}}
		if got := StatusText(record); got != want {
			t.Errorf("%q: %s, want %s", cause, got, want)
		}
	}
}

func TestVariablesAndFilesAreListedUpToALimit(t *testing.T) {
	many := make([]string, 20)
	for i := range many {
		many[i] = "variable" + strings.Repeat("x", i)
	}
	for want, c := range map[string]jobs.NameChange{
		"":                                  {},
		"Variables: new b, a\n":             {New: []string{"b", "a"}, NewCount: 2},
		"Variables: gone a\n":               {Gone: []string{"a"}, GoneCount: 1},
		"Variables: new b; gone a\n":        {New: []string{"b"}, NewCount: 1, Gone: []string{"a"}, GoneCount: 1},
		"Variables: new a\\nb: 1\n":         {New: []string{"a\nb: 1"}, NewCount: 1},
		"Variables: new a and 1,234 more\n": {New: []string{"a"}, NewCount: 1235},
	} {
		var r Reply
		receipt(&r, "", jobs.Receipt{End: jobs.Returned, Names: c})
		if got := r.String(); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
	for want, c := range map[string]jobs.FileChange{
		"": {Partial: true},
		"Files: new a.png; changed b.csv (while it ran)\n":                         {New: []string{"a.png"}, NewCount: 1, Changed: []string{"b.csv"}, ChangedCount: 1},
		"Files: changed b and 2 more (while it ran; not all files were checked)\n": {Changed: []string{"b"}, ChangedCount: 3, Partial: true},
		"Files: new …ir" + strings.Repeat("/dir", 8) + "/a\\nb (while it ran)\n":   {New: []string{strings.Repeat("/dir", 50) + "/a\nb"}, NewCount: 1},
	} {
		var r Reply
		receipt(&r, "", jobs.Receipt{End: jobs.Returned, Files: c})
		if got := r.String(); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
	var r Reply
	receipt(&r, "", jobs.Receipt{Files: jobs.FileChange{New: many, NewCount: 4000, Changed: many, ChangedCount: 1000, Partial: true}})
	if got := r.String(); chars(got) > lineMax || !strings.HasSuffix(got, " more (while it ran; not all files were checked)\n") {
		t.Errorf("%d characters: %q", chars(got), got)
	}
	r = Reply{}
	receipt(&r, "", jobs.Receipt{Names: jobs.NameChange{New: many, NewCount: 30, Gone: []string{strings.Repeat("y", 300)}, GoneCount: 2}})
	if got := r.String(); chars(got) > lineMax || !strings.HasSuffix(got, "… and 1 more\n") || !strings.Contains(got, "xxx and ") {
		t.Errorf("%d characters: %q", chars(got), got)
	}
}

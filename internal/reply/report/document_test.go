package report

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b := must.Get(json.Marshal(v))(t)
	return string(b)
}

// A probe measures what tests expect, or fails.
type probe struct {
	err     error
	stopped []jobs.StoppedProcess
	idle    bool
}

func (p probe) Usage() (jobs.ProcessUsage, error) {
	return jobs.ProcessUsage{CPU: 1500 * time.Millisecond, Memory: 4096, Processes: 2}, p.err
}

func (p probe) Waits(pid int) (jobs.Process, string, time.Duration) {
	if pid == 815 {
		return jobs.Process{}, "", 0
	}
	return jobs.Process{PID: 5, Program: "bash"}, "waits for make (pid 6), which waits for the disk", 12 * time.Second
}

func (p probe) Busiest() (jobs.Process, float64, error) {
	if p.idle {
		return jobs.Process{PID: 6, Program: "make"}, 0.4, p.err
	}
	return jobs.Process{PID: 815, Program: "python3"}, 97.6, p.err
}

func (p probe) Stopped() ([]jobs.StoppedProcess, error) { return p.stopped, p.err }

func TestDocumentOfJobsOfEveryKind(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 123456789, time.FixedZone("x", 3600))
	rp := Reporter{now: func() time.Time { return at.Add(2500 * time.Millisecond) }}
	const stamp = `"2026-11-21T07:00:00.123Z"`
	spec := jobs.Spec{Kind: jobs.Python, Session: "lab", Title: "x", Timeout: time.Minute}
	const beginning = `{"id":"ID","kind":"python","title":"x","session":"lab",`
	const outputJSON = `"output":{"uri":"job://ID/output","cursor":0,"kept":0}`
	for name, tt := range map[string]struct {
		record jobs.Record
		want   string
	}{
		"queued": {jobs.Record{Status: jobs.Queued},
			`"status":"queued","status_text":"queued","created":` + stamp + `,"elapsed_seconds":0,"timeout_seconds":60,` + outputJSON + `}`},
		"asks": {jobs.Record{Spec: jobs.Spec{Keep: true}, Status: jobs.WaitingInput, Started: at, PID: 812, Cancelling: jobs.Interrupt, Question: &jobs.Question{Kind: "line", Prompt: "? ", By: "input()"},
			Output: output.Stat{Final: -1}},
			`"status":"waiting_input","status_text":"waiting_input","question":{"kind":"line","prompt":"? ","by":"input()"},"cancelling":"interrupt","pid":812,"keep":true,` +
				`"created":` + stamp + `,"started":` + stamp + `,"elapsed_seconds":2.5,"timeout_seconds":60,` + outputJSON +
				`,"usage":{"cpu_seconds":1.5,"memory_bytes":4096,"processes":2}}`},
		"died": {jobs.Record{Status: jobs.Failed, Started: at, Ended: at.Add(time.Second), PID: 812,
			Receipt: jobs.Receipt{End: jobs.Signaled, Signal: "SIGSEGV", By: jobs.Program, State: jobs.Lost, Notes: []string{"n"},
				Survivors: []jobs.Process{{PID: 3, Program: "dd"}}, Unclaimed: []jobs.Process{{PID: 4, Program: "x"}}},
			Output: output.Stat{End: 100, Final: 90, Last: at, Dropped: 7, Gaps: []output.Range{{From: 10, To: 17}}, Loss: output.Loss{Cap: 4, Disk: 2, Limit: 1}}},
			`"status":"failed","status_text":"failed (killed by SIGSEGV; variables lost)","created":` + stamp + `,"started":` + stamp + `,"ended":"2026-11-21T07:00:01.123Z","last_output":` + stamp +
				`,"elapsed_seconds":1,"timeout_seconds":60,"output":{"uri":"job://ID/output","cursor":100,"kept":93,"dropped":7,"gaps":[{"from":10,"to":17}],"late":10,"dropped_by":{"max_output":4,"disk":2,"max_state":1}},` +
				`"receipt":{"end":"signaled","signal":"SIGSEGV","by":"program","variables":"lost","survivors":[{"pid":3,"program":"dd"}],"unclaimed":[{"pid":4,"program":"x"}],"notes":["n"]}}`},
		"listens": {jobs.Record{Status: jobs.Running, Started: at, Listening: []jobs.Listener{{Address: "127.0.0.1:8000", Process: jobs.Process{PID: 815, Program: "python3"}}}},
			`"status":"running","status_text":"running","listening":[{"address":"127.0.0.1:8000","pid":815,"program":"python3"}],"created":` + stamp + `,"started":` + stamp +
				`,"elapsed_seconds":2.5,"timeout_seconds":60,` + outputJSON + `}`},
		"denied": {jobs.Record{Status: jobs.Queued, Denied: jobs.Denied{First: []jobs.Denial{{Target: "CONNECT a:443", Process: jobs.Process{PID: 8, Program: "curl"}, Times: 2}}, More: 12}},
			`"status":"queued","status_text":"queued","denied":[{"target":"CONNECT a:443","pid":8,"program":"curl","times":2}],"denied_more":12,"created":` + stamp + `,"elapsed_seconds":0,"timeout_seconds":60,` + outputJSON + `}`},
		"raised": {jobs.Record{Status: jobs.Failed, Receipt: jobs.Receipt{End: jobs.Raised, Detail: "ValueError: x", By: jobs.Program, State: jobs.Kept, PendingTasks: 2, Names: jobs.NameChange{New: []string{"a"}, NewCount: 1}, Checkpoint: "kept"}},
			`"status":"failed","status_text":"failed (ValueError: x)","created":` + stamp + `,"elapsed_seconds":0,"timeout_seconds":60,` + outputJSON +
				`,"receipt":{"end":"raised","exception":"ValueError: x","by":"program","variables":"kept","new_variables":["a"],"checkpoint":"kept","pending_tasks":2}}`},
		"raised, as data": {jobs.Record{Status: jobs.Failed, Receipt: jobs.Receipt{End: jobs.Raised, Detail: "ValueError: x", By: jobs.Program,
			Exception: &jobs.Exception{Type: "ValueError", Message: "x", Frames: []jobs.Frame{{File: "a.py", Line: 1, Function: "f", Source: "g()"}},
				Causes: []jobs.Exception{{Relation: "cause", Type: "SyntaxError", Message: "y", Position: &jobs.Position{File: "b.py", Line: 3, Column: 4}}}}}},
			`"status":"failed","status_text":"failed (ValueError: x)","created":` + stamp + `,"elapsed_seconds":0,"timeout_seconds":60,` + outputJSON +
				`,"receipt":{"end":"raised","exception":"ValueError: x","error":{"type":"ValueError","message":"x","frames":[{"file":"a.py","line":1,"function":"f","source":"g()"}],` +
				`"causes":[{"relation":"cause","type":"SyntaxError","message":"y","position":{"file":"b.py","line":3,"column":4}}]},"by":"program"}}`},
		"long result": {jobs.Record{Status: jobs.Completed, HasResult: true, Result: "[1,", ResultChars: 90_000, Receipt: jobs.Receipt{End: jobs.Returned, By: jobs.Program}},
			`"status":"completed","status_text":"completed","created":` + stamp + `,"elapsed_seconds":0,"timeout_seconds":60,` + outputJSON +
				`,"result":"[1,","result_chars":90000,"receipt":{"end":"returned","by":"program"}}`},
		"exited": {jobs.Record{Status: jobs.Completed, HasResult: true, Receipt: jobs.Receipt{End: jobs.Exited, By: jobs.Program,
			HungUp: []jobs.Process{{PID: 1, Program: "npm"}}, Left: []jobs.Process{{PID: 2, Program: "sleep"}}}},
			`"status":"completed","status_text":"completed","created":` + stamp + `,"elapsed_seconds":0,"timeout_seconds":60,` + outputJSON +
				`,"result":"","receipt":{"end":"exited","exit_code":0,"by":"program","hung_up":[{"pid":1,"program":"npm"}],"left_running":[{"pid":2,"program":"sleep"}]}}`},
		"timed out": {jobs.Record{Status: jobs.Failed, Receipt: jobs.Receipt{End: jobs.Exited, Code: 1, By: jobs.Limit, Stop: &jobs.Stop{By: jobs.Limit, Reason: "r"},
			Limit: time.Minute, Rungs: []jobs.Rung{jobs.Interrupt, jobs.Kill}}},
			`"status":"failed","status_text":"failed (timed out after 1m)","created":` + stamp + `,"elapsed_seconds":0,"timeout_seconds":60,` + outputJSON +
				`,"receipt":{"end":"exited","exit_code":1,"by":"limit","reason":"r","rungs":["interrupt","kill"],"limit_seconds":60}}`},
		"not started": {jobs.Record{Status: jobs.Failed, Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: "no terminals", Cause: jobs.NoTerminal, By: jobs.Program}},
			`"status":"failed","status_text":"failed (could not start: no terminals: a command that needs no terminal runs with tty=false)","created":` + stamp +
				`,"elapsed_seconds":0,"timeout_seconds":60,` + outputJSON +
				`,"receipt":{"end":"not started","detail":"no terminals: a command that needs no terminal runs with tty=false","by":"program"}}`},
		"internal": {jobs.Record{Status: jobs.Failed, Receipt: jobs.Receipt{End: jobs.Internal, Detail: "jobs: secret", By: jobs.Unknown}},
			`"status":"failed","status_text":"failed (internal error)","created":` + stamp + `,"elapsed_seconds":0,"timeout_seconds":60,` + outputJSON +
				`,"receipt":{"end":"internal","by":"outside or unknown"}}`},
	} {
		spec.Keep = tt.record.Keep
		tt.record.ID, tt.record.Spec, tt.record.Created = "ID", spec, at
		var live jobs.Live
		if tt.record.PID != 0 {
			live.Probe = probe{}
		}
		var readBack jobs.Record
		if err := json.Unmarshal([]byte(asJSON(t, tt.record)), &readBack); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, record := range []jobs.Record{tt.record, readBack} {
			if d := cmp.Diff(beginning+tt.want, asJSON(t, rp.Document(record, live, nil, nil))); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
	}
}

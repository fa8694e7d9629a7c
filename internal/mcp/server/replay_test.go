package server

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/jobs"
)

// Code runs in the state after a job only if the client agrees that the jobs before run again. The
// session is new, and named.
func TestExecuteFromJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	first := field(c.call("execute_python", given{"code": "out \"1\"", "session": "lab"}), "Job ID")
	shell := field(c.call("execute_command_async", given{"command": "out \"x\""}), "Job ID")
	w.histories["lab"] = engine.History{Entries: []engine.Entry{{Job: first, Ended: time.Now(), Receipt: jobs.Receipt{End: jobs.Returned, State: jobs.Kept}}}}
	other := field(c.call("execute_python", given{"code": "out \"2\"", "session": "lab"}), "Job ID")
	gone := field(c.call("execute_python", given{"code": "out \"3\"", "session": "gone"}), "Job ID")
	delete(w.sessions, "gone")
	for _, test := range []struct {
		args given
		want string
	}{
		{given{"from_job": first}, "The state after job " + first + " is not kept. To make it again, what session lab ran up to then must run again (1 job, 1s in all); " +
			"what that does outside Python then happens again. Call with rerun=true if that is right."},
		{given{"from_job": shell, "rerun": true}, "from_job: job " + shell + " is no Python job, and leaves no state to continue from."},
		{given{"from_job": other, "rerun": true}, "The state after job " + other + " can't be made again: the session has no code of job " + other + ": it ran none, or its code is no longer kept"},
		{given{"from_job": gone, "rerun": true}, "The state after job " + gone + " is gone: session gone, in which it ran, is deleted. Run the code again with execute_python."},
		{given{"from_job": gone}, "The state after job " + gone + " is gone: "},
		{given{"from_job": first, "session": "threads"}, "Session lab can't be branched now: a thread runs. Or call with rerun=true, which runs again what session lab ran up to job " + first +
			" (1 job, 1s in all); what that does outside Python then happens again."},
		{given{"from_job": first, "session": "busy"}, "Session lab can't be branched now: it is busy with job J. Call again when that has ended, or cancel it. Or call with rerun=true, "},
		{given{"from_job": other, "session": "threads"}, "Session lab can't be branched now: a thread runs"},
		{given{"from_job": first, "rerun": true, "session": "default"}, "Session  exists, and is not changed: use it, end it with delete_session, or take another name."},
		{given{"rerun": true}, "rerun is about the jobs up to from_job: give from_job too."},
	} {
		test.args["code"] = "x"
		if got := c.refused("execute_python", test.args); !strings.HasPrefix(got, test.want) {
			t.Errorf("%v: %q, want %q", test.args, got, test.want)
		}
	}
	queued := field(c.call("execute_python", given{"code": "queue go", "wait_seconds": 0}), "Job ID")
	if got, want := c.refused("execute_python", given{"code": "x", "from_job": queued}), "from_job: job "+queued+" has not begun: wait for its end"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	w.open("go")
	if got := c.refused("execute_python", given{"code": "x", "from_job": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "rerun": true}); !strings.Contains(got, "01ARZ3NDEKTSV4RRFFQ69G5FAV") {
		t.Errorf("an unknown job: %q", got)
	}
	kept := field(c.call("execute_python", given{"code": "out \"4\"", "session": "kept"}), "Job ID")
	for _, rerun := range []bool{false, true} { // nothing need run again
		got := c.call("execute_python", given{"code": "out \"5\"", "from_job": kept, "session": "from-" + strconv.FormatBool(rerun), "rerun": rerun})
		if field(got, "Session") != "new, from-"+strconv.FormatBool(rerun) || field(got, "Note") != "shared with session kept: child 812 (sleep)" || strings.Contains(got, "again") {
			t.Errorf("from a state that is kept:\n%s", got)
		}
	}
	if got := field(c.call("execute_python", given{"code": "out \"6\"", "from_job": kept}), "Session"); got != "new, kept-2" {
		t.Errorf("without a session: %s", got)
	}
	for _, test := range []struct{ session, made string }{{"", "new, lab-2"}, {"mine", "new, mine"}} {
		args := given{"code": "x", "from_job": first[:12], "rerun": true}
		if test.session != "" {
			args["session"] = test.session
		}
		got := c.call("execute_python", args)
		if field(got, "Session") != test.made || !strings.Contains(got, "again 1\n") || w.job(got).Record().Session != strings.TrimPrefix(test.made, "new, ") {
			t.Errorf("session %q:\n%s", test.session, got)
		}
	}
}

package server

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// begin starts a program and returns before it does anything.
func (c *client) begin(lines ...string) (id string) {
	c.t.Helper()
	return field(c.call("execute_command_async", given{"command": code(lines...), "wait_seconds": 0}), "Job ID")
}

// ended waits for the end of a job.
func (w *world) ended(id string) {
	w.t.Helper()
	jobstest.End(w.t, w.job("Job ID: "+id+"\n"))
}

// status returns a reply about a job.
func (c *client) status(id string) string {
	c.t.Helper()
	return c.call("check_job_status", given{"job_id": id})
}

// Each event is announced by the next reply about another job, or by one about the job itself.
func TestAlsoAnnouncesEachEventOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	stays := c.begin("gate end")
	a, b, asks := c.begin("gate a"), c.begin("gate b", "exit 3"), c.begin("gate asks", `ask line "One? "`, "gate again", `ask line "Two? "`)
	if got := field(c.status(stays), "Also"); got != "" {
		t.Errorf("nothing has happened: %q", got)
	}
	w.open("a")
	w.ended(a)
	if got, want := field(c.status(stays), "Also"), "job "+a+" completed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.open("b")
	w.open("asks")
	w.ended(b)
	jobstest.Asks(t, w.job("Job ID: "+asks+"\n"))
	reply := c.call("execute_python", given{"code": `out "x"`})
	if got, want := field(reply, "Also"), fmt.Sprintf("job %s waits for input; job %s failed (exit 3)", asks, b); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !regexp.MustCompile(`\nCursor: 1\nAlso: [^\n]*\n\n--- STDOUT`).MatchString(reply) {
		t.Errorf("the line stands in the wrong place:\n%s", reply)
	}
	if got := field(c.status(stays), "Also"); got != "" {
		t.Errorf("announced twice: %q", got)
	}
	// An event that a reply about the job has shown is not announced again; a new question is.
	c.call("send_command_input", given{"job_id": asks, "text": "x", "wait_seconds": 0})
	w.open("again")
	jobstest.Asks(t, w.job("Job ID: "+asks+"\n"))
	if got, want := field(c.call("wait_for_jobs", given{"job_ids": []string{stays}, "wait_seconds": 0}), "Also"), "job "+asks+" waits for input"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c.call("cancel_job", given{"job_id": asks})
	d, e := c.begin("gate d"), c.begin("gate d")
	w.open("d")
	w.ended(d)
	w.ended(e)
	c.call("list_jobs", nil)
	if got := field(c.status(stays), "Also"); got != "" {
		t.Errorf("a list has shown it: %q", got)
	}
	w.open("end")
}

// Another connection gets announcements once a call of its own was about the job.
func TestAlsoIsForConnectionsThatAskedAboutTheJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, other := w.dial(engine.Scope{}), w.dial(engine.Scope{})
	known, unknown := mine.begin("gate go"), mine.begin("gate go")
	if s := field(other.status(known), "Status"); s != "running" && s != "queued" {
		t.Fatal(s)
	}
	w.open("go")
	w.ended(known)
	w.ended(unknown)
	if got, want := field(other.call("execute_python", given{"code": `out ""`}), "Also"), "job "+known+" completed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := field(mine.call("execute_python", given{"code": `out ""`}), "Also"), fmt.Sprintf("job %s completed; job %s completed", min(known, unknown), max(known, unknown)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// cancel cancels a call in flight.
func (c *client) cancel(call int) {
	c.t.Helper()
	c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": call}})
}

// A client that cancels a call can tell its model that nothing runs. The first reply after that
// says that the job does.
func TestAlsoSaysThatTheJobOfACancelledCallStillRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	call, j := w.started(c, "execute_python", given{"code": "gate one", "wait_seconds": 100})
	one, stays := j.ID(), c.begin("gate end")
	also := func(want string) {
		t.Helper()
		if got := field(c.status(stays), "Also"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	c.cancel(call)
	also("job " + one + " is still running; its call was cancelled")
	also("")
	// A reply about the job itself says it too.
	c.cancel(c.startCall("check_job_status", given{"job_id": one, "wait_seconds": 100}))
	c.status(one)
	also("")
	// The reply of a cancelled call has announced nothing.
	c.cancel(c.startCall("check_job_status", given{"job_id": one, "wait_seconds": 100}))
	c.cancel(c.startCall("wait_for_jobs", given{"job_ids": []string{stays}, "wait_seconds": 100}))
	if got, want := field(c.call("list_jobs", nil), "Jobs"), "2, newest first"; got != want { // it shows them
		t.Errorf("got %q, want %q", got, want)
	}
	also("")
	c.cancel(c.startCall("wait_for_jobs", given{"job_ids": []string{one}, "wait_seconds": 100}))
	c.call("list_variables", nil) // by then the cancel has taken effect
	w.open("one")
	w.ended(one)
	also("job " + one + " completed") // and no longer that it runs
	w.open("end")
}

// Calls are cancelled whose replies would have announced events.
func TestAlsoAnnouncesWhatCancelledCallsDidNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	stays, about, other := c.begin("gate end"), c.begin("gate about"), c.begin("gate other")
	// One job ends after the call about it was cancelled, the other just before a call that would
	// have announced it is cancelled.
	for _, step := range []struct{ call, ends string }{{about, "about"}, {stays, "other"}} {
		call := c.startCall("check_job_status", given{"job_id": step.call, "wait_seconds": 100})
		c.call("list_variables", nil) // by then it waits
		if step.call == stays {
			w.open("other")
			w.ended(other)
		}
		c.cancel(call)
		c.call("list_variables", nil) // by then the cancel has taken effect
		if step.call == about {
			w.open("about")
			w.ended(about)
		}
	}
	var announced string
	polltest.Until(t, "both ends to be announced", func() bool {
		announced += field(c.status(stays), "Also")
		return strings.Contains(announced, "job "+about+" completed") && strings.Contains(announced, "job "+other+" completed")
	})
	w.open("end")
}

// The job of a call ends after the call was cancelled and before its handler learns of that. Of
// this cancel the handler never learns, because the SDK does not understand it.
func TestAlsoAnnouncesWhatALateCancelDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	stays, about := c.begin("gate end"), c.begin("gate about")
	call := c.startCall("check_job_status", given{"job_id": about, "wait_seconds": 100})
	c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": call, "reason": 7}})
	c.call("list_variables", nil) // by then the cancel has taken effect
	w.open("about")
	w.ended(about)
	var announced string
	for deadline := time.Now().Add(jobstest.Patience); announced == "" && time.Now().Before(deadline); {
		announced = field(c.status(stays), "Also") // none before the call is over
	}
	if want := "job " + about + " completed"; announced != want {
		t.Errorf("got %q, want %q", announced, want)
	}
	w.open("end")
}

// Many jobs end while many calls are in flight.
func TestAlsoAnnouncesEachEndOnceToManyCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	stays := c.begin("gate end")
	const n, rounds = 150, 10
	for i := range n {
		c.begin("gate " + strconv.Itoa(i%rounds))
	}
	more := regexp.MustCompile(`; (\d+) more: see list_jobs$`)
	announced := map[string]int{}
	count := 0
	note := func(also string) {
		if m := more.FindStringSubmatch(also); m != nil {
			k, _ := strconv.Atoi(m[1])
			count += k
		}
		for _, id := range ids.FindAllString(also, -1) {
			announced[id]++
			count++
		}
		if chars(also) > lineMax {
			t.Errorf("%d characters: %s", chars(also), also)
		}
	}
	for round := range rounds {
		w.open(strconv.Itoa(round))
		for range 8 {
			c.startCall("check_job_status", given{"job_id": stays})
		}
		for range 8 {
			text, _ := toolReply(t, c.read())
			note(field(text, "Also"))
		}
	}
	for _, record := range w.jobs.List(jobs.Filter{}) {
		if record.ID != stays {
			w.ended(record.ID)
		}
	}
	note(field(c.status(stays), "Also"))
	for id, times := range announced {
		if times != 1 {
			t.Errorf("job %s was announced %d times", id, times)
		}
	}
	if count != n {
		t.Errorf("%d ends were announced, want %d", count, n)
	}
	w.open("end")
}

// A call whose handler panics has announced nothing of its job, and does not keep others from it.
func TestAlsoAfterAPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, other := w.dial(engine.Scope{}), w.dial(engine.Scope{})
	stays := c.begin("gate end")
	about := field(c.call("execute_python", given{"code": `ask line "? "`, "wait_seconds": 60}), "Job ID")
	c.refused("send_python_input", given{"text": "panic"})
	other.call("send_python_input", given{"text": "fine", "wait_seconds": 60})
	w.ended(about)
	if got, want := field(c.status(stays), "Also"), "job "+about+" completed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.open("end")
}

// The next reply about a job says that a person has answered it, and when, and not what. It says so
// once on a connection, and the person's own connection takes no news from the agent's.
func TestAnswerOfAPersonIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agent := w.dial(engine.Scope{})
	w.config.By = jobs.Person
	person := w.dial(engine.Scope{})
	id := agent.begin(`ask line "One? "`, `ask line "Two? "`, "hang")
	j := w.job("Job ID: " + id + "\n")
	jobstest.Asks(t, j)
	agent.call("send_command_input", given{"job_id": id, "text": "mine", "wait_seconds": 0})
	jobstest.Asks(t, j)
	if got := field(agent.status(id), "Answered"); got != "" {
		t.Errorf("the agent's own answer: %q", got)
	}
	if got := person.call("send_command_input", given{"job_id": id, "text": "hunter2", "wait_seconds": 0}); field(got, "Input") != "delivered" {
		t.Errorf("the reply to the person:\n%s", got)
	}
	want := "by a person, " + j.Record().Answered.Local().Format(time.TimeOnly)
	if got := agent.call("wait_for_jobs", given{"job_ids": []string{id}, "wait_seconds": 0}); !strings.Contains(got, "\nAnswered: "+want+"\n") {
		t.Errorf("the reply does not say %q:\n%s", want, got)
	}
	if got := agent.status(id); field(got, "Answered") != "" || strings.Contains(got, "hunter2") {
		t.Errorf("said twice, or what was typed:\n%s", got)
	}
	person.call("cancel_job", given{"job_id": id})
	w.ended(id)
	if got := field(agent.status(id), "Ended by"); got != "person" {
		t.Errorf("ended by %q", got)
	}
}

// The first reply to a client that took an engine over says what is there, even if an answer with that was lost.
func TestResumedIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.dial(engine.Scope{})
	id := first.begin("hang")
	w.config.Resumes, w.config.Notices = 1, new(report.Notices)
	var elsewhere atomic.Pointer[Kept]
	w.config.Elsewhere = elsewhere.Load
	next := w.dial(engine.Scope{})
	got := next.call("list_sessions", given{})
	if want := "job " + id + " running"; field(got, "Resumed") != want || field(got, "Kept elsewhere") != "" {
		t.Errorf("the first reply lacks %q:\n%s", want, got)
	}
	elsewhere.Store(&Kept{Jobs: 1, Sessions: 2})
	if got := next.call("list_sessions", given{}); field(got, "Resumed") != "" || field(got, "Kept elsewhere") != "1 job, 2 sessions (async-repl ps)" {
		t.Errorf("the second reply:\n%s", got)
	}
	if got := next.call("list_sessions", given{}); field(got, "Resumed") != "" || field(got, "Kept elsewhere") != "" {
		t.Errorf("said again:\n%s", got)
	}
	w.config.Resumes = 2
	if got := w.dial(engine.Scope{}).call("list_sessions", given{}); !strings.HasPrefix(field(got, "Resumed"), "job "+id) {
		t.Errorf("the first reply to the third client:\n%s", got)
	}
}

// Replies say how long a job is kept. A server that ends with its client refuses to keep one, before anything
// has started.
func TestKeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	args := given{"command": code("hang"), "keep": true, "wait_seconds": 0}
	if got := w.dial(engine.Scope{}).refused("execute_command_async", args); !strings.Contains(got, "REPL_KEEPER") {
		t.Errorf("refused by %s", got)
	}
	if n := len(w.Jobs().List(jobs.Filter{})); n != 0 {
		t.Errorf("%d jobs have started", n)
	}
	for keep, want := range map[Keep]string{
		KeepLonger: "continues when this client quits; a Python session stays, too, until it was idle for 24 hours",
		KeepServer: "continues when this client quits, and ends with the server",
	} {
		w.config.Keep = keep
		c := w.dial(engine.Scope{})
		got := c.call("execute_command_async", args)
		if field(got, "Keep") != want {
			t.Errorf("the reply lacks %q:\n%s", want, got)
		}
		if got := c.call("execute_command_async", given{"command": code("hang"), "wait_seconds": 0}); field(got, "Keep") != "" {
			t.Errorf("a job that is not kept:\n%s", got)
		}
	}
	w.dial(engine.Scope{}).call("execute_python", given{"code": code("hang"), "session": "lab", "keep": true, "wait_seconds": 0})
	if !slices.Equal(w.kept, []string{"lab"}) {
		t.Errorf("the kept sessions are %q", w.kept)
	}
}

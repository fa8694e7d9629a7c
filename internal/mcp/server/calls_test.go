package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A call that does not wait is answered when its job has started, after 50 ms at the latest, and at
// once if its job is queued behind another.
func TestCallThatDoesNotWaitSaysWhetherItsJobHasStarted(t *testing.T) {
	for name, test := range map[string]struct {
		code   string
		starts time.Duration // when the job starts if no other is before it
		behind bool
		status string
		took   time.Duration
	}{
		"at once":            {"hang", 0, false, "running", 0},
		"a little later":     {code("queue go", "hang"), 40 * time.Millisecond, false, "running", 40 * time.Millisecond},
		"too late":           {code("queue go", "hang"), time.Second, false, "queued", 50 * time.Millisecond},
		"behind another job": {code("queue go", "hang"), time.Second, true, "queued", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := newConn(w.config, w.scope(engine.Scope{}))
				execute := func(code string) string {
					none := time.Duration(0)
					call := &call{conn: c, args: &arguments.Args{Code: code, Wait: &none}, ticket: delivery.TicketOf(nil), notices: c.Notices.Call()}
					r, err := call.executePython(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					return r.String()
				}
				first := ""
				if test.behind {
					first = field(execute("hang"), "Job ID")
				}
				time.AfterFunc(test.starts, func() { w.open("go") })
				begin := time.Now()
				got := execute(test.code)
				if s := field(got, "Status"); s != test.status || time.Since(begin) != test.took {
					t.Errorf("%s after %v, want %s after %v", s, time.Since(begin), test.status, test.took)
				}
				if test.behind && field(got, "Queued behind") != first+" (running)" {
					t.Errorf("the reply does not name the job before it:\n%s", got)
				}
				j := w.job(got)
				j.Stop(jobs.Stop{By: jobs.Agent})
				jobstest.End(t, j)
				time.Sleep(test.starts) // the timer of the bubble
			})
		})
	}
}

// Status calls take a unique prefix of an id, and calls that change a job take only the whole id.
func TestIDsAreTakenAsTheyAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // all jobs start at one time, so the first ten characters of their ids are the same
		w := newWorld(t)
		c := newConn(w.config, w.scope(engine.Scope{}))
		one := jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Python, Session: "default"}, &program{w, `ask line "? "`})
		two := jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Shell}, &program{w, code("keys", "hang")})
		synctest.Wait()
		ask := func(tool func(*call, context.Context) (*report.Reply, error), id string) string {
			t.Helper()
			none := time.Duration(0)
			call := &call{conn: c, args: &arguments.Args{JobID: id, Pattern: "x", JobIDs: []string{id, one.ID()}, Text: "x", Wait: &none}, ticket: delivery.TicketOf(nil), notices: c.Notices.Call()}
			r, err := tool(call, t.Context())
			if err != nil {
				r = c.refusal(err)
			}
			call.notices.Settle(true)
			return r.String()
		}
		written := " " + strings.ToLower(one.ID()) + "\n"
		unique := strings.ToLower(two.ID()[:25])
		shared := two.ID()[:8]
		for name, tool := range map[string]func(*call, context.Context) (*report.Reply, error){
			"check_job_status": (*call).checkJobStatus, "check_python_status": (*call).checkPythonStatus, "wait_for_jobs": (*call).waitForJobs,
			"search_job_output": (*call).searchJobOutput,
		} {
			if got := ask(tool, written); !strings.Contains(got, "Job ID: "+one.ID()) {
				t.Errorf("%s does not find %q:\n%s", name, written, got)
			}
			if got := ask(tool, unique); !strings.Contains(got, "Job ID: "+two.ID()) {
				t.Errorf("%s does not find %q:\n%s", name, unique, got)
			}
			want := "The ids of 2 jobs begin with " + shared + ": give the whole id.\n" + c.reporter.Line(two.Record()) + "\n" + c.reporter.Line(one.Record())
			if got := ask(tool, shared); got != want {
				t.Errorf("%s of two jobs:\n%s\nwant:\n%s", name, got, want)
			}
		}
		for name, tool := range map[string]func(*call, context.Context) (*report.Reply, error){
			"cancel_job": (*call).cancelJob, "send_command_input": (*call).sendCommandInput, "send_python_input": (*call).sendPythonInput,
		} {
			if got := ask(tool, unique); !strings.HasPrefix(got, "No such job: "+unique+"\nNearest:\n"+two.ID()) {
				t.Errorf("%s by a part of the id:\n%s", name, got)
			}
		}
		if got := ask((*call).sendPythonInput, written); field(got, "Input") != "delivered" {
			t.Errorf("input by %q:\n%s", written, got)
		}
	})
}

// The cleanup of an ended job takes no longer than the grace.
func TestCancelOfAnEndedJobTakesTheGraceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.grace = 300 * time.Millisecond
		c := newConn(w.config, w.scope(engine.Scope{}))
		j := jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Shell}, &program{w, "leave immortal"})
		jobstest.End(t, j)
		begin := time.Now()
		r, err := (&call{conn: c, args: &arguments.Args{JobID: j.ID()}, ticket: delivery.TicketOf(nil), notices: c.Notices.Call()}).cancelJob(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if note := field(r.String(), "Note"); note != "the processes it left running are still being ended" || time.Since(begin) != w.grace {
			t.Errorf("after %v:\n%s", time.Since(begin), r)
		}
	})
}

// Input for a job that is ending is refused with its status, which is not that of an ended job.
func TestInputForAnEndingJobIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newConn(w.config, w.scope(engine.Scope{}))
		j := jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Shell}, &program{w, code("closed", "hang")})
		synctest.Wait()
		_, err := (&call{conn: c, args: &arguments.Args{JobID: j.ID(), Text: "x"}, ticket: delivery.TicketOf(nil), notices: c.Notices.Call()}).sendCommandInput(t.Context())
		if want := "Job " + j.ID() + " is ending (running); nothing was sent."; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// Installs into one environment run one at a time, whatever their sessions.
func TestInstallIsQueuedBehindThatOfAnotherSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Package, Session: "a", Site: "one"}, &program{w, "hang"})
	other := jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Package, Session: "c", Site: "two"}, &program{w, "hang"})
	for _, j := range []*jobs.Job{first, other} {
		j.AwaitStart(t.Context())
	}
	second := jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Package, Session: "b", Site: "one"}, &program{w, "queue go"})
	got := w.dial(engine.Scope{}).call("check_job_status", given{"job_id": second.ID()})
	if behind := field(got, "Queued behind"); behind != first.ID()+" (running)" {
		t.Errorf("queued behind %q:\n%s", behind, got)
	}
	w.open("go")
	jobstest.End(t, second)
}

// The first jobs of a session wait for the install of its packages, and not for other installs.
func TestFirstJobsAreQueuedBehindTheInstall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	if got := c.call("create_session", given{"name": "lab", "packages": "hang"}); !strings.HasPrefix(field(got, "Installing"), "job ") {
		t.Errorf("the new session:\n%s", got)
	}
	install := w.jobs.List(jobs.Filter{})[0]
	w.job("Job ID: " + install.ID + "\n").AwaitStart(t.Context())
	later := jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Package, Session: "lab", Site: "another"}, &program{w, "hang"})
	later.AwaitStart(t.Context())
	first := jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Python, Session: "lab"}, &program{w, "queue go"})
	got := c.call("check_job_status", given{"job_id": first.ID()})
	if behind := field(got, "Queued behind"); behind != install.ID+" (running)" {
		t.Errorf("queued behind %q:\n%s", behind, got)
	}
	w.open("go")
	jobstest.End(t, first)
	if got := c.call("delete_session", given{"session": "lab"}); !strings.Contains(got, "\nEnded: "+install.ID+" cancelled ") || strings.Contains(got, later.ID()) {
		t.Errorf("the end of the session:\n%s", got)
	}
}

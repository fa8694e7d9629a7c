package pyrepl_test

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// lines returns the history in short: a job by its code and outcome, a loss by its text.
func lines(h pyrepl.History) string {
	var b strings.Builder
	if h.Dropped > 0 {
		fmt.Fprintf(&b, "%d dropped\n", h.Dropped)
	}
	for _, e := range h.Entries {
		line := e.Code() + ": running"
		if !e.Ended.IsZero() {
			line = e.Code() + ": " + e.Receipt.Text()
		}
		if e.Lost != "" {
			line = "! " + e.Lost
		}
		if e.Awaits {
			line += " (awaits)"
		}
		if e.Uncompiled {
			line += " (uncompiled)"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (b *bench) history(want string) {
	b.t.Helper()
	if got := lines(b.s.History()); got != want {
		b.t.Errorf("history:\n%swant:\n%s", got, want)
	}
}

// A session keeps what it ran and how that ended, in order. What has not been run is not kept.
func TestHistory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.history("")
	first, _ := b.run("x = 1")
	b.run("1/0")
	b.run("import asyncio; await asyncio.sleep(0)")
	b.run("x = (")
	b.run("exec('x = (')")
	b.run("async def f(): await g()")
	asks := b.start("input()")
	queued := b.start("never")
	jobstest.Asks(t, asks)
	queued.Stop(stop(jobs.Interrupt))
	jobstest.End(t, queued)
	ran := "x = 1: completed\n1/0: failed (ZeroDivisionError: division by zero)\nimport asyncio; await asyncio.sleep(0): completed (awaits)\n" +
		"x = (: failed (SyntaxError: '(' was never closed) (uncompiled)\n" +
		"exec('x = ('): failed (SyntaxError: '(' was never closed)\nasync def f(): await g(): completed\n"
	if python := b.s.History().Entries[3].Receipt.Detail; python != "SyntaxError: '(' was never closed" {
		ran = strings.ReplaceAll(ran, "SyntaxError: '(' was never closed", python) // another version's words
	}
	b.history(ran + "input(): running\n")
	asks.Stop(stop(jobs.Interrupt))
	jobstest.End(t, asks)
	b.history(ran + "input(): cancelled (interrupted; variables kept)\n")
	if e := b.s.History().Entries[0]; e.Job != first.ID || e.Began.IsZero() || e.Ended.Before(e.Began) {
		t.Errorf("the first job: %+v, want %s", e, first.ID)
	}
}

// Each loss of the variables stands where it happened: at a restart, in the job that ended the
// worker, and between jobs, also before a job has seen it.
func TestHistoryShowsLosses(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.ended()
	b.run("x = 1")
	b.ended()
	b.ended()
	pid := jobstest.End(t, b.start("y = 2")).PID
	want := "x = 1: completed\n! Python was restarted; variables lost: x\ny = 2: completed\n"
	b.history(want)
	kill(t, pid)
	processtest.Gone(t, pid)
	if v, err := b.s.Variables(t.Context(), ""); err != nil || v.Lost == nil { // it waits until the session knows
		t.Fatalf("variables %+v, %v", v, err)
	}
	want += "! Python was killed by SIGKILL; variables lost: y\n"
	b.history(want)
	record, _ := b.run("import os; z = 3; os.kill(os.getpid(), 9)")
	want = strings.Replace(want, "SIGKILL;", "SIGKILL between jobs;", 1) +
		"import os; z = 3; os.kill(os.getpid(), 9): failed (killed by SIGKILL; variables lost)\n" +
		"! Python was killed by SIGKILL in job " + record.ID + "; variables lost\n"
	b.history(want)
	b.run("pass")
	b.history(want + "pass: completed\n")
}

// Of a long history the oldest jobs are dropped and counted. A loss among them is known.
func TestHistoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("sends much code")
	}
	t.Parallel()
	b := newBench(t)
	code := "'" + strings.Repeat("x", 5<<20) + "'; "
	for i := range 5 {
		b.run(code + fmt.Sprint(i))
	}
	h := b.s.History()
	if h.Dropped != 2 || len(h.Entries) != 3 || h.Entries[0].Code() != code+"2" {
		t.Errorf("%d dropped, %d kept", h.Dropped, len(h.Entries))
	}
	b.run("'" + strings.Repeat("x", 16<<20) + "'")
	b.ended()
	b.history("6 dropped\n! Python was restarted; variables lost\n")
	b.run("1")
	b.history("6 dropped\n! Python was restarted; variables lost\n1: completed\n")
}

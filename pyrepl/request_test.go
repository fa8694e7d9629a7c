package pyrepl_test

import (
	"strings"
	"testing"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// ask starts the job of a request.
func (b *bench) ask(q pyrepl.Request, code string, patience time.Duration) *jobs.Job {
	b.t.Helper()
	return jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Python, Session: "default", Title: q.Do}, b.s.Ask(q, code, patience))
}

// request returns the status and the answer of a request.
func (b *bench) request(q pyrepl.Request, code string) (status, answer string) {
	b.t.Helper()
	record := jobstest.End(b.t, b.ask(q, code, jobstest.Patience))
	return record.Receipt.Text(), record.Result
}

// The name of an answer is in the answer; what else an expression defines is said as of any job.
func TestRequestsSayWhichNamesAreNew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, step := range []struct {
		q    pyrepl.Request
		code string
		want int
	}{
		{pyrepl.Request{Do: "set", Name: "a", Value: "1"}, "", 0},
		{pyrepl.Request{Do: "get"}, "(b := 1)", 1},
		{pyrepl.Request{Do: "delete", Names: []string{"a"}}, "", 0},
	} {
		names := jobstest.End(t, b.ask(step.q, step.code, jobstest.Patience)).Receipt.Names
		if names.NewCount != step.want || names.GoneCount != 0 {
			t.Errorf("%s: %+v", step.q.Do, names)
		}
	}
	if v, err := b.s.Variables(t.Context(), ""); err != nil || v.Total != 1 {
		t.Errorf("variables: %+v, %v", v, err)
	}
}

func TestRequestWhoseTurnDoesNotComeIsWithdrawn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	busy := b.start("line = input()")
	jobstest.Asks(t, busy)
	later := b.start("line")
	set := pyrepl.Request{Do: "set", Name: "x", Value: "1"}
	record := jobstest.End(t, b.ask(set, "", 0))
	if want := "failed (not run: session default is busy with job " + busy.ID() + ", which waits for input)"; record.Receipt.Text() != want || record.Receipt.Cause != jobs.OpenQuestion {
		t.Errorf("status %q, want %q", record.Receipt.Text(), want)
	}
	jobstest.Send(t, busy, jobs.Input{Text: "said"})
	if got := jobstest.End(t, later).Result; got != "'said'" {
		t.Errorf("the job behind has %q", got)
	}
	b.want("x", "failed (NameError: name 'x' is not defined)") // it did not run later
	runs := b.startUntil("print('up', flush=True)\nwhile True: pass", "up")
	jobstest.EndsAs(t, b.ask(set, "", 0), "failed (not run: session default is busy with job "+runs.ID()+"; ask again later)")
	runs.Stop(jobs.Stop{By: jobs.Agent})
	jobstest.End(t, runs)
	jobstest.EndsAs(t, b.ask(set, "", 0), "completed")
}

func TestRequestWaitsForItsTurnAndCanBeCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	busy := b.start("x = 1; input()")
	jobstest.Asks(t, busy)
	waiting := b.ask(pyrepl.Request{Do: "get"}, "x", time.Hour)
	cancelled := b.ask(pyrepl.Request{Do: "get"}, "x", time.Hour)
	cancelled.Stop(jobs.Stop{By: jobs.Agent})
	jobstest.EndsAs(t, cancelled, "cancelled (before it ran)")
	jobstest.Send(t, busy, jobs.Input{Text: "go on"})
	if got := jobstest.End(t, waiting).Result; got != "1" {
		t.Errorf("x is %q", got)
	}
}

// A question would hold the session: the call that asked for the value expects none.
func TestRequestsGetNoInput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want("class Asks:\n    def __repr__(self): return input('which? ')\nimport subprocess", "completed")
	for _, code := range []string{"input()", "Asks()", "__import__('sys').stdin.readline()", "subprocess.run('read x </dev/tty', shell=True)"} {
		rec := jobstest.End(t, b.ask(pyrepl.Request{Do: "get"}, code, jobstest.Patience)).Receipt
		if rec.Text() != "failed (it asked for input)" || rec.Cause != jobs.NoQuestions {
			t.Errorf("%s: %s, cause %q", code, rec.Text(), rec.Cause)
		}
	}
	b.want("1", "completed")
}

// What a __repr__ does harms only its job, and is bounded.
func TestRequestsOfBadReprs(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want(`import os
class Hangs:
    def __repr__(self):
        print("hanging", flush=True)
        while True: pass
class Long:
    def __repr__(self): return "x" * (1 << 24)
class Dies:
    def __repr__(self): os._exit(3)`, "completed")
	j := b.ask(pyrepl.Request{Do: "get"}, "Hangs()", jobstest.Patience)
	jobstest.Prints(t, j, "hanging")
	j.Stop(jobs.Stop{By: jobs.Limit})
	if got := jobstest.End(t, j).Receipt; !strings.HasPrefix(got.Text(), "failed (timed out after") || got.State != jobs.Kept {
		t.Errorf("status %q", got.Text())
	}
	record := jobstest.End(t, b.ask(pyrepl.Request{Do: "get"}, "Long()", jobstest.Patience))
	if record.Receipt.Text() != "completed" || record.ResultChars != 1<<20 || len(record.Receipt.Notes) != 1 {
		t.Errorf("%s, %d characters, notes %q", record.Receipt.Text(), record.ResultChars, record.Receipt.Notes)
	}
	if status, _ := b.request(pyrepl.Request{Do: "get"}, "Dies()"); status != "failed (process exited 3; variables lost)" {
		t.Errorf("status %q", status)
	}
	if status, got := b.request(pyrepl.Request{Do: "get"}, "1 + 1"); status != "completed" || got != "2" {
		t.Errorf("%s, %s", status, got)
	}
}

func TestVariablesByPattern(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if v, err := b.s.Variables(t.Context(), ""); err != nil || v.Total != 0 {
		t.Errorf("before any job: %+v, %v", v, err)
	}
	made, _ := b.want("df1 = df2 = other = _hidden = 1\ndef dfun(): pass\nimport decimal as dfm\nglobals().update(('n%d' % i, i) for i in range(3000))", "completed")
	names := func(pattern string) string {
		v, err := b.s.Variables(t.Context(), pattern)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, one := range v.Vars {
			all = append(all, one.Name)
		}
		all = append(append(all, v.Functions...), v.Modules...)
		if v.Total != len(all) {
			t.Errorf("%s: %d names of %d", pattern, len(all), v.Total)
		}
		return strings.Join(all, " ")
	}
	idle := map[string]string{
		"df*": "df1 df2 dfun dfm", "df[!1]": "df2 dfm", "df[^1]": "df2 dfm", "n299?": "n2990 n2991 n2992 n2993 n2994 n2995 n2996 n2997 n2998 n2999",
		"other": "other", "DF*": "", "zz*": "", "df": "", "*hidden": "",
	}
	for pattern, want := range idle {
		if got := names(pattern); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
	j := b.start("input()")
	jobstest.Asks(t, j)
	if v, err := b.s.Variables(t.Context(), "df*"); err != nil || v.Busy != j.ID() || v.AsOf != made.ID {
		t.Errorf("of a busy session: %+v, %v", v, err)
	}
	for pattern, want := range idle {
		want = strings.ReplaceAll(want, "dfun dfm", "dfm dfun") // only names are known now, in their order
		if got := names(pattern); got != want {
			t.Errorf("%s of a busy session: %s, want %s", pattern, got, want)
		}
	}
}

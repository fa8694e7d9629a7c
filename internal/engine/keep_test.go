package engine_test

import (
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// keeping starts a command that is kept and waits for input.
func (b *bench) keeping(sc engine.Scope, line string) *jobs.Job {
	b.t.Helper()
	run := must.Get(b.Shell(sc, engine.Command{Line: line, Dir: sc.Workspace}))(b.t)
	return jobstest.Start(b.t, b.Jobs(), jobs.Spec{Kind: jobs.Shell, Title: line, Keep: true}, run)
}

func TestEndUnkept(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	kept, other := b.keeping(sc, "read line; echo $line"), b.shell(sc, engine.Command{Line: "read line"})
	jobstest.End(t, b.python(sc, "lab", "x = 1"))
	jobstest.End(t, b.python(sc, "other", "x = 1"))
	b.Keep("lab")
	b.Keep("missing")
	sleeps, queued := b.python(sc, "lab", "import time; time.sleep(1000)"), b.python(sc, "lab", "y = 2")
	ends := []*jobs.Job{other, sleeps, queued, b.python(sc, "busy", "import time; time.sleep(1000)")}
	for range 500 { // they are queued in a session that ends
		ends = append(ends, b.python(sc, "busy", "y = 2"))
	}
	jobstest.Asks(t, kept)
	if n := count(b); n != 2 {
		t.Errorf("%d are kept", n)
	}
	b.EndUnkept(jobs.ClientGone)
	for _, j := range ends {
		record := jobstest.End(t, j)
		if record.Receipt.By != jobs.ClientGone || record.Status != jobs.Cancelled {
			t.Errorf("%s: %+v", record.Title, record.Receipt)
		}
	}
	if record := kept.Record(); record.Status != jobs.WaitingInput {
		t.Errorf("the kept job is %s", record.Status)
	}
	if list, _ := b.Sessions(); len(list) != 1 || list[0].Name != "lab" {
		t.Errorf("the sessions are %+v", list)
	}
	j := b.python(sc, "lab", "print(x)")
	if jobstest.End(t, j); jobstest.Output(j) != "1\n" {
		t.Errorf("the kept session prints %q", jobstest.Output(j))
	}
	must.Get(kept.Send(t.Context(), jobs.Input{Text: "yes\n"}))(t)
	if jobstest.End(t, kept); !strings.HasSuffix(jobstest.Output(kept), "yes\n") {
		t.Errorf("the kept job prints %q", jobstest.Output(kept))
	}
	if n := count(b); n != 1 {
		t.Errorf("with the session alone %d are kept", n)
	}
}

// A kept session is kept until it was idle too long, and not without variables.
func TestKeptSessionAtRest(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	jobstest.End(t, b.python(sc, "lab", "x = 1"))
	jobstest.End(t, b.python(sc, "empty", "print(1)"))
	b.Keep("lab")
	b.Keep("empty")
	if n := count(b); n != 1 {
		t.Errorf("%d are kept", n)
	}
	b.SetKeptRest(10 * time.Millisecond)
	polltest.Until(t, "the end of the keeping", func() bool { return count(b) == 0 })
	j := b.python(sc, "lab", "input()")
	jobstest.Asks(t, j)
	if n := count(b); n != 1 {
		t.Errorf("while a job uses the session %d are kept", n)
	}
}

func TestEngineRests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(*bench, engine.Scope) *jobs.Job
		rest bool
	}{
		"variable": {func(b *bench, sc engine.Scope) *jobs.Job { return b.python(sc, "lab", "x = 1") }, false},
		"Python":   {func(b *bench, sc engine.Scope) *jobs.Job { return b.python(sc, "lab", "1") }, true},
		"command":  {func(b *bench, sc engine.Scope) *jobs.Job { return b.shell(sc, engine.Command{Line: "true"}) }, true},
		"process": {func(b *bench, sc engine.Scope) *jobs.Job {
			return b.shell(sc, engine.Command{Line: "sleep 1000 >/dev/null 2>&1 & :"})
		}, false},
		"child of Python": {func(b *bench, sc engine.Scope) *jobs.Job {
			return b.python(sc, "lab", "import subprocess; subprocess.Popen(['sleep', '1000']); del subprocess")
		}, false},
		"session with settings": {func(b *bench, sc engine.Scope) *jobs.Job {
			b.create(sc, engine.SessionSpec{Name: "lab", Dir: "/"})
			return b.shell(sc, engine.Command{Line: "true"})
		}, false},
		"shell session": {func(b *bench, sc engine.Scope) *jobs.Job {
			return b.shell(sc, engine.Command{Line: "cd /", Session: "sh"})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, config(t))
			if !b.Rests() {
				t.Error("a new engine does not rest")
			}
			jobstest.End(t, c.do(b, b.Scope()))
			polltest.Until(t, "the rest", func() bool { return b.Rests() == c.rest })
		})
	}
	b := newBench(t, config(t))
	j := b.shell(b.Scope(), engine.Command{Line: "read line"})
	jobstest.Asks(t, j)
	if b.Rests() {
		t.Error("an engine with a job rests")
	}
}

// Clients that follow one another share the manager of their environment of Python.
func TestEnvironmentsShareTheirManager(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Python = ""
	b := newBench(t, c)
	first := b.Engine.Scope(engine.Client{Env: append(c.Env[:len(c.Env):len(c.Env)], "MINE=first")})
	second := b.Engine.Scope(engine.Client{Env: append(c.Env[:len(c.Env):len(c.Env)], "MINE=second", "PATH=/nowhere")})
	if one, two := b.Status(first), b.Status(second); one.Python != two.Python {
		t.Errorf("the first client has %s, the second %s", one.Python, two.Python)
	}
	j := b.shell(second, engine.Command{Line: "echo $MINE"})
	if jobstest.End(t, j); jobstest.Output(j) != "second\n" {
		t.Errorf("a command prints %q", jobstest.Output(j))
	}
}

// count returns the number of jobs and sessions that an engine keeps.
func count(b *bench) int {
	n, sessions := b.Kept()
	return n + sessions
}

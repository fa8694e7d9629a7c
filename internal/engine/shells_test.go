//go:build unix

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// in runs a line in a shell session.
func (b *bench) in(sc engine.Scope, session, line string) *jobs.Job {
	b.t.Helper()
	run := must.Get(b.Shell(sc, engine.Command{Line: line, Session: session, TTY: true}))(b.t)
	return jobstest.Start(b.t, b.Jobs(), jobs.Spec{Kind: jobs.Shell, Session: session, Title: line}, run)
}

// One shell session too many takes the place of the one that has been idle longest. It is refused
// while all are busy.
func TestMaxShellSessions(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	names := make([]string, 50)
	for i := range names {
		names[i] = fmt.Sprintf("s%d", i)
		jobstest.End(t, b.in(sc, names[i], "export A="+names[i]))
	}
	waiting := []*jobs.Job{b.in(sc, "s0", "read x")}
	jobstest.Asks(t, waiting[0])
	jobstest.End(t, b.in(sc, "new", "true"))
	for _, test := range [][2]string{{"s2", "s2"}, {"s1", "none"}} { // s1 takes the place of s3
		j := b.in(sc, test[0], "echo ${A-none}")
		jobstest.End(t, j)
		if got := jobstest.Output(j); got != test[1]+"\r\n" {
			t.Errorf("session %s carried %q, not %q", test[0], got, test[1])
		}
	}
	list := b.Status(sc).Shells
	if len(list) != 50 {
		t.Errorf("%d shell sessions: %+v", len(list), list)
	}
	for _, s := range list {
		if s.Name != "s0" {
			waiting = append(waiting, b.in(sc, s.Name, "read x"))
		}
	}
	if _, err := b.Shell(sc, engine.Command{Line: "true", Session: "more"}); err == nil || !strings.Contains(err.Error(), "50 shell sessions are busy") {
		t.Errorf("one more while all are busy: %v", err)
	}
	for _, j := range waiting {
		j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
	}
}

// A shell session, and a command that names no directory, begin in the workspace, with what the
// server gives each command. A shell that can't carry its state is refused.
func TestShellSession(t *testing.T) {
	t.Parallel()
	c := config(t)
	b := newBench(t, c)
	sc := b.Scope()
	for _, session := range []string{"", "build"} {
		j := b.in(sc, session, `pwd; echo "$TERM"; export TERM=dumb`)
		jobstest.End(t, j)
		if got, want := jobstest.Output(j), sc.Workspace+"\r\nxterm-256color\r\n"; got != want {
			t.Errorf("session %q prints %q, not %q", session, got, want)
		}
	}
	j := b.in(sc, "build", `echo "$TERM $ASYNC_REPL_JOB"`)
	jobstest.End(t, j)
	if got, want := jobstest.Output(j), "dumb "+j.ID()+"\r\n"; got != want {
		t.Errorf("prints %q, not %q", got, want)
	}
	c.Shell = "/usr/bin/fish"
	if _, err := newBench(t, c).Shell(sc, engine.Command{Line: "true", Session: "build"}); err == nil || !strings.Contains(err.Error(), "/usr/bin/fish (REPL_SHELL)") {
		t.Errorf("with fish: %v", err)
	}
}

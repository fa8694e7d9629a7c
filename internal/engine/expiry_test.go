//go:build unix

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// expired waits until the loss of a session is reported.
func expired(t *testing.T, b *bench, name string) (loss *engine.Loss) {
	t.Helper()
	polltest.Check(t, func() error {
		losses := b.Losses()
		if i := slices.IndexFunc(losses, func(l *engine.Loss) bool { return l.Session == name }); i >= 0 {
			loss = losses[i]
			return nil
		}
		list, _ := b.Sessions()
		return fmt.Errorf("%s is not ended: %+v", name, list)
	})
	return loss
}

// A session that has been idle for too long is ended, and says what was lost. The next of its name
// has its settings.
func TestIdleSessionsAreEnded(t *testing.T) {
	inFull(t)
	t.Parallel()
	c := config(t)
	c.SessionTTL = 300 * time.Millisecond
	b := newBench(t, c)
	sc := b.Scope()
	dir := t.TempDir()
	b.create(sc, engine.SessionSpec{Name: "lab", Dir: dir})
	j := b.python(sc, "lab", "import os\na = b = 1\nprint(f'pid {os.getpid()}.')")
	pid := pids(t, j, 1)[0]
	loss := expired(t, b, "lab")
	const how = "session lab's Python was ended because it was idle for 300ms (REPL_SESSION_TTL) after job "
	if got, want := loss.String(), how+j.ID()+"; variables lost: a, b, os"; got != want {
		t.Errorf("the loss: %q, want %q", got, want)
	}
	processtest.Gone(t, pid)
	var no *engine.NoSessionError
	if _, err := b.Session("lab"); !errors.As(err, &no) || no.Loss != loss {
		t.Errorf("asking for it: %v", err)
	}
	next := b.python(sc, "lab", "print(os.getcwd()) if 'os' in globals() else print(__import__('os').getcwd())")
	record := jobstest.End(t, next)
	if got := jobstest.Output(next); got != dir+"\n" || !slices.Contains(record.Receipt.Notes, loss.String()) {
		t.Errorf("the next of its name prints %q, notes %q", got, record.Receipt.Notes)
	}
	if slices.Contains(b.Losses(), loss) {
		t.Error("the loss is reported after the receipt has said it")
	}
}

// A session is not idle while a job runs, or a process that it started.
func TestSessionsInUseAreKept(t *testing.T) {
	inFull(t)
	t.Parallel()
	c := config(t)
	c.SessionTTL = 20 * time.Millisecond
	b := newBench(t, c)
	sc := b.Scope()
	running := b.python(sc, "busy", "input()")
	jobstest.Asks(t, running)
	parent := b.python(sc, "parent", "import os, subprocess, sys\np = subprocess.Popen(['sleep', '1000']); print(f'pid {p.pid}.')")
	pids(t, parent, 1)
	for range 3 { // each is ended by a check that finds the others in use
		jobstest.End(t, b.python(sc, "idle", "1"))
		expired(t, b, "idle")
	}
	unused := time.Since(jobstest.End(t, parent).Ended)
	list, _ := b.Sessions()
	if len(list) != 2 || list[0].Name != "busy" || list[1].Name != "parent" {
		t.Fatalf("sessions %+v", list)
	}
	if list[1].Idle < unused {
		t.Errorf("a session whose last job ended %v ago is idle for %v", unused, list[1].Idle)
	}
	must.Get(running.Send(context.Background(), jobs.Input{Text: "x", Line: true}))(t)
	expired(t, b, "busy")
}

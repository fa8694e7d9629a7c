//go:build linux

package pyrepl_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// branch makes a branch of the session of b, and returns a bench that uses it.
func (b *bench) branch(name string) *bench {
	b.t.Helper()
	s, _, err := b.s.Branch(b.t.Context(), name, b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(s.Close)
	return &bench{t: b.t, r: b.r, s: s, cfg: b.cfg}
}

const identity = "import os; print(os.getpid() == os.getsid(0) == os.tcgetpgrp(0), os.getpid(), os.ttyname(0))"

func TestBranchContinuesWithACopy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want("state = [1]", "completed")
	twig := b.branch("twig")
	twig.result("state.append('twig'); state", "[1, 'twig']")
	b.result("state", "[1]")
	deep := twig.branch("deep")
	b.want("later = 1", "completed") // belongs to its own history only
	var ran []string
	for _, e := range deep.s.History().Entries {
		ran = append(ran, e.Code())
	}
	if want := []string{"state = [1]", "state.append('twig'); state"}; !slices.Equal(ran, want) {
		t.Errorf("the history of a branch begins with %q, want %q", ran, want)
	}
	deep.result("state.append('deep'); state", "[1, 'twig', 'deep']")
	twig.result("state", "[1, 'twig']")

	seen := map[string]bool{}
	for _, b := range []*bench{b, twig, deep} {
		_, out := b.want(identity, "completed")
		f := strings.Fields(out)
		if len(f) != 3 || f[0] != "True" || f[1] != strconv.Itoa(b.s.State().PID) || seen[f[2]] {
			t.Errorf("%s: pid %d: %q", b.s.Name(), b.s.State().PID, out)
			continue
		}
		seen[f[2]] = true
	}
}

// What a branch does is done by its own process, with its own terminal, channel and pipes.
func TestBranchRunsJobsLikeAnySession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want("import subprocess, sys, time, threading", "completed")
	twig := b.branch("twig")
	_, out := twig.want("print('out'); print('err', file=sys.stderr); _ = subprocess.run(['echo', 'child'])", "completed")
	for _, want := range []string{"out", "err", "child"} { // of two pipes, so lines can mix
		if !strings.Contains(out, want) {
			t.Errorf("output %q lacks %q", out, want)
		}
	}
	twig.answer(`input("who? ")`, "who? ", "me", "'me'")
	twig.answer(`subprocess.run(["bash", "-c", "read -p 'who? ' x; echo $x"], stdout=subprocess.PIPE).stdout`, "who? ", "me", `b'me\n'`)
	twig.interrupt(twig.startUntil("print('up', flush=True); time.sleep(1000)", "up"))
	twig.want("thread = threading.Thread(target=print, args=('in a thread',)); thread.start(); thread.join()", "completed")
	twig.want("sys.exit(3)", "failed (exit 3; variables kept)")
	twig.want("import os; os._exit(7)", "failed (process exited 7; variables lost)")
	twig.result("'state' in dir()", "False") // a new Python
	b.result("1", "1")
}

// The end of a session touches neither its branches nor the session that it is a branch of, and its
// status is the true one.
func TestBranchAndParentEndAlone(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want("import subprocess, os, time\nx = 5\nkid = subprocess.Popen(['sleep', '1000'])", "completed")
	twig, other := b.branch("twig"), b.branch("other")
	twig.want("mine = subprocess.Popen(['setsid', 'sleep', '1000'])", "completed")
	other.want("os.kill(os.getpid(), 11)", "failed (killed by SIGSEGV; variables lost)")
	b.result("x, kid.poll()", "(5, None)")
	twig.restarted()
	b.result("x, kid.poll()", "(5, None)")
	twig = b.branch("twig2")
	_, out := twig.want("mine = subprocess.Popen(['setsid', 'sleep', '1000']); print(mine.pid)", "completed")
	b.restarted()
	b.result("'x' in dir()", "False")
	twig.result("x, mine.poll()", "(5, None)")
	pid, _ := strconv.Atoi(strings.TrimSpace(out))
	twig.s.Close()
	if _, err := procfs.Inspect(pid); !errors.Is(err, procfs.ErrGone) {
		t.Errorf("the child of the closed branch: %v", err)
	}
}

// restarted restarts the session, which runs a Python.
func (b *bench) restarted() {
	b.t.Helper()
	if end := b.ended(); !end.Had {
		b.t.Errorf("restart: %+v", end)
	}
}

// refuses checks that no branch can be made, for a reason that says all of want.
func (b *bench) refuses(want ...string) {
	b.t.Helper()
	_, _, err := b.s.Branch(b.t.Context(), "twig", b.cfg)
	for _, w := range want {
		says(b.t, err, w)
	}
}

// An interpreter that dies while its session is idle is the loss of that session alone.
func TestLossOfABranch(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want("x = 1", "completed")
	twig := b.branch("twig")
	pid := twig.s.State().PID
	kill(t, pid)
	var loss *pyrepl.Loss
	polltest.Until(t, "the loss", func() bool { loss = twig.s.Lost(); return loss != nil })
	if got := loss.String(); !strings.HasPrefix(got, "session twig's Python was killed by SIGKILL after job ") || !strings.HasSuffix(got, "variables lost: x") {
		t.Errorf("loss %q", got)
	}
	if b.s.Lost() != nil {
		t.Error("the parent is lost too")
	}
	twig.refuses("its Python was killed by SIGKILL")
}

// A branch waits for its turn, and says which job has it.
func TestBranchOfABusySession(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want("x = 1", "completed")
	j := b.start("x = input()")
	jobstest.Asks(t, j)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := b.s.Branch(ctx, "twig", b.cfg)
	if busy, ok := errors.AsType[*pyrepl.BusyError](err); !ok || busy.Job != j.Record().ID || busy.Session != "default" {
		t.Errorf("busy: %v", err)
	}
	made := make(chan error, 1)
	go func() {
		s, _, err := b.s.Branch(t.Context(), "twig", b.cfg)
		if err == nil {
			t.Cleanup(s.Close)
		}
		made <- err
	}()
	jobstest.Send(t, j, jobs.Input{Text: "2\n"})
	select {
	case err := <-made:
		if err != nil {
			t.Errorf("after the job: %v", err)
		}
	case <-time.After(jobstest.Patience):
		t.Error("the turn did not come")
	}
	b.result("x", "'2'")
}

// A session that can't be branched is as it was.
func TestBranchRefused(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.refuses("session default can't be branched now: it runs no Python yet")
	b.want("import threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait, name='holder'); t.start()", "completed")
	b.refuses("holder", "Thread.join()", "run the code again in a new session")
	b.want("stop.set(); t.join()\nimport asyncio\ntask = asyncio.create_task(asyncio.sleep(1000))", "completed")
	b.refuses("unfinished tasks of the event loop: 1")
	b.want("task.cancel(); await asyncio.sleep(0)", "completed")
	b.branch("twig").want("await asyncio.sleep(0.001)", "completed")
	b.s.Close()
	b.refuses("closed")
}

// What the two share is listed.
func TestBranchListsWhatItShares(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "log")
	_, out := b.want("import socket, subprocess\nf = open("+strconv.Quote(path)+", 'w')\nserver = socket.create_server(('127.0.0.1', 0))\n"+
		"kid = subprocess.Popen(['sleep', '1000']); print(server.getsockname()[1], kid.pid)", "completed")
	f := strings.Fields(out)
	s, shared, err := b.s.Branch(t.Context(), "twig", b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, want := range []string{"socket listening on 127.0.0.1:" + f[0], "file " + path + ", open for writing", "child " + f[1] + " (sleep)"} {
		if !slices.Contains(shared, want) {
			t.Errorf("%q does not list %q", shared, want)
		}
	}
	twig := &bench{t: t, r: b.r, s: s, cfg: b.cfg}
	twig.want("kid.wait()", "failed (ChildProcessError: pid "+f[1]+" belongs to session default)")
	if vars, err := s.Variables(t.Context(), ""); err != nil || len(vars.Vars) < 2 {
		t.Errorf("variables %+v, %v", vars, err)
	}
}

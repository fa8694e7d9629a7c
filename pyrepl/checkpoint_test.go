//go:build linux

package pyrepl_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// keep runs code with a checkpoint after it.
func (b *bench) keep(code string) jobs.Record {
	b.t.Helper()
	run := b.s.WithCheckpoint(b.s.Exec(code))
	return jobstest.End(b.t, jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Python, Session: b.s.Name(), Title: "test"}, run))
}

// restartFrom restarts the session from a checkpoint and returns its job.
func (b *bench) restartFrom(checkpoint string) string {
	b.t.Helper()
	job, wait, err := b.s.RestartFrom(b.t.Context(), jobs.Agent, "test", checkpoint)
	if err != nil {
		b.t.Fatal(err)
	}
	if end, err := wait(b.t.Context()); err != nil || len(end.Survivors) > 0 {
		b.t.Errorf("restart: %+v, %v", end, err)
	}
	return job
}

// noRestartFrom checks that a restart from a checkpoint is refused, for a reason that says want.
func (b *bench) noRestartFrom(checkpoint, want string) {
	b.t.Helper()
	_, _, err := b.s.RestartFrom(b.t.Context(), jobs.Agent, "test", checkpoint)
	says(b.t, err, want)
}

// A restart continues with the variables as they were after the job, any number of times.
func TestRestartFromACheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.keep("x = [1]")
	second := b.keep("x.append(2)")
	if first.Receipt.Checkpoint != "kept" || second.Receipt.Checkpoint != "kept" {
		t.Fatalf("checkpoints %q, %q", first.Receipt.Checkpoint, second.Receipt.Checkpoint)
	}
	b.want("x.append(3); del x[0]", "completed")
	if job := b.restartFrom("latest"); job != second.ID {
		t.Errorf("the latest checkpoint is that of job %s, want %s", job, second.ID)
	}
	b.result("x", "[1, 2]")
	for range 2 {
		b.restartFrom(first.ID)
		b.result("x.append('again'); x", "[1, 'again']")
	}
	var ran []string
	for _, e := range b.s.History().Entries {
		ran = append(ran, e.Job)
	}
	if len(ran) != 2 || ran[0] != first.ID {
		t.Errorf("the session ran %q, want what its variables come from", ran)
	}
	crash, _ := b.want("import os; os._exit(3)", "failed (process exited 3; variables lost)")
	restorable := func(job, want string) {
		t.Helper()
		if got := b.s.Restorable(job); got != want {
			t.Errorf("after job %s the session can continue from %q, want %q", job, got, want)
		}
	}
	restorable(crash.ID, second.ID)
	restorable(second.ID, "") // it has lost nothing
	b.restartFrom("latest")
	restorable(crash.ID, "")
	b.result("x", "[1, 2]")
	crash, _ = b.want("import os; os._exit(3)", "failed (process exited 3; variables lost)")
	restorable(crash.ID, second.ID)
	b.want("x = 1", "completed")
	restorable(crash.ID, "") // there are new variables
	b.restartFrom("latest")
	pid := b.s.State().PID
	kill(t, pid)
	processtest.Gone(t, pid)
	b.restartFrom(second.ID)
	b.result("x", "[1, 2]")
}

// notesForks is code after which each forked process adds its pid to a file.
func notesForks(path string) string {
	return "import os\ndef note():\n    with open(" + strconv.Quote(path) + ", 'a') as f: f.write('%d\\n' % os.getpid())\n" +
		"os.register_at_fork(after_in_child=note)"
}

// branchesNoted returns the pids of the branches in that file: of each fork the second process.
func branchesNoted(t *testing.T, path string) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Fields(string(text)) {
		if pid, _ := strconv.Atoi(line); i%2 == 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// The receipt says how much memory the checkpoints hold once the session has changed much of it.
func TestCheckpointsHoldMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.keep("x = bytearray(b'1') * (100 << 20)")
	second := b.keep("x[:] = b'2' * len(x)")
	if got := second.Receipt.Checkpoint; first.Receipt.Checkpoint != "kept" || !strings.HasPrefix(got, "kept; 2 hold 10") || !strings.HasSuffix(got, " MiB") {
		t.Errorf("checkpoints %q, %q", first.Receipt.Checkpoint, got)
	}
}

// What ends the checkpoints of a session: more of them than are kept, and the end of the session.
// The reply says so when it happens, and so does a later call for the checkpoint.
func TestCheckpointsAreDropped(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "pids")
	b.want(notesForks(path), "completed")
	var jobIDs []string
	for i := range 6 {
		record := b.keep(fmt.Sprintf("x = %d", i))
		jobIDs = append(jobIDs, record.ID)
		want := "kept"
		if i == 5 {
			want = "kept; the checkpoint of job " + jobIDs[0] + " is gone: it was dropped for a newer one, of which 5 are kept"
		}
		if record.Receipt.Checkpoint != want {
			t.Errorf("checkpoint %d: %q, want %q", i, record.Receipt.Checkpoint, want)
		}
	}
	kept := branchesNoted(t, path)
	if len(kept) != 6 {
		t.Fatalf("forked were %d", kept)
	}
	processtest.Gone(t, kept[0])
	for _, pid := range kept[1:] {
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("checkpoint %d: %v", pid, err)
		}
	}
	b.noRestartFrom(jobIDs[0], "the checkpoint of job "+jobIDs[0]+" is gone: it was dropped for a newer one, of which 5 are kept; there are those of "+
		strings.Join(jobIDs[1:], ", "))
	b.noRestartFrom("J1", "session default has no checkpoint of job J1; there are those of "+jobIDs[1])
	_, _, err := b.s.BranchAfter(t.Context(), jobIDs[0], "twig", b.cfg)
	says(t, err, "is not kept: the checkpoint of job "+jobIDs[0]+" is gone: it was dropped")
	if !errors.Is(err, pyrepl.ErrNotKept) {
		t.Errorf("%v is not ErrNotKept", err)
	}
	b.result("x", "5") // nothing has ended
	wait, err := b.s.Delete(jobs.Agent, "test")
	if err != nil {
		t.Fatal(err)
	}
	end, err := wait(t.Context())
	if want := "checkpoints dropped: " + strings.Join(jobIDs[1:], ", "); err != nil || end.Checkpoints != want {
		t.Errorf("the end of the session: %+v, %v; want %s", end, err, want)
	}
	for _, pid := range kept {
		processtest.Gone(t, pid)
	}
	b.noRestartFrom("latest", "the checkpoint of job "+jobIDs[5]+" is gone: it was dropped with its session")
}

// A checkpoint whose process has died is not listed, the latest is the newest that lives, and a
// call for the other says what happened.
func TestCheckpointThatDied(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "pids")
	all := new(pyrepl.Checkpoints)
	b.s.SetCheckpoints(all)
	b.want(notesForks(path), "completed")
	first, second := b.keep("x = 1"), b.keep("x = 2")
	b.want("x = 3", "completed")
	died := func(pid int, left int) {
		t.Helper()
		kill(t, pid)
		polltest.Until(t, "the end of a checkpoint", func() bool { return len(all.List()) == left })
	}
	pids := branchesNoted(t, path)
	died(pids[1], 1)
	gone := "the checkpoint of job " + second.ID + " is gone: its process was killed by SIGKILL"
	b.noRestartFrom(second.ID, gone+"; there are those of "+first.ID)
	_, _, err := b.s.BranchAfter(t.Context(), second.ID, "twig", b.cfg)
	if want := pyrepl.ErrNotKept.Error() + ": " + gone; err == nil || err.Error() != want || !errors.Is(err, pyrepl.ErrNotKept) {
		t.Errorf("%v, want %s", err, want)
	}
	if c := all.List()[0]; c.Memory <= 0 || c.Job != first.ID {
		t.Errorf("the checkpoint that lives is %+v", c)
	}
	b.result("x", "3") // nothing has ended
	job, wait, err := b.s.RestartFrom(t.Context(), jobs.Agent, "test", "latest")
	if err != nil || job != first.ID {
		t.Fatalf("from the latest: job %s, %v; want %s", job, err, first.ID)
	}
	if end, err := wait(t.Context()); err != nil || end.Checkpoints != gone {
		t.Errorf("the restart says %+v, %v; want %s", end, err, gone)
	}
	b.result("x", "1")
	pid := b.s.State().PID
	kill(t, pid)
	processtest.Gone(t, pid)
	b.refuses("between jobs, and its variables are lost; run again what made them, or restart the session from a checkpoint")
	died(pids[0], 0)
	b.noRestartFrom("latest", gone)
}

// A checkpoint that a signal has stopped is refused for that reason, and its session works on.
func TestCheckpointThatIsStopped(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "pids")
	b.want(notesForks(path), "completed")
	record := b.keep("x = 1")
	pid := branchesNoted(t, path)[0]
	halt(t, pid)
	b.noRestartFrom("latest", "the checkpoint of job "+record.ID+" can't be branched now: its process "+strconv.Itoa(pid)+" was stopped by a signal; kill -CONT")
	b.want("x = 2", "completed")
	syscall.Kill(pid, syscall.SIGCONT)
	b.restartFrom("latest")
	b.result("x", "1")
}

// A checkpoint that can't be kept fails no job, and the receipt says why.
func TestCheckpointNotKept(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.noRestartFrom("latest", "session default has no checkpoint")
	record := b.keep("import threading; stop = threading.Event(); t = threading.Thread(target=stop.wait, name='holder'); t.start()")
	if got := record.Receipt.Checkpoint; record.Status != jobs.Completed || !strings.HasPrefix(got, "not kept: a thread runs") || !strings.Contains(got, "holder") {
		t.Errorf("%s, checkpoint %q", record.Receipt.Text(), got)
	}
	if record = b.keep("stop.set(); t.join(); 1/0"); record.Status != jobs.Failed || record.Receipt.Checkpoint != "kept" {
		t.Errorf("after an exception: %s, checkpoint %q", record.Receipt.Text(), record.Receipt.Checkpoint)
	}
	if record = b.keep("import os; os._exit(1)"); record.Receipt.Checkpoint != "not kept: the job has not kept the variables" {
		t.Errorf("after a crash: %s, checkpoint %q", record.Receipt.Text(), record.Receipt.Checkpoint)
	}
}

// The state after a job is that of its checkpoint, or the present one if nothing has changed it
// since. Requests that only look change nothing.
func TestBranchAfterAJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	after := func(job, want string) {
		t.Helper()
		s, _, err := b.s.BranchAfter(t.Context(), job, "twig", b.cfg)
		if err != nil {
			t.Errorf("%v, want %s", err, want)
			return
		}
		t.Cleanup(s.Close)
		(&bench{t: t, r: b.r, s: s, cfg: b.cfg}).result("x", want)
	}
	kept := b.keep("x = [1]")
	second, _ := b.want("x.append(2)", "completed")
	after(second.ID, "[1, 2]")
	last, _ := b.want("x.append(3)", "completed")
	if _, _, err := b.s.BranchAfter(t.Context(), second.ID, "twig", b.cfg); !errors.Is(err, pyrepl.ErrNotKept) {
		t.Errorf("a state that is gone: %v", err)
	}
	after(kept.ID, "[1]")
	after(last.ID, "[1, 2, 3]")
	kill(t, b.s.State().PID)
	polltest.Until(t, "the loss", func() bool { return b.s.Lost() != nil })
	if _, _, err := b.s.BranchAfter(t.Context(), last.ID, "twig", b.cfg); !errors.Is(err, pyrepl.ErrNotKept) {
		t.Errorf("the state of a Python that has died: %v", err)
	}
	after(kept.ID, "[1]")
}

// A session that ends because it is idle names its checkpoints with what it has lost.
func TestLossNamesCheckpoints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	record := b.keep("x = 1")
	loss, ok := b.s.DeleteIdle("was ended")
	if want := "session default's Python was ended after job " + record.ID + "; variables lost: x; checkpoints dropped: " + record.ID; !ok || loss.String() != want {
		t.Errorf("%v, %v; want %s", ok, loss, want)
	}
}

// A session that can continue from a checkpoint makes no room for another one.
func TestSessionWithACheckpointIsLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("x = 1")
	b.ended()
	if !b.s.Live() {
		t.Error("the session is not live")
	}
	b.s.Close()
	if b.s.Live() {
		t.Error("the session is live after its end")
	}
}

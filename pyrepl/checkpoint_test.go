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

	"asyncrepl/internal/polltest"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// keep runs code with a checkpoint after it.
func (b *bench) keep(code string) jobs.Info {
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
	b.want("import os; os._exit(3)", "failed (process exited 3; variables lost)")
	b.restartFrom("latest")
	b.result("x", "[1, 2]")
	pid := b.s.State().PID
	kill(t, pid)
	processtest.Gone(t, pid)
	b.restartFrom(second.ID)
	b.result("x", "[1, 2]")
}

// What ends the checkpoints of a session: more of them than are kept, and the end of the session.
func TestCheckpointsAreDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "pids")
	b.want("import os\ndef note():\n    with open("+strconv.Quote(path)+", 'a') as f: f.write('%d\\n' % os.getpid())\n"+
		"os.register_at_fork(after_in_child=note)", "completed")
	var jobIDs []string
	for i := range 6 {
		jobIDs = append(jobIDs, b.keep(fmt.Sprintf("x = %d", i)).ID)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []int // of each fork the process between and the checkpoint
	for i, line := range strings.Fields(string(text)) {
		if pid, _ := strconv.Atoi(line); i%2 == 1 {
			kept = append(kept, pid)
		}
	}
	if len(kept) != 6 {
		t.Fatalf("forked were %q", text)
	}
	processtest.Gone(t, kept[0])
	for _, pid := range kept[1:] {
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("checkpoint %d: %v", pid, err)
		}
	}
	_, _, err = b.s.RestartFrom(t.Context(), jobs.Agent, "test", jobIDs[0])
	if want := "session default has no checkpoint of job " + jobIDs[0] + "; there are those of " + strings.Join(jobIDs[1:], ", "); err == nil || err.Error() != want {
		t.Errorf("a checkpoint that was dropped: %v, want %s", err, want)
	}
	b.result("x", "5") // nothing has ended
	wait, err := b.s.Delete(jobs.Agent, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wait(t.Context()); err != nil {
		t.Error(err)
	}
	for _, pid := range kept {
		processtest.Gone(t, pid)
	}
}

// A checkpoint that can't be kept fails no job, and the receipt says why.
func TestCheckpointNotKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, _, err := b.s.RestartFrom(t.Context(), jobs.Agent, "test", "latest"); err == nil || err.Error() != "session default has no checkpoint: run a job with checkpoint=true first" {
		t.Errorf("without a checkpoint: %v", err)
	}
	info := b.keep("import threading; stop = threading.Event(); t = threading.Thread(target=stop.wait, name='holder'); t.start()")
	if got := info.Receipt.Checkpoint; info.Status != jobs.Completed || !strings.HasPrefix(got, "not kept: a thread runs") || !strings.Contains(got, "holder") {
		t.Errorf("%s, checkpoint %q", info.Receipt.Text(), got)
	}
	if info = b.keep("stop.set(); t.join(); 1/0"); info.Status != jobs.Failed || info.Receipt.Checkpoint != "kept" {
		t.Errorf("after an exception: %s, checkpoint %q", info.Receipt.Text(), info.Receipt.Checkpoint)
	}
	if info = b.keep("import os; os._exit(1)"); info.Receipt.Checkpoint != "not kept: the job has not kept the variables" {
		t.Errorf("after a crash: %s, checkpoint %q", info.Receipt.Text(), info.Receipt.Checkpoint)
	}
}

// The checkpoints of one tenant's sessions are counted together, and have memory of their own.
func TestCheckpointsOfATenant(t *testing.T) {
	t.Parallel()
	b, other := newBench(t), newBench(t)
	all := new(pyrepl.Checkpoints)
	b.s.SetCheckpoints(all)
	other.s.SetCheckpoints(all)
	b.keep("x = 1")
	for range 5 {
		other.keep("y = 1")
	}
	list := all.List()
	if len(list) != 5 || list[0].Made.After(list[4].Made) {
		t.Errorf("the checkpoints are %+v", list)
	}
	for _, c := range list {
		if c.Memory <= 0 || c.Job == "" {
			t.Errorf("a checkpoint is %+v", c)
		}
	}
	if _, _, err := b.s.RestartFrom(t.Context(), jobs.Agent, "test", "latest"); err == nil {
		t.Error("the oldest checkpoint of all was kept")
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

// A session that can continue from a checkpoint makes no room for another one.
func TestSessionWithACheckpointIsLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("x = 1")
	wait, err := b.s.Restart(jobs.Agent, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !b.s.Live() {
		t.Error("the session is not live")
	}
	b.s.Close()
	if b.s.Live() {
		t.Error("the session is live after its end")
	}
}

package pyrepl_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestRestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, out := b.run("import subprocess\nx = 1\nfor c in ['sleep 300', 'setsid sleep 300', 'nohup sleep 300 2>/dev/null']: print(subprocess.Popen(c, shell=True).pid)")
	running := b.start("print('on', flush=True)\nwhile True: pass")
	queued := b.start("x")
	jobstest.Prints(t, running, "on")
	if end := b.ended(); !end.Had || end.Note != "" {
		t.Errorf("restart: %+v", end)
	}
	jobstest.EndsAs(t, running, "cancelled (terminated by restart_python_worker; variables lost)")
	if record := jobstest.End(t, queued); !strings.HasPrefix(record.Receipt.Text(), "failed (not run: variables were lost in") {
		t.Errorf("the queued job: %s", record.Receipt.Text())
	}
	for _, text := range strings.Fields(out) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		processtest.Gone(t, pid)
	}
	b.result("'x' in globals()", "False")
}

// Code that answers the SIGTERM of a restart with an end of its own has that end. The receipt says
// that the restart asked for it, and that its variables are lost. The first stop here is the one of
// a restart, except for its step: a restart has little patience.
func TestCodeThatAnswersARestartWithAnotherEnd(t *testing.T) {
	inFull(t)
	t.Parallel()
	first := jobs.Stop{By: jobs.Agent, From: jobs.Terminate, Step: time.Hour, Reason: "restart_python_worker"}
	b := newBench(t)
	for answer, want := range map[string]string{
		"raise ValueError('no')":  "failed (ValueError: no after a termination; variables lost)",
		"sys.exit(4)":             "failed (exit 4 after a termination; variables lost)",
		"sys.exit()":              "completed (exit 0 after a termination; variables lost)",
		"pass":                    "completed (after a termination; variables lost)",
		"raise KeyboardInterrupt": "cancelled (terminated by restart_python_worker; variables lost)",
	} {
		dir := t.TempDir()
		running := b.start(`import asyncio, os, signal, sys, time
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
task = asyncio.create_task(asyncio.sleep(300))
await asyncio.sleep(0)
print('on', flush=True)
while not heard: time.sleep(0.01)
print('heard', flush=True)
while not os.path.exists('` + dir + `/go'): time.sleep(0.01)
` + answer)
		jobstest.Prints(t, running, "on")
		running.Stop(first)
		jobstest.Prints(t, running, "heard")
		b.restart()
		write(t, dir, "go", "")
		rec := jobstest.EndsAs(t, running, want).Receipt
		if rec.By != jobs.Agent || rec.Names.NewCount > 0 || rec.PendingTasks > 0 || !slices.Contains(rec.Notes, "variables lost: asyncio, heard, os, signal, sys, task, time") {
			t.Errorf("%s: ended by %s, %+v, %d pending tasks, notes %q", answer, rec.By, rec.Names, rec.PendingTasks, rec.Notes)
		}
		b.result("'heard' in globals()", "False")
	}
}

// restart asks for a restart and does not wait for its end.
func (b *bench) restart() {
	b.t.Helper()
	if _, err := b.s.Restart(jobs.Agent, "restart_python_worker"); err != nil {
		b.t.Fatal(err)
	}
}

// A restart has taken effect when Restart returns, however long the running job resists: a job that
// is started after that is for the next worker, and neither the loss of this one nor an earlier
// restart drops it.
func TestRestartTakesEffectAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the ladder")
	}
	t.Parallel()
	const lost = "failed (not run: variables were lost in a restart)"
	b := newBench(t)
	b.run("kept = 1")
	running := b.start("import signal\nfor deaf in signal.SIGHUP, signal.SIGTERM: signal.signal(deaf, signal.SIG_IGN)\nprint('on', flush=True)\nwhile True: pass")
	before := b.start("print('ran')")
	jobstest.Prints(t, running, "on")
	b.restart()
	between := b.start("print('ran')")
	b.restart()
	after := b.start("'kept' in globals()")
	if st := b.s.State(); st.Job != running.ID() || st.Queued != 1 {
		t.Errorf("the session is at %q, with %d queued; want %q and 1", st.Job, st.Queued, running.ID())
	}
	if v, err := b.s.Variables(t.Context(), ""); err != nil || v.Total != 0 || v.Busy != running.ID() {
		t.Errorf("variables are %+v, %v", v, err)
	}
	jobstest.EndsAs(t, running, "cancelled (killed by restart_python_worker; variables lost)")
	for name, j := range map[string]*jobs.Job{"before the first": before, "between the two": between} {
		jobstest.EndsAs(t, j, lost)
		if out := jobstest.Output(j); out != "" {
			t.Errorf("the job %s: output %q", name, out)
		}
	}
	if record := jobstest.End(t, after); record.Result != "False" {
		t.Errorf("the job behind the restart: %s, result %q", record.Receipt.Text(), record.Result)
	}
}

// A session that was never used has nothing to restart; one that has been closed refuses.
func TestRestartOfNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if end := b.ended(); end.Had {
		t.Errorf("restart: %+v", end)
	}
	if b.s.Live() {
		t.Error("the session is live afterwards")
	}
	b.s.Close()
	if _, err := b.s.Restart(jobs.Agent, "restart_python_worker"); err == nil || err.Error() != "the session has been closed" {
		t.Errorf("restart of a closed session: %v", err)
	}
}

package pyrepl_test

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A child of an earlier job is spared however shortly before the interrupted job it was started: by
// the last statement of the job before, which is queued back to back, or by a thread between jobs.
func TestInterruptSparesChildrenStartedJustBefore(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.run(`import os, signal, subprocess, threading, time
quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
def start(): return subprocess.Popen(["sleep", "300"], **quiet)
children = []
def later():
    time.sleep(0.02)
    children.append(start())`)
	for round := range 6 {
		before := b.start("children.append(start())")
		if round%2 == 1 {
			jobstest.End(t, before)
			before = b.start("threading.Thread(target=later).start()")
			jobstest.End(t, before)
			started := false
			for want := fmt.Sprint(3 + round/2*3); !started; { // until the thread has started its child
				record, _ := b.run("len(children)")
				started = record.Result == want
			}
		}
		b.interrupt(b.startUntil("os.system('echo on; exec sleep 300')", "on"))
		b.result("[c.poll() for c in children if c.poll() is not None]", "[]")
	}
}

// A job that has no children of earlier jobs beside it interrupts its own, from its first statement
// on.
func TestInterruptReachesTheFirstChild(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.run("import os")
	for range 5 {
		j := b.startUntil("os.system('echo on; exec sleep 300')", "on")
		st := stop(jobs.Interrupt)
		st.Step = jobstest.Patience
		j.Stop(st)
		jobstest.EndsAs(t, j, interrupted)
	}
}

// Code never sees that its child has died of the interrupt before it has its own KeyboardInterrupt,
// also if Python swallows the first one, as it does in a finalizer.
func TestInterruptComesBeforeTheEndOfAChild(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.run(`import subprocess, time
class F:
    def __del__(self): print("on", flush=True); time.sleep(300)`)
	j := b.startUntil("p = subprocess.Popen(['sleep', '300'], stdout=subprocess.PIPE)\nF()\nprint('read', p.stdout.read())", "on\n")
	b.interrupt(j)
	if out := jobstest.Output(j); strings.Contains(out, "read b''") {
		t.Errorf("output %q", out)
	}
	b.result("p.wait()", "-2")
}

// A child that the code starts after its KeyboardInterrupt, to clean up, is not interrupted.
func TestInterruptSparesChildrenThatCleanUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("import subprocess, time")
	j := b.start(`child = subprocess.Popen(["sleep", "300"])
try:
    print("on", flush=True); time.sleep(300)
except KeyboardInterrupt:
    print("clean", subprocess.run(["sleep", "0.1"]).returncode, child.wait())`)
	jobstest.Prints(t, j, "on\n")
	j.Stop(stop(jobs.Interrupt))
	if record := jobstest.End(t, j); jobstest.Output(j) != "on\nclean 0 -2\n" {
		t.Errorf("%s, output %q", record.Receipt.Text(), jobstest.Output(j))
	}
}

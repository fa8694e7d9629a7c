package pyrepl_test

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/output"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestInterruptKeepsVariables(t *testing.T) {
	tests := map[string]string{
		"busy loop":    "on()\nwhile True: pass",
		"sleep":        "on(); time.sleep(300)",
		"lock wait":    "l = threading.Lock(); l.acquire(); on(); l.acquire()",
		"subprocess":   "on(); subprocess.run(['sleep', '300'])",
		"shell child":  "on(); os.system('sleep 300; echo on; sleep 300')",
		"input":        "on(); input('? ')",
		"stdin":        "on(); sys.stdin.read()",
		"await":        "on(); await asyncio.sleep(300)",
		"own loop":     "async def m():\n    on(); await asyncio.sleep(300)\nasyncio.run(m())",
		"busy await":   "async def m():\n    on()\n    while True: pass\nawait m()",
		"generator":    "on(); sum(1 for _ in iter(int, 1))",
		"output":       "on()\nwhile True: print('x' * 50)",
		"pipe write":   "r, w = os.pipe(); on(); os.write(w, b'x' * (1 << 20))",
		"thread join":  "e = threading.Event(); t = threading.Thread(target=e.wait, daemon=True); t.start(); on(); t.join()",
		"except pass":  "on()\ntry:\n    time.sleep(300)\nexcept Exception: pass",
		"deep":         "def f(n):\n    if n: return f(n - 1)\n    on(); time.sleep(300)\nf(500)",
		"own handler":  "signal.signal(signal.SIGINT, signal.default_int_handler); on(); time.sleep(300)",
		"tight import": "on()\nwhile True:\n    import json; json.dumps({})",
	}
	for name, code := range tests {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "busy loop", "subprocess", "input", "await", "own loop")
			t.Parallel()
			b := newBench(t)
			b.run("import asyncio, os, signal, subprocess, sys, threading, time\nkept = 1\ndef on(): print('on', flush=True)")
			j := b.startUntil(code, "on")
			if record := b.interrupt(j); len(record.Receipt.Rungs) != 1 {
				t.Errorf("rungs %v", record.Receipt.Rungs)
			}
			if out := jobstest.Output(j); strings.Contains(out, "worker") {
				t.Errorf("output shows internals: %.2000q", out)
			}
			b.result("kept", "1")
		})
	}
}

// Code that takes the interrupt and ends in another way has ended so, and its receipt says who asked
// for the end and how. Code that ended before the interrupt came was not interrupted.
func TestCodeThatEndsItsInterruptItself(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const on = "import time\ntry:\n    print('on', flush=True); time.sleep(300)\nexcept BaseException: "
	for code, want := range map[string]string{
		on + "pass":                   "completed (after %s)",
		on + "raise ValueError('no')": "failed (ValueError: no after %s)",
		on + "raise SystemExit(4)":    "failed (exit 4 after %s; variables kept)",
		on + "raise MemoryError":      "failed (out of memory after %s; variables kept)",
		"import signal\ndone = []\nsignal.signal(signal.SIGINT, lambda *_: done.append(1))\nprint('on', flush=True)\nwhile not done: signal.pause()": "completed (after %s)",
	} {
		for by, after := range map[jobs.By]string{jobs.Agent: "an interrupt", jobs.Limit: "a timeout of 1h"} {
			j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Python, Session: b.s.Name(), Title: "test", Timeout: time.Hour}, b.s.Exec(code))
			jobstest.Prints(t, j, "on")
			j.Stop(jobs.Stop{By: by, From: jobs.Interrupt})
			if rec := jobstest.EndsAs(t, j, fmt.Sprintf(want, after)).Receipt; rec.By != by {
				t.Errorf("%q: ended by %s", code, rec.By)
			}
		}
	}
	b.want("1", "completed")
}

// What DuckDB makes of the interrupt of a query is that interrupt, if it was asked for.
func TestInterruptOfDuckDB(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const class = "class InterruptException(Exception): pass\nInterruptException.__module__ = '_duckdb'\n"
	const on = class + "import time\ntry: print('on', flush=True); time.sleep(300)\nexcept KeyboardInterrupt: raise "
	for raised, failed := range map[string]string{
		"RuntimeError('Query interrupted')":                   "failed (RuntimeError: Query interrupted)",
		"InterruptException('INTERRUPT Error: Interrupted!')": "failed (_duckdb.InterruptException: INTERRUPT Error: Interrupted!)",
	} {
		b.interrupt(b.startUntil(on+raised, "on"))
		b.want(class+"raise "+raised, failed) // no cancel has asked for an end
	}
	// A query runs when it is shown. No other method of the value runs it again.
	j := b.startUntil(`import time
class Query:
    def __repr__(self):
        print("again")
        return "rows"
    def _repr_html_(self):
        print("on", flush=True)
        try: time.sleep(300)
        except KeyboardInterrupt: raise RuntimeError("Query interrupted")
Query()`, "on")
	b.interrupt(j)
	if out := string(output.Tail(j.Log(), 4000)); strings.Contains(out, "again") {
		t.Errorf("output %q", out)
	}
}

// polars takes only a SIGINT while a query runs. It needs an interpreter that has polars, which
// PYREPL_TEST_PYTHON names. .ci/run makes one.
func TestInterruptOfPolars(t *testing.T) {
	t.Parallel()
	python := realPython(t)
	needtest.Module(t, python, "polars")
	b := newBenchOn(t, python, t.TempDir())
	b.want("import polars as pl; frame = pl.DataFrame({'a': range(60_000)})", "completed")
	for _, engine := range []string{"auto", "streaming"} {
		j := b.startUntil(`pairs = frame.lazy().join(frame.lazy(), how="cross")
print("on", flush=True)
pairs.filter(pl.col("a") * pl.col("a_right") % 7 == 3).select(pl.len()).collect(engine="`+engine+`")`, "on")
		computes(t, j)
		b.interrupt(j)
		if out := string(output.Tail(j.Log(), 4000)); !strings.HasSuffix(out, "\nKeyboardInterrupt\n") || strings.Contains(out, "During") {
			t.Errorf("%s: output %q", engine, out)
		}
	}
	b.result("frame.height", "60000")
}

func TestStopEscalatesIfTheInterruptDoesNotHelp(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the ladder")
	}
	tests := map[string]struct{ code, status string }{
		"swallowed": {"import time\nwhile True:\n    try:\n        print('on', flush=True); time.sleep(300)\n    except KeyboardInterrupt: print('no')", "cancelled (terminated; variables lost)"},
		"C loop":    {"print('on', flush=True)\nsum(iter(int, 1))", "cancelled (terminated; variables lost)"},
		"immune":    {"import signal, time\nfor s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\nprint('on', flush=True)\nwhile True: time.sleep(300)", "cancelled (killed; variables lost)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			j := b.startUntil(test.code, "on")
			if name == "C loop" {
				computes(t, j)
			}
			st := stop(jobs.Interrupt)
			st.Step = time.Second
			j.Stop(st)
			jobstest.EndsAs(t, j, test.status)
			b.want("1", "completed")
		})
	}
}

// A stopped worker is continued, so that it is interrupted and keeps its variables.
func TestInterruptOfAStoppedWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startUntil("kept = 1; import os, signal; print('on', flush=True); os.kill(os.getpid(), signal.SIGSTOP); import time; time.sleep(300)", "on")
	stopped(t, j.Record().PID)
	b.interrupt(j)
	b.result("kept", "1")
}

// A stopped child is continued, so that it dies of the interrupt and the code is interrupted.
func TestInterruptOfAStoppedChild(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startUntil("kept = 1; import os; os.system('echo $$; kill -STOP $$')", "\n")
	child, err := strconv.Atoi(strings.TrimSpace(jobstest.Output(j)))
	if err != nil {
		t.Fatal(err)
	}
	stopped(t, child)
	st := stop(jobs.Interrupt)
	st.Step = jobstest.Patience
	j.Stop(st)
	jobstest.EndsAs(t, j, interrupted)
	b.result("kept", "1")
}

// stopped waits until a process is stopped.
func stopped(t *testing.T, pid int) {
	t.Helper()
	polltest.Until(t, "the stop of a process", func() bool { st, err := procfs.Inspect(pid); return err == nil && st.Stopped() })
}

// computes waits until a job's process has used some processor time.
func computes(t *testing.T, j *jobs.Job) {
	t.Helper()
	used := func() time.Duration {
		used, err := procfs.CPUTime(j.Record().PID)
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	begin := used()
	polltest.Until(t, "the job to compute", func() bool { return used() >= begin+30*time.Millisecond })
}

func TestInterruptSparesEarlierJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, out := b.run(`import asyncio, subprocess, time
child = subprocess.Popen(["bash", "-c", "sleep 300 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline().strip())
ticks = 0
async def background():
    global ticks
    while True:
        ticks += 1
        await asyncio.sleep(0)
task = asyncio.create_task(background())
await asyncio.sleep(0.01)`)
	b.interrupt(b.startUntil(`before = ticks; print("on", flush=True); await asyncio.sleep(300)`, "on"))
	b.interrupt(b.startUntil(`print("on", flush=True); subprocess.run(["sleep", "300"])`, "on"))
	b.result("await asyncio.sleep(0.01); (ticks > before, task.done(), child.poll())", "(True, False, None)")
	for _, text := range strings.Fields(out) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("process %d of an earlier job is gone", pid)
		}
	}
}

// Interrupts that race the ends of jobs: each hits its own job or none.
func TestInterruptsRacingEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("300 races")
	}
	t.Parallel()
	b := newBench(t)
	b.run("import time, asyncio\ndone = 0")
	finished := 0
	for i := range 300 {
		code := []string{"time.sleep(0.0005)", "await asyncio.sleep(0.0005)", "for _ in range(3000): pass", "print('x' * 3000)"}[i%4]
		j := b.start(code + "\ndone += 1")
		next := b.start("done")
		pause := time.NewTimer(time.Duration(i%30) * 50 * time.Microsecond)
		select {
		case <-pause.C:
		case <-j.Done():
		}
		j.Stop(stop(jobs.Interrupt))
		record := jobstest.End(t, j)
		switch text := record.Receipt.Text(); text {
		case "completed", "completed (after an interrupt)": // that came too late
			finished++
		case "cancelled (interrupted; variables kept)", "cancelled (before it ran)":
		default:
			t.Fatalf("round %d: %s: %q", i, text, jobstest.Output(j))
		}
		if after := jobstest.End(t, next); after.Status != jobs.Completed {
			t.Fatalf("round %d: the next job: %s: %q", i, after.Receipt.Text(), jobstest.Output(next))
		}
	}
	record, _ := b.run("done")
	if n, err := strconv.Atoi(record.Result); err != nil || n < finished || n > finished+300 {
		t.Errorf("%d jobs completed, %s were counted", finished, record.Result)
	}
	t.Logf("%d of 300 finished before their interrupt", finished)
}

// An interrupt that comes while the loop notes the end of the job's task leaves nothing behind that
// stops the loop in the next job.
func TestInterruptAtTheEndOfATask(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.run(`import asyncio, os, signal
def call_soon(callback, *args, **options):
    handle = real(callback, *args, **options)
    if callback.__name__ == "_run_until_complete_cb":
        os.kill(os.getpid(), signal.SIGURG)
    return handle`)
	for range 3 {
		b.run("loop = asyncio.get_running_loop()\nreal = loop.call_soon\nloop.call_soon = call_soon\nawait asyncio.sleep(0)")
		b.run("del loop.call_soon")
		b.result("await asyncio.sleep(0.001, 7)", "7")
	}
}

// An interrupt that finds the loop at work for something else than the job's own code cancels the
// job's task, and nothing else: neither a task of an earlier job, which prints, nor the loop's
// order to stop, which would be left for the next job.
func TestInterruptWhileTheLoopPrints(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.run(`import asyncio, sys, time
def slow():
    print("on", flush=True)
    time.sleep(0.05)
    yield ""
async def background():
    while True:
        sys.stdout.writelines(slow())
        await asyncio.sleep(0)`)
	j := b.startUntil("asyncio.get_running_loop().call_soon(lambda: sys.stdout.writelines(slow()))\nawait asyncio.sleep(0)", "on\n")
	j.Stop(stop(jobs.Interrupt))
	jobstest.End(t, j)
	earlier := b.start("task = asyncio.create_task(background())\nawait asyncio.sleep(0.001)")
	jobstest.EndsAs(t, earlier, "completed")
	j = b.start("await asyncio.sleep(300)")
	jobstest.PrintsLate(t, earlier, jobstest.Output(earlier)+"on\n")
	b.interrupt(j)
	b.result("task.done()", "False")
}

// A worker blocked in a write of its own output loses and doubles nothing.
func TestInterruptedOutputIsNeitherLostNorDoubled(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	for round := range 20 {
		j := b.startUntil("i = 0\nwhile True:\n    i += 1\n    print(i)", "\n100\n")
		b.interrupt(j)
		out := jobstest.Stream(j, output.Stdout)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		for i, line := range lines {
			if want := fmt.Sprint(i + 1); line != want && i < len(lines)-1 {
				t.Fatalf("round %d: line %d is %q", round, i, line)
			}
		}
		record, _ := b.run("i")
		if n, _ := strconv.Atoi(record.Result); n-len(lines) > 1 || n < len(lines) {
			t.Fatalf("round %d: %d lines were printed, %d arrived", round, n, len(lines))
		}
	}
}

// An interrupt that comes while a loop of the code's own wakes a task does not lose the task:
// asyncio.run would wait for it for ever.
func TestInterruptAsALoopWakesATask(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want(`import asyncio, os, signal
real, armed = asyncio.events.Handle._run, []
def run(self):
    if armed:
        armed.clear()
        os.kill(os.getpid(), signal.SIGURG)
    return real(self)
asyncio.events.Handle._run = run
async def main():
    armed.append(1)
    await asyncio.sleep(0)
    await asyncio.sleep(300)`, "completed")
	for range 3 {
		b.want("asyncio.run(main())", "failed (KeyboardInterrupt)")
		b.want("await asyncio.sleep(0)", "completed")
	}
}

// An exception whose report is interrupted is shown all the same, because it ended the code.
func TestInterruptedReport(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startUntil(`class Slow(Exception):
    def __str__(self):
        print("on", flush=True)
        while True: pass
raise Slow("the reason")`, "on")
	b.interrupt(j)
	errs := jobstest.Stream(j, output.Stderr)
	for _, want := range []string{`raise Slow("the reason")`, "Slow: the reason\n", "KeyboardInterrupt\n"} {
		if !strings.Contains(errs, want) {
			t.Errorf("without %q: %q", want, errs)
		}
	}
}

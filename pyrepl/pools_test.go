package pyrepl_test

import (
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/jobs/jobstest"
)

// tell is a module for the processes of a pool.
const tell = `import os, sys, warnings
def tell(text):
    print("printed", text)
    warnings.warn("warned " + text)
    os.write(1, b"written " + text.encode() + b"\n")
def wait(event, text):
    event.wait()
    print(text)
`

// tells has a process of a pool tell something in each of two jobs, after a job that starts the pool.
func (b *bench) tells(before, call string) {
	b.t.Helper()
	write(b.t, b.cfg.Dir, "tell.py", tell)
	b.want(before, "completed")
	for _, text := range []string{"one", "two"} {
		j := b.start(strings.ReplaceAll(call, "%s", "'"+text+"'"))
		jobstest.EndsAs(b.t, j, "completed")
		if got, want := jobstest.Stream(j, output.Stdout), "printed "+text+"\nwritten "+text+"\n"; got != want {
			b.t.Errorf("stdout of %s: %q", text, got)
		}
		if got := jobstest.Stream(j, output.Stderr); !strings.Contains(got, "UserWarning: warned "+text) {
			b.t.Errorf("stderr of %s: %q", text, got)
		}
	}
}

// What the processes of a pool print, warn and write goes to the job that uses the pool, and not to
// the one that has started it. A process of its own keeps the job that has started it.
func TestPoolsPrintIntoTheRunningJob(t *testing.T) {
	inFull(t)
	t.Parallel()
	for name, c := range map[string]struct{ before, call string }{
		"fork pool":     {"pool = multiprocessing.Pool(1)", "pool.apply(tell.tell, (%s,))"},
		"fork executor": {"pool = concurrent.futures.ProcessPoolExecutor(1)", "pool.submit(tell.tell, %s).result()"},
		"spawn":         {"pool = multiprocessing.get_context('spawn').Pool(1)", "pool.apply(tell.tell, (%s,))"},
		"forkserver":    {"pool = multiprocessing.get_context('forkserver').Pool(1)", "pool.apply(tell.tell, (%s,))"},
	} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "fork pool", "spawn")
			t.Parallel()
			b := newBench(t)
			b.tells("import concurrent.futures, multiprocessing, tell\n"+c.before, c.call)
			own := b.start("event = multiprocessing.get_context('fork').Event()\nprocess = multiprocessing.get_context('fork').Process(target=tell.wait, args=(event, 'late'))\nprocess.start()")
			jobstest.End(t, own)
			if _, out := b.want("event.set(); process.join()\npool.terminate() if hasattr(pool, 'terminate') else pool.shutdown()", "completed"); strings.Contains(out, "late") {
				t.Errorf("a process of an earlier job printed into a later one: %q", out)
			}
			jobstest.PrintsLate(t, own, "late\n")
		})
	}
}

// The processes of the pools that joblib and loky keep print for the job that uses them, too.
func TestPoolsOfLibrariesPrintIntoTheRunningJob(t *testing.T) {
	t.Parallel()
	for library, c := range map[string]struct{ before, call, after string }{
		"joblib": {"pool = joblib.Parallel(2)", "pool([joblib.delayed(tell.tell)(%s)])", "joblib.externals.loky.get_reusable_executor().shutdown()"},
		"loky":   {"pool = loky.get_reusable_executor(1)", "pool.submit(tell.tell, %s).result()", "pool.shutdown()"},
	} {
		t.Run(library, func(t *testing.T) {
			python := realPython(t)
			needtest.Module(t, python, library)
			t.Parallel()
			b := newBenchOn(t, python, t.TempDir())
			b.tells("import "+library+", tell\n"+c.before, c.call)
			b.want(c.after, "completed")
		})
	}
}

// A callback runs in a thread that manages the pool, and prints for the job that uses the pool then.
func TestCallbacksOfPoolsPrintIntoTheRunningJob(t *testing.T) {
	inFull(t)
	t.Parallel()
	for name, c := range map[string]struct{ before, call string }{
		"pool":     {"pool = multiprocessing.Pool(1)", "pool.apply_async(int, callback=lambda _: print('called back')).get()"},
		"executor": {"pool = concurrent.futures.ProcessPoolExecutor(1)", "f = pool.submit(int); f.add_done_callback(lambda _: (print('called back'), done.set())); done.wait()"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.want("import concurrent.futures, multiprocessing, threading\ndone = threading.Event()\n"+c.before+"\n"+c.call, "completed")
			j := b.start("done.clear(); " + c.call)
			jobstest.End(t, j)
			if got := jobstest.Stream(j, output.Stdout); got != "called back\n" {
				t.Errorf("the job that uses the pool printed %q", got)
			}
			b.want("pool.terminate() if hasattr(pool, 'terminate') else pool.shutdown()", "completed")
		})
	}
}

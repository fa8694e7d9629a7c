package pyrepl_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/pythontest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

func TestMain(m *testing.M) {
	os.Unsetenv("PYTHONUNBUFFERED") // a test looks at what a session makes of it
	os.Exit(processtest.Main(m))
}

// python returns the interpreter under test: the one that PYREPL_TEST_PYTHON names, else an
// environment of python3 without packages.
func python(t testing.TB) string {
	t.Helper()
	if os.Getenv("PYREPL_TEST_PYTHON") == "" {
		return pythontest.Bare(t, pythontest.Real(t))
	}
	return realPython(t)
}

// realPython returns the interpreter that PYREPL_TEST_PYTHON names, else python3, with what is
// installed there.
func realPython(t testing.TB) string {
	t.Helper()
	if os.Getenv("PYREPL_TEST_PYTHON") == "" {
		return pythontest.Real(t)
	}
	path, err := pastShim()
	if err != nil {
		t.Fatalf("finding Python: %v", err)
	}
	return path
}

// pastShim asks once: a shim takes longer than a session.
var pastShim = sync.OnceValues(func() (string, error) {
	out, err := exec.Command(os.Getenv("PYREPL_TEST_PYTHON"), "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

// A bench is a session on a real worker, with a registry of its own.
type bench struct {
	t   testing.TB
	r   *jobs.Registry
	s   *pyrepl.Session
	cfg pyrepl.Config // of s
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return newBenchIn(t, t.TempDir())
}

// newBenchIn starts the workers in dir.
func newBenchIn(t testing.TB, dir string, env ...string) *bench {
	t.Helper()
	return newBenchOn(t, python(t), dir, env...)
}

// newBenchOn runs the workers on the interpreter at path.
func newBenchOn(t testing.TB, path, dir string, env ...string) *bench {
	t.Helper()
	b := &bench{t: t}
	owner := processtest.Owner(t) // ended last
	b.cfg = pyrepl.Config{
		PythonSetting: "REPL_PYTHON", DirSetting: "REPL_WORKDIR", MemorySetting: "REPL_MEMORY_MB",
		Owner:  owner,
		Python: func(context.Context) (string, error) { return path, nil },
		Env:    func() []string { return (&exec.Cmd{Env: append(os.Environ(), env...)}).Environ() }, // the last value counts
		Dir:    dir,
	}
	b.reconfigured()
	b.r = jobstest.Registry(t)
	return b
}

// reconfigured gives the bench a new session with its configuration.
func (b *bench) reconfigured() {
	b.s = pyrepl.NewSession("default", b.cfg)
	b.t.Cleanup(b.s.Close)
}

// start starts a job without waiting for it.
func (b *bench) start(code string) *jobs.Job {
	b.t.Helper()
	return jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Python, Session: b.s.Name(), Title: "test"}, b.s.Exec(code))
}

// startUntil starts a job and waits until it has printed text.
func (b *bench) startUntil(code, text string) *jobs.Job {
	b.t.Helper()
	j := b.start(code)
	jobstest.Prints(b.t, j, text)
	return j
}

// interrupt interrupts a job, which ends by that and keeps the variables.
func (b *bench) interrupt(j *jobs.Job) jobs.Record {
	b.t.Helper()
	j.Stop(stop(jobs.Interrupt))
	return jobstest.EndsAs(b.t, j, interrupted)
}

// interrupted is the status of a job that an interrupt has ended.
const interrupted = "cancelled (interrupted; variables kept)"

// answer runs code that asks, answers it with a line and compares the result.
func (b *bench) answer(code, prompt, line, result string) {
	b.t.Helper()
	j := b.start(code)
	if q := jobstest.Asks(b.t, j); q.Prompt != prompt {
		b.t.Errorf("%q: prompt %.100q of %d characters, want %.100q", code, q.Prompt, len(q.Prompt), prompt)
	}
	jobstest.Send(b.t, j, jobs.Input{Text: line, Line: true})
	if record := jobstest.End(b.t, j); record.Result != result {
		b.t.Errorf("%q: the answer is %s, want %s; %s", code, record.Result, result, record.Receipt.Text())
	}
}

// run runs code to its end.
func (b *bench) run(code string) (jobs.Record, string) {
	b.t.Helper()
	j := b.start(code)
	record := jobstest.End(b.t, j)
	return record, jobstest.Output(j)
}

// want runs code and compares the status text.
func (b *bench) want(code, status string) (jobs.Record, string) {
	b.t.Helper()
	record, out := b.run(code)
	if got := record.Receipt.Text(); got != status {
		b.t.Errorf("%q: status %q, want %q; output %q", code, got, status, out)
	}
	return record, out
}

// result runs code and compares the repr of its last expression.
func (b *bench) result(code, want string) {
	b.t.Helper()
	record, out := b.run(code)
	if record.Result != want {
		b.t.Errorf("%q: result %q, want %q; %s, output %q", code, record.Result, want, record.Receipt.Text(), out)
	}
}

// write writes a file with a text into dir.
func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func stop(from jobs.Rung) jobs.Stop { return jobs.Stop{By: jobs.Agent, From: from} }

// inShort skips a case of a table in a short run, unless it is one of the chosen.
func inShort(t *testing.T, name string, chosen ...string) {
	t.Helper()
	if testing.Short() && !slices.Contains(chosen, name) {
		t.Skip("a session of its own for each case: a short run has some")
	}
}

// inFull skips a test of a rare promise in a short run. It starts workers of its own, and the gate
// runs it in full.
func inFull(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("workers of its own for a rare promise: a full run has it")
	}
}

package pyrepl_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestEnds(t *testing.T) {
	const sure = `import os, signal, sys, ctypes; kept = 1`
	tests := map[string]struct {
		code, status string
		lost         bool
		output       string
	}{
		"return":              {code: `print("hi")`, status: "completed", output: "hi\n"},
		"exception":           {code: `raise ValueError("bad literal")`, status: "failed (ValueError: bad literal)", output: "ValueError: bad literal"},
		"syntax":              {code: `def f(:`, status: "failed (SyntaxError: invalid syntax)", output: "def f(:"},
		"sys.exit":            {code: `sys.exit()`, status: "completed (exit 0; variables kept)"},
		"sys.exit n":          {code: `sys.exit(3)`, status: "failed (exit 3; variables kept)"},
		"exit()":              {code: `exit()`, status: "completed (exit 0; variables kept)"},
		"exit text":           {code: `sys.exit("no disk")`, status: "failed (exit 1; variables kept)", output: "no disk"},
		"own interrupt":       {code: `raise KeyboardInterrupt`, status: "failed (KeyboardInterrupt)"},
		"memory":              {code: `bytearray(1 << 60)`, status: "failed (out of memory; variables kept)"},
		"os._exit":            {code: `print("last words", flush=False); os._exit(7)`, status: "failed (process exited 7; variables lost)", lost: true, output: "last words\n"},
		"os._exit 0":          {code: `os._exit(0)`, status: "failed (process exited 0; variables lost)", lost: true},
		"segv":                {code: `ctypes.string_at(0)`, status: "failed (killed by SIGSEGV; variables lost)", lost: true, output: "Segmentation fault"},
		"abort":               {code: `os.abort()`, status: "failed (killed by SIGABRT; variables lost)", lost: true, output: "Aborted"},
		"kill":                {code: `print("x"); os.kill(os.getpid(), signal.SIGKILL)`, status: "failed (killed by SIGKILL; variables lost)", lost: true, output: "x\n"},
		"stack overflow":      {code: "import faulthandler; faulthandler._stack_overflow()", status: "failed (killed by SIGSEGV; variables lost)", lost: true},
		"fork, then die":      {code: "if os.fork() == 0:\n    import time; time.sleep(300)\nos._exit(7)", status: "failed (process exited 7; variables lost)", lost: true},
		"no descriptors left": {code: "os.closerange(0, 65536)", status: "failed (killed by SIGKILL; variables lost)", lost: true},
		"no descriptors":      {code: "os.closerange(0, 65536)\nimport time\nwhile True: time.sleep(1)", status: "failed (killed by SIGKILL; variables lost)", lost: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "return", "exception", "sys.exit n", "memory", "os._exit", "kill", "no descriptors")
			t.Parallel()
			b := newBench(t)
			b.want(sure, "completed")
			record, out := b.want(test.code, test.status)
			if !strings.Contains(out, test.output) {
				t.Errorf("output is %q, without %q", out, test.output)
			}
			if strings.Contains(out, "worker") {
				t.Errorf("output shows internals: %q", out)
			}
			if told := strings.Contains(strings.Join(record.Receipt.Notes, ";"), "closed the session's channel"); told != strings.HasPrefix(name, "no descriptors") {
				t.Errorf("the notes are %q", record.Receipt.Notes)
			}
			wantState := jobs.Kept
			if test.lost {
				wantState = jobs.Lost
			}
			if record.Receipt.State != wantState {
				t.Errorf("state is %q, want %q", record.Receipt.State, wantState)
			}
			next, _ := b.run(`"kept" in globals()`)
			if want := map[bool]string{true: "False", false: "True"}[test.lost]; next.Result != want {
				t.Errorf("afterwards, kept in globals() is %q, want %s (%s)", next.Result, want, next.Receipt.Text())
			}
			if told := strings.Contains(strings.Join(next.Receipt.Notes, "; "), "variables were lost"); told != test.lost {
				t.Errorf("the next job's notes are %q", next.Receipt.Notes)
			}
		})
	}
}

// kill ends one process. Of a job without a worker the number is 0, which would be our own group.
func kill(t *testing.T, pid int) {
	t.Helper()
	if pid <= 0 {
		t.Fatalf("there is no process %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestQueueIsNotRunAfterLoss(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("import os")
	first := b.start("input(); os._exit(1)")
	jobstest.Asks(t, first)
	second, third := b.start("print('ran')"), b.start("print('ran')")
	jobstest.Send(t, first, jobs.Input{Text: "", Line: true})
	jobstest.End(t, first)
	for _, j := range []*jobs.Job{second, third} {
		jobstest.EndsAs(t, j, "failed (not run: variables were lost in job "+first.ID()+")")
		if out := jobstest.Output(j); out != "" {
			t.Errorf("it ran: %q", out)
		}
	}
}

func TestQueueRunsInOrderAfterException(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.start("seen = []; input(); raise ValueError")
	jobstest.Asks(t, first)
	var later []*jobs.Job
	for range 20 {
		later = append(later, b.start("seen.append(len(seen)); seen[-1]"))
	}
	jobstest.Send(t, first, jobs.Input{Line: true})
	for _, j := range later {
		jobstest.EndsAs(t, j, "completed")
	}
	b.result("seen == list(range(20))", "True")
}

// A timeout keeps the variables. The history has the same status, also if the code answers the
// timeout with an end of its own.
func TestTimeoutKeepsVariables(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("x = 1; import time")
	for code, want := range map[string]string{
		"time.sleep(300)":                      "failed (timed out after 200ms; variables kept)",
		"try: time.sleep(300)\nfinally: 1 / 0": "failed (ZeroDivisionError: division by zero after a timeout of 200ms)",
	} {
		j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Python, Timeout: 200 * time.Millisecond}, b.s.Exec(code))
		jobstest.EndsAs(t, j, want)
		if all := b.s.History().Entries; all[len(all)-1].Receipt.Text() != want {
			t.Errorf("the history says %q, want %q", all[len(all)-1].Receipt.Text(), want)
		}
	}
	b.result("x", "1")
}

func TestExceptHookOfTheUser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("import sys\nsys.excepthook = lambda kind, error, tb: print('mine:', error)")
	if _, out := b.want("1 / 0", "failed (ZeroDivisionError: division by zero)"); out != "mine: division by zero\n" {
		t.Errorf("output %q", out)
	}
}

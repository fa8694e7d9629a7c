package shell_test

import (
	"syscall"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A command that exits 0 after a signal has ended because of it, unless something else came between:
// input, or a question of the command.
func TestExitAfterASignal(t *testing.T) {
	t.Parallel()
	const loop = "; echo on; until test $over; do :; done"
	// bash 5.2 can send itself an interrupt that meets its read again and again. Python can begin a
	// read just after an interrupt has come, so it waits for input in short steps.
	const reads = `exec python3 -I -S -c 'import os, select, signal
signal.signal(2, lambda *_: os.write(1, b"caught"))
os.write(1, b"on")
while not select.select([0], [], [], 0.01)[0]: pass'`
	for name, c := range map[string]struct {
		line   string
		piped  bool
		send   []jobs.Input
		status string
		by     jobs.By
	}{
		"ctrl-c":                  {"trap over=1 INT" + loop, false, []jobs.Input{press("ctrl-c")}, "completed (exit 0 after an interrupt)", jobs.Agent},
		"interrupt":               {"trap over=1 INT" + loop, false, []jobs.Input{{Signal: "SIGINT"}}, "completed (exit 0 after an interrupt)", jobs.Agent},
		"a person's ctrl-c":       {"trap over=1 INT" + loop, false, []jobs.Input{{By: jobs.Person, Keys: press("ctrl-c").Keys}}, "completed (exit 0 after an interrupt)", jobs.Person},
		"a person's signal":       {"exec sleep 1000 & echo on; wait", true, []jobs.Input{{By: jobs.Person, Signal: "SIGKILL"}}, "failed (killed by SIGKILL)", jobs.Person},
		"on pipes":                {"trap over=1 INT" + loop, true, []jobs.Input{{Signal: "SIGINT"}}, "completed (exit 0 after an interrupt)", jobs.Agent},
		"termination":             {"trap over=1 TERM" + loop, false, []jobs.Input{{Signal: "SIGTERM"}}, "completed (exit 0 after a termination)", jobs.Agent},
		"twice":                   {"trap 'over=$n; n=1; echo caught' INT" + loop, false, []jobs.Input{press("ctrl-c"), press("ctrl-c")}, "completed (exit 0 after an interrupt)", jobs.Agent},
		"ignored":                 {"trap '' INT; echo on; sleep 0.2", false, []jobs.Input{press("ctrl-c")}, "completed", jobs.Program},
		"reload":                  {"trap over=1 HUP" + loop, false, []jobs.Input{{Signal: "SIGHUP"}}, "completed", jobs.Program},
		"no request":              {"trap over=1 USR1" + loop, false, []jobs.Input{{Signal: "SIGUSR1"}}, "completed", jobs.Program},
		"another end":             {"trap 'exit 3' INT" + loop, false, []jobs.Input{press("ctrl-c")}, "failed (exit 3)", jobs.Program},
		"text after it":           {reads, false, []jobs.Input{press("ctrl-c"), {Text: "x\n"}}, "completed", jobs.Program},
		"text after it, on pipes": {reads, true, []jobs.Input{{Signal: "SIGINT"}, {Text: "x\n"}}, "completed", jobs.Program},
		"another signal after it": {"trap 'echo caught' INT; trap over=1 USR1" + loop, false, []jobs.Input{press("ctrl-c"), {Signal: "SIGUSR1"}}, "completed", jobs.Program},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			start := b.start
			if c.piped {
				start = b.startPiped
			}
			j := start(c.line)
			jobstest.Prints(t, j, "on")
			for i, in := range c.send {
				if i == 1 {
					jobstest.Prints(t, j, "caught")
				}
				jobstest.Send(t, j, in)
			}
			if r := jobstest.End(t, j).Receipt; r.Text() != c.status || r.By != c.by {
				t.Errorf("%s, ended by %s, want %s, by %s", r.Text(), r.By, c.status, c.by)
			}
		})
	}
}

// A command that has asked after the signal did not end because of it.
func TestExitAfterASignalAndAQuestion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start("trap over=1 INT; trap 'exit 0' USR1; echo on; until test $over; do :; done; read x")
	jobstest.Prints(t, j, "on")
	jobstest.Send(t, j, jobs.Input{Signal: "SIGINT"})
	jobstest.Asks(t, j)
	if err := syscall.Kill(j.Record().PID, syscall.SIGUSR1); err != nil { // not by us, as far as the job knows
		t.Fatal(err)
	}
	if r := jobstest.End(t, j).Receipt; r.Text() != "completed" || r.By != jobs.Program {
		t.Errorf("%s, ended by %s", r.Text(), r.By)
	}
}

package pyrepl_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// spare is the stop of a cancel without force. Its ladder climbs after a millisecond, if it climbs.
var spare = jobs.Stop{By: jobs.Agent, From: jobs.Interrupt, Step: time.Millisecond, Spare: true}

// age is how long ago something was, as a hold says it.
var age = regexp.MustCompile(`[0-9ms]+s ago`)

// holds waits until a job says that it has not ended for a reason that begins with why, in which "T
// ago" stands for any age.
func holds(t *testing.T, j *jobs.Job, why string) (h jobs.Hold) {
	t.Helper()
	polltest.Check(t, func() error {
		record := j.Record()
		if record.Status.Final() {
			t.Fatalf("the job has ended: %s; output %q", record.Receipt.Text(), jobstest.Output(j))
		}
		hold, ok := j.Live().Hold, false // nil: the session has only begun to follow the job
		if hold != nil {
			h, ok = hold()
		}
		if !ok || !strings.HasPrefix(age.ReplaceAllString(h.Why, "T ago"), why) {
			return fmt.Errorf("it holds because of %+v; want %q", h, why)
		}
		return nil
	})
	return h
}

// uninterruptible is code that runs in C until there is a file.
func uninterruptible(file string) string {
	return "print('on', flush=True)\nsum(\n    iter(functools.partial(os.access, '" + file + "', os.F_OK), True))"
}

// A stop that spares the variables waits for code that can't take the interrupt, and says for what.
// That code is interrupted as soon as it can be.
func TestStopSparesVariables(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	record, _ := b.run("import functools, os, sys\nkept = 1\nsys.version_info >= (3, 11)")
	why := "waiting for C code to return, line 2 in <module>"
	if record.Result == "True" {
		why = "waiting for sum to return"
	}
	if pystack.Available() != nil {
		why = ""
	}
	for by, status := range map[jobs.By]string{
		jobs.Agent: "cancelled (interrupted; variables kept)",
		jobs.Limit: "failed (timed out after 1h; variables kept)",
	} {
		file := filepath.Join(b.cfg.Dir, string(by))
		j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Python, Session: b.s.Name(), Title: "test", Timeout: time.Hour}, b.s.Exec(uninterruptible(file)))
		jobstest.Prints(t, j, "on")
		computes(t, j)
		st := spare
		st.By = by
		j.Stop(st)
		if h := holds(t, j, why); h.Variables != 4 || h.Reached {
			t.Errorf("the hold is %+v", h)
		}
		write(t, b.cfg.Dir, string(by), "")
		if record := jobstest.EndsAs(t, j, status); len(record.Receipt.Rungs) != 1 || j.Live().Hold != nil {
			t.Errorf("rungs %v", record.Receipt.Rungs)
		}
	}
	b.result("kept", "1")
}

// A variable counts also if no list shows it because its name begins with an underscore. What a job
// has shown does not, nor what Python adds.
func TestStopSparesHiddenVariables(t *testing.T) {
	inFull(t)
	t.Parallel()
	for before, want := range map[string]int{"_kept = 1": 1, "_kept = 1\nother = 2": 2, "'shown'\n": 0, "if False: x: int = 1": 0} {
		b := newBench(t)
		b.run(before)
		b.run("1 / 0")
		j := b.startUntil("print('on', flush=True)\nsum(iter(int, 1))", "on")
		computes(t, j)
		j.Stop(spare)
		if want > 0 {
			if h := holds(t, j, ""); h.Variables != want {
				t.Errorf("%s: the hold is %+v", before, h)
			}
			j.Stop(stop(jobs.Kill))
		}
		if record := jobstest.End(t, j); record.Receipt.State != jobs.Lost {
			t.Errorf("%s: %s", before, record.Receipt.Text())
		}
	}
}

// Code that catches its interrupt and continues keeps the variables, too, gets another interrupt if
// the client asks again, and is killed by force.
func TestStopSparesVariablesOfCodeThatCatchesIt(t *testing.T) {
	inFull(t)
	t.Parallel()
	for name, c := range map[string]struct{ code, why, again string }{
		"caught": {
			code: "while True:\n    try:\n        print('on', flush=True); time.sleep(300)\n    except KeyboardInterrupt: print('caught')",
			why:  "KeyboardInterrupt was raised T ago", again: "KeyboardInterrupt was raised 2 times, last T ago",
		},
		"own handler": {
			code: "signal.signal(signal.SIGINT, lambda *_: os.write(1, b'caught'))\nwhile True: print('on', flush=True); signal.pause()",
			why:  "the code handles SIGINT itself", again: "the code handles SIGINT itself",
		},
		"child": {
			code: "signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: os.system('echo on; exec sleep 300'); print('caught')",
			why:  "the code handles SIGINT itself", again: "the code handles SIGINT itself",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.run("import os, signal, time\nkept = 1")
			j := b.start(c.code)
			next := b.start("kept")
			jobstest.Prints(t, j, "on")
			j.Stop(spare)
			if h := holds(t, j, c.why); h.Variables != 4 || !h.Reached {
				t.Errorf("the hold is %+v", h)
			}
			count := func(word string) int { return strings.Count(jobstest.Output(j), word) }
			polltest.Until(t, "the code to continue", func() bool { return count("caught") == 1 && count("on") >= 2 })
			j.Stop(spare)
			polltest.Until(t, "another interrupt", func() bool { return count("caught") == 2 })
			holds(t, j, c.again)
			j.Stop(stop(jobs.Kill))
			if record := jobstest.EndsAs(t, j, "cancelled (killed; variables lost)"); record.Receipt.By != jobs.Agent {
				t.Errorf("ended by %s", record.Receipt.By)
			}
			if record := jobstest.End(t, next); record.Status != jobs.Failed {
				t.Errorf("the job queued behind it: %s", record.Receipt.Text())
			}
		})
	}
}

// Without variables before the job there is nothing to spare, and the operator's limit spares nothing.
func TestStopThatSparesNothing(t *testing.T) {
	inFull(t)
	t.Parallel()
	for name, c := range map[string]struct {
		before, status string
		stop           jobs.Stop
	}{
		"no variables":           {"pass", "cancelled (", spare},
		"a limit after a cancel": {"kept = 1", "failed (timed out after 1h; variables lost)", jobs.Stop{By: jobs.Limit}},
		"force after a cancel":   {"kept = 1", "cancelled (killed; variables lost)", stop(jobs.Kill)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.run(c.before)
			j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Python, Session: b.s.Name(), Title: "test", Timeout: time.Hour},
				b.s.Exec("print('on', flush=True)\nsum(iter(int, 1))"))
			jobstest.Prints(t, j, "on")
			computes(t, j)
			j.Stop(spare)
			j.Stop(c.stop)
			if record := jobstest.End(t, j); !strings.HasPrefix(record.Receipt.Text(), c.status) || record.Receipt.State != jobs.Lost || record.Receipt.By != c.stop.By {
				t.Errorf("%s by %s, want %s", record.Receipt.Text(), record.Receipt.By, c.status)
			}
		})
	}
}

//go:build unix

package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/process"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// confined returns the setup of an engine in a sandbox that has no seals.
func confined(t testing.TB) setup {
	t.Helper()
	c := config(t)
	c.Sandbox = &engine.Confinement{Summary: "workspace; network none", Removed: []string{"AWS_SECRET_ACCESS_KEY", "GH_TOKEN"}}
	return c
}

// denied returns what a process named sleep was denied.
func denied(target string, pid, times int) jobs.Denied {
	return jobs.Denied{First: []jobs.Denial{{Target: target, Process: jobs.Process{PID: pid, Program: "sleep"}, Times: times}}}
}

// A denial is in the record of the job that the process belongs to, however it was started, and a later
// engine reads it there.
func TestDenialBelongsToItsJob(t *testing.T) {
	t.Parallel()
	c := confined(t)
	b := newBench(t, c)
	sc := b.Scope()
	const target, times = "CONNECT evil.example:443", 10
	want := map[*jobs.Job]int{ // the pid of its process
		b.shell(sc, engine.Command{Line: `sleep 1000 & echo "pid $!."; wait`}):                                                          0,
		b.shell(sc, engine.Command{Line: `(setsid sleep 1000 & echo "pid $!."); read x`, TTY: true}):                                    0,
		b.in(sc, "build", `sh -c 'sh -c "echo pid \$\$.; exec sleep 1000"; true'`):                                                      0,
		b.python(sc, "lab", "import subprocess\np = subprocess.Popen(['sleep', '1000'])\nprint(f'pid {p.pid}.', flush=True)\np.wait()"): 0,
		b.python(sc, "other", "import os, time\nprint('pid 0.', flush=True)\ntime.sleep(1000)"):                                         0,
	}
	for j := range want {
		pid := pids(t, j, 1)[0]
		if want[j] = pid; pid == 0 {
			continue
		}
		named(t, pid, "sleep")
		for range times {
			b.Deny(pid, target)
		}
	}
	for j, pid := range want {
		of := jobs.Denied{}
		if pid != 0 {
			of = denied(target, pid, times)
		}
		if d := cmp.Diff(of, j.Record().Denied); d != "" {
			t.Errorf("%s: %s", j.Record().Title, d)
		}
	}
	if got := b.Status(sc).Denied; got.First != nil {
		t.Errorf("the status has %+v", got)
	}
	b.Close()
	next := newBench(t, c)
	for j, pid := range want {
		past := must.Get(next.Jobs().Get(j.ID()))(t)
		if d := cmp.Diff(j.Record().Denied, past.Record().Denied); d != "" || !past.Past() || pid != 0 && past.Record().Denied.First == nil {
			t.Errorf("a later engine: %+v", past.Record())
		}
	}
}

// denies is a runner whose process is denied something before the job names it.
type denies struct{ *bench }

func (d denies) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	h := must.Get(d.Owner().Start(process.Spec{Argv: []string{"sleep", "1000"}, Env: os.Environ(), Dir: "/", Mark: p.ID()}))(d.t)
	d.Deny(h.PID(), "CONNECT early.example:443")
	h.Stop(process.Ladder{From: jobs.Kill})
	p.Begin()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}

// A command can be faster than the news that it has started.
func TestDenialBeforeAJobRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, confined(t))
	record := jobstest.End(t, jobstest.Start(t, b.Jobs(), jobs.Spec{Kind: jobs.Shell}, denies{b}))
	if d := record.Denied; len(d.First) != 1 || d.First[0].Target != "CONNECT early.example:443" {
		t.Errorf("the job has %+v", d)
	}
}

// named waits until a process runs a program.
func named(t testing.TB, pid int, program string) {
	t.Helper()
	polltest.Check(t, func() error {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.TrimSpace(string(name)) != program {
			err = fmt.Errorf("process %d runs %s", pid, name)
		}
		return err
	})
}

// What belongs to no job that runs is in the status: a process that an ended job has left, one of an idle
// session, one that no job has started, and one that is unknown. The log is as bounded as the status.
func TestDenialOfNoRunningJob(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := confined(t)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	b := newBench(t, c)
	sc := b.Scope()
	left := b.shell(sc, engine.Command{Line: `setsid sleep 1000 >/dev/null 2>&1 & echo "pid $!."`})
	idle := b.python(sc, "lab", "import subprocess\np = subprocess.Popen(['sleep', '1000'])\nprint(f'pid {p.pid}.')")
	running := b.python(sc, "other", "import time\ntime.sleep(1000)")
	var first []jobs.Denial
	for i, j := range []*jobs.Job{left, idle} {
		jobstest.End(t, j)
		pid, target := pids(t, j, 1)[0], fmt.Sprintf("CONNECT h%d:443", i)
		named(t, pid, "sleep")
		b.Deny(pid, target)
		first = append(first, denied(target, pid, 1).First...)
	}
	hostile := "CONNECT \x1b[31m\n" + strings.Repeat("x", 1000)
	b.Deny(0, hostile)
	for range 100 {
		b.Deny(os.Getppid(), hostile)
	}
	first = append(first, jobs.Denial{Target: `CONNECT \x1b[31m\n` + strings.Repeat("x", 80) + "…", Times: 1})
	got := b.Status(sc).Denied
	if len(got.First) == 3 {
		first[2].Target = got.First[2].Target // its length is checked below
	}
	if d := cmp.Diff(jobs.Denied{First: first, More: 100}, got); d != "" {
		t.Error(d)
	}
	if target := got.First[2].Target; len([]rune(target)) != 100 || strings.ContainsAny(target, "\n\x1b") || !strings.HasPrefix(target, "CONNECT ") {
		t.Errorf("the target %q", target)
	}
	for _, j := range []*jobs.Job{left, idle, running} {
		if d := j.Record().Denied; d.First != nil {
			t.Errorf("%s has %+v", j.Record().Title, d)
		}
	}
	if n := strings.Count(log.String(), "refused a connection"); n != 3 {
		t.Errorf("%d lines in the log: %s", n, log.String())
	}
}

func TestStatusOfASandbox(t *testing.T) {
	t.Parallel()
	const lack = "in a sandbox memory is limited for each process only, not for all processes of a session together"
	c := confined(t)
	plain, in := newBench(t, config(t)), newBench(t, c)
	c.MemoryMB = 512
	limited := newBench(t, c)
	for b, want := range map[*bench]struct{ confined, limited bool }{plain: {}, in: {confined: true}, limited: {true, true}} {
		st := b.Status(b.Scope())
		if (st.Sandbox == "workspace; network none") != want.confined || slices.Contains(st.Lacks, lack) != want.confined || (len(st.Removed) == 2) != want.confined {
			t.Errorf("%+v: sandbox %q, removed %q, lacks %q", want, st.Sandbox, st.Removed, st.Lacks)
		}
		if got := slices.Contains(st.Works, "a memory limit of 512 MB for each process of a session, not for all together"); got != want.limited {
			t.Errorf("%+v: works %q", want, st.Works)
		}
		if st.Unprotected != nil || b.Unprotected() != nil || b.Sandbox() != st.Sandbox {
			t.Errorf("%+v: unprotected %q and %q, sandbox %q", want, st.Unprotected, b.Unprotected(), b.Sandbox())
		}
	}
}

// The identity of an engine is a hash of its Config as JSON. A sandbox must not change it: its seals differ from
// start to start, and clients would not find the engine that they left.
func TestSandboxIsNoSetting(t *testing.T) {
	c := engine.Config{Workspace: "/srv/app"}
	plain := must.Get(json.Marshal(c))(t)
	c.Sandbox = &engine.Confinement{Summary: "workspace"}
	if got := must.Get(json.Marshal(c))(t); !bytes.Equal(got, plain) || bytes.Contains(got, []byte("Sandbox")) {
		t.Errorf("the config is %s, and %s without a sandbox", got, plain)
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/slurmtest"
	"asyncrepl/jobs"
)

// pidOf starts a job that prints its pid and a dot, and returns the pid.
func (l *life) pidOf(t *testing.T, j *joined, id, tool string, args map[string]any, keep bool) (pid int) {
	t.Helper()
	r, _ := j.start(t, id, tool, args, keep)
	l.read(r, func() bool { return strings.Contains(l.output.String(), ".") })
	must.Get(fmt.Sscanf(l.output.String(), "%d.", &pid))(t)
	return pid
}

// A trim ends what is not kept, and no more: the engine serves its server as before, with the variables of a session
// that is kept, although a job that is not kept ran in it.
func TestTrimOfAFarEngine(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	m.settings.NoHistory = true
	j := m.dial()
	engine := m.engine()
	python := func(session, code string) map[string]any { return map[string]any{"session": session, "code": code} }
	const saysPID = "import os, time\nx = 7\nprint(f'{os.getpid()}.', flush=True)\n"
	var kept, not life
	keptID, notID := ulid.Make().String(), ulid.Make().String()
	keptPID := kept.pidOf(t, j, keptID, "execute_python", python("kept", saysPID), true)
	notPID := not.pidOf(t, j, notID, "execute_python", python("not", saysPID), false)
	var inKept life
	inKept.pidOf(t, j, ulid.Make().String(), "execute_python", python("kept", saysPID+"time.sleep(1000)"), false)
	var shell life
	sleeps := shell.pidOf(t, j, ulid.Make().String(), "execute_command_async", map[string]any{"command": "echo $$.; exec sleep 1000"}, false)
	must.Do(t, j.client(t).Trim(t.Context(), jobs.ClientGone))
	processtest.Gone(t, notPID)
	processtest.Gone(t, sleeps)
	if !alive(keptPID) || !alive(engine) {
		t.Error("what is kept has ended")
	}
	polltest.Check(t, func() error {
		if state, err := j.client(t).State(t.Context()); err != nil || strings.Join(state.Names, " ") != "kept" || state.Jobs > 0 {
			return fmt.Errorf("the state is %+v, %v", state, err)
		}
		return nil
	})
	if l := j.whole(t, "execute_python", python("kept", "x * 6")); l.record.Result != "42" {
		t.Errorf("the kept variable: %+v", l.record)
	}
	again := m.dial("-start", j.Start)
	if l := again.whole(t, "execute_python", python("not", "1 + 1")); l.record.Result != "2" {
		t.Errorf("a new job: %+v", l.record)
	}
	must.Do(t, syscall.Kill(engine, syscall.SIGTERM))
	m.leavesNothing(engine)
}

// When a client quits, its engine stays for a kept job at a place. All else there ends at once, and the next client
// finds the kept job, and starts others.
func TestGoodbyeWithAKeptJobAtAPlace(t *testing.T) {
	t.Parallel()
	far := newFarMachine(t)
	work := t.TempDir()
	s := startFront(t, "REPL_PLACES="+far.write(map[string]spec{"far": {
		"exec": []string{"/usr/bin/env", "HOME=" + far.home, "TMPDIR=" + far.tmp}, "workspace": work, "python": realPython(),
	}}))
	gate := filepath.Join(work, "gate")
	must.Do(t, syscall.Mkfifo(gate, 0o600))
	kept := s.do("execute_command_async", "on", "far", "command", "cat gate", "keep", true, "wait_seconds", 0).Header("Job ID")
	var pid int
	r := s.do("execute_python", "on", "far", "session", "lab", "code", "import os\nprint(os.getpid(), 'is it')", "wait_seconds", 60)
	must.Get(fmt.Sscanf(r.Section("STDOUT"), "%d is it", &pid))(t)
	s.do("execute_python", "on", "far", "session", "own", "code", "x = 7", "keep", true, "wait_seconds", 60)
	cut := s.do("execute_python", "session", "own", "code", "import time\ntime.sleep(1000)", "wait_seconds", 0).Header("Job ID")
	engine := far.engine()
	s.stdin.Close()
	s.exit()
	processtest.Gone(t, pid) // long before REPL_LINGER and the place's linger
	if !alive(engine) {
		t.Error("the engine there has ended")
	}
	n := s.next()
	if r := n.do("check_job_status", "job_id", kept); r.Header("Status") != "running" {
		t.Errorf("the kept job: %s", r)
	}
	if r := n.end(cut); !strings.HasPrefix(r.Header("Status"), "cancelled") {
		t.Errorf("the job in the kept session: %s", r)
	}
	if err := n.do("execute_python", "session", "own", "code", "x * 6", "wait_seconds", 60).Expect("completed", "42"); err != nil {
		t.Error(err)
	}
	if err := n.do("execute_python", "on", "far", "session", "lab", "code", "6 * 7", "wait_seconds", 60).Expect("completed", "42"); err != nil {
		t.Error(err)
	}
	must.Do(t, os.WriteFile(gate, []byte("through the gate\n"), 0))
	if err := n.end(kept).Expect("completed", "through the gate"); err != nil {
		t.Error(err)
	}
	n.do("delete_session", "session", "own")
	n.stdin.Close()
	n.exit()
	far.leavesNothing(engine)
}

// If the file of places can't be used any more when an engine starts, the call says that, and no setting of another thing.
func TestBrokenPlacesOfAnEngine(t *testing.T) {
	notApart(t, "places are refused in a sandbox")
	t.Parallel()
	s := prepareFront(t)
	file := filepath.Join(filepath.Dir(s.setting("REPL_STATE_DIR")), "places.json")
	must.Do(t, os.WriteFile(file, []byte(`{"places": {"box": {"exec": ["true"], "workspace": "/x"}}}`), 0o600))
	s.cmd.Env = append(s.cmd.Env, "REPL_PLACES="+file)
	s.open()
	must.Do(t, os.WriteFile(file, []byte(`{"places": {"box": {}}}`), 0o600))
	_, err := s.Call(s.ctx(), "list_jobs", nil)
	if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "REPL_KEEPER") {
		t.Errorf("the call says %v", err)
	}
}

// At a place, errors about Python name the keys of the file, which a person can set.
func TestPythonThatIsMissingAtAPlace(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	m.settings.Python = "/missing/python"
	l := m.dial().whole(t, "execute_python", map[string]any{"code": "1"})
	if text := l.record.Receipt.Detail; !strings.Contains(text, "set python in the file of places to an interpreter") || strings.Contains(text, "REPL_") {
		t.Errorf("the receipt says %q", text)
	}
}

// The records of a killed engine are kept for a week, for the next engine of its key. Then any other removes them.
func TestRecordsOfKilledEnginesExpire(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	all := filepath.Join(m.home, ".local/state/async-repl/places-far")
	left := func() (names []string) {
		for _, e := range must.Get(os.ReadDir(all))(t) {
			names = append(names, e.Name())
		}
		return names
	}
	j := m.dial()
	j.whole(t, "execute_command_async", map[string]any{"command": "echo hello"})
	kill(t, m.engine())
	age := func(d time.Duration) {
		at := time.Now().Add(-d)
		must.Do(t, os.Chtimes(filepath.Join(all, keyOfTests), at, at))
	}
	age(recordsAge + time.Minute)
	first := m.dial() // the key's own
	kill(t, m.engine())
	if names := left(); !slices.Equal(names, []string{keyOfTests}) {
		t.Fatalf("after %s, its own engine has left %q", first.Start, names)
	}
	other := *m
	other.settings.Key = "another0key"
	dial := func() {
		cmd := other.command(dialCommand, "-settings", other.json(), other.settings.Key)
		cmd.Stdin = strings.NewReader("")
		must.Get(cmd.Output())(t)
	}
	const old = "removed0when0old"
	must.Do(t, os.Mkdir(filepath.Join(all, old), 0o700))
	at := time.Now().Add(-recordsAge - time.Minute)
	must.Do(t, os.Chtimes(filepath.Join(all, old), at, at))
	age(recordsAge - time.Hour)
	dial()
	polltest.Until(t, "the records of a week ago to go", func() bool { return !slices.Contains(left(), old) })
	if names := left(); !slices.Contains(names, keyOfTests) {
		t.Errorf("young records are removed: %q", names)
	}
	kill(t, m.engine())
	age(recordsAge + time.Minute)
	dial()
	polltest.Until(t, "the old records to go", func() bool { return !slices.Contains(left(), keyOfTests) })
	kill(t, m.engine())
}

// In a cluster of Slurm each allocation is shown with what holds it, the allocation of a deleted session goes back at
// once, and a goodbye gives back what holds nothing that is kept.
func TestAllocationsOfSlurmGoBack(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	cluster := slurmtest.Start(t)
	s := startFront(t, "SLURM_CONF="+cluster.Conf, "REPL_PLACES="+m.write(map[string]spec{"cluster": m.inSlurm(cluster)}))
	left := func(want ...string) {
		t.Helper()
		polltest.Check(t, func() error {
			if ids := strings.Fields(cluster.Must(t, "squeue", "--noheader", "--states=PD,R", "--format=%i")); !slices.Equal(ids, want) {
				return fmt.Errorf("allocations %q are left, not %q", ids, want)
			}
			return nil
		})
	}
	for _, session := range []string{"a", "b"} {
		if err := s.do("execute_python", "on", "cluster", "session", session, "code", "x = 7", "wait_seconds", 60).Expect("completed"); err != nil {
			t.Fatal(err)
		}
	}
	kept := s.do("execute_command_async", "on", "cluster", "command", "until [ -e go ]; do sleep 0.05; done", "keep", true, "wait_seconds", 0).Header("Job ID")
	polltest.Until(t, "the kept job to run", func() bool { return s.do("check_job_status", "job_id", kept).Header("Status") == "running" })
	status := string(s.do("list_sessions"))
	for _, want := range []string{
		`\nPlace: cluster, slurm --partition=short --time=10, connected for .*, 3 allocations, 2 sessions\n`,
		`\nAllocation: cluster, Slurm job 1, node n\d, .* left, held by 1 variable of session a\n`, `\nAllocation: cluster, Slurm job 3, node n\d, .* left, held by job ` + kept + `\n`,
		`\na, at cluster \(Slurm job 1, node n\d\), `,
	} {
		if !regexp.MustCompile(want).MatchString(status) {
			t.Errorf("no %s in\n%s", want, status)
		}
	}
	s.do("delete_session", "session", "a")
	left("2", "3")
	s.stdin.Close()
	s.exit()
	left("3")
	must.Do(t, os.WriteFile(cluster.Dir+"/work/go", nil, 0o600))
	left()
}

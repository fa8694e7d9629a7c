//go:build unix

package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// create makes a session of the scope.
func (b *bench) create(sc engine.Scope, spec engine.SessionSpec) overview.Session {
	b.t.Helper()
	st, _ := must.Get2(b.Create(b.t.Context(), sc, spec))(b.t)
	return st
}

// says runs code in a session and returns what it printed.
func (b *bench) says(sc engine.Scope, session, code string) string {
	b.t.Helper()
	j := b.python(sc, session, code)
	if record := jobstest.End(b.t, j); record.Status != jobs.Completed {
		b.t.Fatalf("%s\n%s", record.Receipt.Text(), jobstest.Output(j))
	}
	return jobstest.Output(j)
}

// A session starts in its directory, and its variables are set for its Python and what that starts.
// Shell jobs and other sessions see nothing of them.
func TestSettingsBelongToTheSession(t *testing.T) {
	inFull(t)
	t.Parallel()
	c := config(t)
	c.Env = append(c.Env, "MINE=server's")
	b := newBench(t, c)
	sc := b.Scope()
	dir := t.TempDir()
	if st := b.create(sc, engine.SessionSpec{Name: "lab", Dir: dir, Env: map[string]string{"MINE": "lab's"}}); st.Dir != dir || st.PID != 0 {
		t.Errorf("a new session: %+v", st)
	}
	const code = `import os, subprocess, sys
print(os.getcwd(), os.environ["MINE"], sys.path[0] in ("", os.getcwd()))
print(subprocess.run(["sh", "-c", "pwd; echo $MINE"], capture_output=True, text=True).stdout)`
	if got, want := b.says(sc, "lab", code), fmt.Sprintf("%s lab's True\n%[1]s\nlab's\n\n", dir); got != want {
		t.Errorf("the session with settings prints %q, want %q", got, want)
	}
	if got, want := b.says(sc, "other", code), fmt.Sprintf("%s server's True\n%[1]s\nserver's\n\n", c.Workspace); got != want {
		t.Errorf("another session prints %q, want %q", got, want)
	}
	j := b.shell(sc, engine.Command{Line: "pwd; echo $MINE"})
	jobstest.End(t, j)
	if got, want := jobstest.Output(j), c.Workspace+"\nserver's\n"; got != want {
		t.Errorf("a command prints %q, want %q", got, want)
	}
	must.Do(t, os.RemoveAll(dir))
	restart(t, b, sc, "lab")
	lost := b.python(sc, "lab", "1")
	if got := jobstest.End(t, lost).Receipt.Text(); !strings.Contains(got, dir) || !strings.Contains(got, "the cwd of a new session") {
		t.Errorf("a session without its directory: %s", got)
	}
}

// restart restarts a session's Python and waits for that.
func restart(t *testing.T, b *bench, sc engine.Scope, name string) {
	t.Helper()
	s := must.Get(b.Session(name))(t)
	wait := must.Get(s.Restart(jobs.Agent, "test"))(t)
	must.Get(wait(t.Context()))(t)
}

// What a session starts prints the address that it would open in a browser, unless the session sets
// another one.
func TestSessionsHaveNoBrowser(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Env = append(os.Environ(), "BROWSER=false")
	b := newBench(t, c)
	sc := b.Scope()
	b.create(sc, engine.SessionSpec{Name: "lab", Env: map[string]string{"BROWSER": "echo mine %s"}})
	for session, want := range map[string]string{"default": "not opened", "lab": "mine"} {
		out := b.says(sc, session, "import subprocess, sys; _ = subprocess.run([sys.executable, '-m', 'webbrowser', 'http://x/?a=1'])")
		if want += " http://x/?a=1\n"; !strings.HasPrefix(out, want) {
			t.Errorf("%s prints %q, want %q", session, out, want)
		}
	}
}

// What a session starts finds the programs of the session's Python first, even if the session sets
// PATH.
func TestSessionsThatSetPath(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Env = []string{"PATH=/usr/bin:/bin"}
	b := newBench(t, c)
	sc := b.Scope()
	b.create(sc, engine.SessionSpec{Name: "lab", Env: map[string]string{"PATH": "/nowhere:/usr/bin:/bin"}})
	got := strings.TrimSpace(b.says(sc, "lab", `import os; print(os.environ["PATH"])`))
	want := "/nowhere:/usr/bin:/bin"
	if bin := filepath.Dir(c.Python); bin != "/usr/bin" && bin != "/bin" {
		want = bin + ":" + want
	}
	if got != want {
		t.Errorf("PATH is %q, want %q", got, want)
	}
}

func TestSessionsAreListed(t *testing.T) {
	t.Parallel()
	c := config(t)
	b := newBench(t, c)
	sc := b.Scope()
	b.create(sc, engine.SessionSpec{Name: "new"})
	b.says(sc, "lab", "import threading, time\na = b = 1\nt = threading.Thread(target=time.sleep, args=(1000,), daemon=True); t.start()\nwhile time.process_time() < .1: pass")
	b.says(sc, "lab", "c = 1")
	list, limit := b.Sessions()
	if len(list) != 2 || limit != 10 || list[0].Name != "lab" || list[1].Name != "new" {
		t.Fatalf("sessions %+v, limit %d", list, limit)
	}
	lab, fresh := list[0], list[1]
	if lab.PID == 0 || lab.Memory < 1<<20 || lab.CPU == 0 || lab.Ran < 50*time.Millisecond || lab.Age < lab.Idle {
		t.Errorf("a used session: %+v", lab)
	}
	used := overview.Session{Name: "lab", PID: lab.PID, Variables: 6, Processes: 1, Threads: 2, Memory: lab.Memory, CPU: lab.CPU,
		Jobs: 2, Ran: lab.Ran, Age: lab.Age, Idle: lab.Idle, Python: c.Python, Dir: c.Workspace}
	unused := overview.Session{Name: "new", Made: true, Age: fresh.Age, Idle: fresh.Age, Python: c.Python, Dir: c.Workspace}
	if lab != used || fresh != unused {
		t.Errorf("sessions %+v, want %+v, %+v", list, used, unused)
	}
}

// A busy session is listed with its job and the queue behind it, and is not idle.
func TestBusySessionsAreListed(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	job := b.python(sc, "lab", "input()")
	jobstest.Asks(t, job)
	b.python(sc, "lab", "1")
	list, _ := b.Sessions()
	if busy := list[0]; busy.Job != job.ID() || busy.Queued != 1 || busy.Idle != 0 || busy.Jobs != 0 {
		t.Errorf("a busy session: %+v", busy)
	}
}

// A session whose idle Python has died is listed without a process and without variables.
func TestDeadSessionsAreListed(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	j := b.python(sc, "lab", "import os\nx = 1\nprint(f'pid {os.getpid()}.')")
	pid := pids(t, j, 1)[0]
	jobstest.End(t, j)
	must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
	if loss := expired(t, b, "lab"); !slices.Equal(loss.Names, []string{"os", "x"}) {
		t.Errorf("lost: %v", loss)
	}
	if list, _ := b.Sessions(); len(list) != 1 || list[0].PID != 0 || list[0].Variables != 0 || list[0].Jobs != 1 {
		t.Errorf("a session without Python: %+v", list)
	}
}

// The name of a session that exists is taken, and it is open to jobs.
func TestSessionExists(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	b.create(sc, engine.SessionSpec{Name: "lab"})
	var exists *engine.SessionExistsError
	if _, _, err := b.Create(t.Context(), sc, engine.SessionSpec{Name: "lab", Dir: "/"}); !errors.As(err, &exists) || exists.Session.Name != "lab" || exists.Session.Dir == "/" {
		t.Errorf("making it again: %v", err)
	}
	if _, created, err := b.Open(sc, "lab"); created || err != nil {
		t.Errorf("opening it: %v, %v", created, err)
	}
	if _, created, err := b.Open(sc, "another"); !created || err != nil {
		t.Errorf("opening another: %v, %v", created, err)
	}
}

// The refusal of an unknown session names those that there are.
func TestSessionIsUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	if _, _, err := b.Delete("lab", jobs.Agent, "test"); !unknown(err, "lab") {
		t.Errorf("deleting none: %v", err)
	}
	if _, err := b.Session("lab"); !unknown(err, "lab") {
		t.Errorf("before the first session: %v", err)
	}
	b.create(sc, engine.SessionSpec{Name: "lab"})
	b.create(sc, engine.SessionSpec{Name: "another"})
	if _, err := b.Session("labs"); !unknown(err, "labs", "another", "lab") {
		t.Errorf("a third: %v", err)
	}
}

// unknown reports whether err says that there is no session of a name, and that these are there.
func unknown(err error, name string, there ...string) bool {
	no, ok := errors.AsType[*engine.NoSessionError](err)
	return ok && no.Name == name && slices.Equal(no.Names, there)
}

// An install makes the session that it is for, unless it is refused.
func TestInstallMakesASession(t *testing.T) {
	t.Parallel()
	c := config(t)
	b := newBench(t, c)
	sc := b.Scope()
	if run, created, err := b.Install(sc, "lab", "--index-url=x"); err == nil {
		t.Errorf("a bad install: %v, %v", run, created)
	}
	if _, err := b.Session("lab"); err == nil {
		t.Error("a refused install has made a session")
	}
	install, created, err := b.Install(sc, "lab", "six")
	if err != nil || !created || install.Site != c.Python {
		t.Errorf("an install for a new session: %+v, %v, %v", install, created, err)
	}
}

// Delete ends the running job, the processes that it started and the worker. Queued jobs don't run,
// and the name is free at once.
func TestDeleteEndsASession(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	running := b.python(sc, "lab", `import os, subprocess, time
print(f'pid {subprocess.Popen(["sleep", "1000"]).pid}. pid {os.getpid()}.')
time.sleep(1000)`)
	queued := b.python(sc, "lab", "open('ran', 'w')")
	all := pids(t, running, 2)
	wait, _ := must.Get2(b.Delete("lab", jobs.Agent, "delete_session"))(t)
	again := b.python(sc, "lab", "print('again')")
	if end, err := wait(t.Context()); err != nil || !end.Had || end.Survivors != nil {
		t.Errorf("the end: %+v, %v", end, err)
	}
	for _, pid := range all {
		processtest.Gone(t, pid)
	}
	if record := jobstest.End(t, running); record.Status != jobs.Cancelled || !strings.Contains(record.Receipt.Text(), "delete_session") {
		t.Errorf("the running job: %s", record.Receipt.Text())
	}
	if record := jobstest.End(t, queued); record.Receipt.End != jobs.NotRun {
		t.Errorf("the queued job: %s", record.Receipt.Text())
	}
	if record := jobstest.End(t, again); record.Status != jobs.Completed || jobstest.Output(again) != "again\n" {
		t.Errorf("a job of the next session: %s", record.Receipt.Text())
	}
	if list, _ := b.Sessions(); len(list) != 1 || list[0].Jobs != 1 {
		t.Errorf("sessions: %+v", list)
	}
}

// An idle Python of a deleted session exits as Python does. One that was never started needs not.
func TestDeleteLetsPythonExit(t *testing.T) {
	t.Parallel()
	c := config(t)
	b := newBench(t, c)
	sc := b.Scope()
	b.says(sc, "lab", "import atexit; _ = atexit.register(lambda: open('exited', 'w').close())")
	b.create(sc, engine.SessionSpec{Name: "new"})
	for name, had := range map[string]bool{"lab": true, "new": false} {
		wait, _ := must.Get2(b.Delete(name, jobs.Agent, "test"))(t)
		if end, err := wait(t.Context()); err != nil || end.Had != had || end.Note != "" {
			t.Errorf("the end of %s: %+v, %v", name, end, err)
		}
	}
	if _, err := os.Stat(filepath.Join(c.Workspace, "exited")); err != nil {
		t.Error(err)
	}
}

// Sessions that were made with settings make no room for others. The refusal names the session that
// has been idle longest.
func TestTooManySessions(t *testing.T) {
	inFull(t)
	t.Parallel()
	c := config(t)
	c.MaxSessions = 2
	b := newBench(t, c)
	sc := b.Scope()
	b.create(sc, engine.SessionSpec{Name: "a"})
	b.create(sc, engine.SessionSpec{Name: "b"})
	b.says(sc, "a", "1")
	refused := func(idle string) {
		t.Helper()
		_, _, err := b.Create(t.Context(), sc, engine.SessionSpec{Name: "c"})
		var many *engine.TooManySessionsError
		if !errors.As(err, &many) || many.Open != 2 || many.Idle.Name != idle || !strings.Contains(err.Error(), "REPL_MAX_SESSIONS") {
			t.Errorf("a session too many: %v, %+v", err, many)
		}
		if _, _, err := b.Open(sc, "c"); !errors.As(err, &many) {
			t.Errorf("a session too many is opened: %v", err)
		}
	}
	refused("b")
	busy := b.python(sc, "b", "input()")
	jobstest.Asks(t, busy)
	refused("a")
	must.Get2(b.Delete("a", jobs.Agent, "test"))(t)
	refusedNot := b.create(sc, engine.SessionSpec{Name: "c"})
	if refusedNot.Name != "c" {
		t.Errorf("in the room of another: %+v", refusedNot)
	}
}

// What can't be had is refused, and makes no session.
func TestSettingsThatCannotBeHad(t *testing.T) {
	inFull(t)
	t.Parallel()
	c := config(t)
	c.MemoryMB = 500
	b := newBench(t, c)
	sc := b.Scope()
	for _, tt := range []struct {
		spec engine.SessionSpec
		want string
	}{
		{engine.SessionSpec{Python: "/no/such/python"}, "/no/such/python"},
		{engine.SessionSpec{Python: "2.7"}, "2.7"},
		{engine.SessionSpec{Python: "3.99"}, "3.99"},
		{engine.SessionSpec{Venv: "/usr"}, "venv"},
		{engine.SessionSpec{Venv: "../out"}, "workspace"},
		{engine.SessionSpec{Packages: "--index-url=x"}, "--index-url"},
		{engine.SessionSpec{MemoryMB: 63}, "the limit memory_mb must be from 64 to 500 (REPL_MEMORY_MB)"},
		{engine.SessionSpec{MemoryMB: 501}, "the limit memory_mb must be from 64 to 500 (REPL_MEMORY_MB)"},
	} {
		tt.spec.Name = "lab"
		if _, install, err := b.Create(t.Context(), sc, tt.spec); err == nil || install != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.spec, err)
		}
	}
	if list, _ := b.Sessions(); len(list) != 0 {
		t.Errorf("sessions: %+v", list)
	}
}

//go:build unix

package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/pythontest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }

// inFull skips a test of a rare promise in a short run. It starts several workers, and the gate runs
// it in full.
func inFull(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("several workers for a rare promise: a full run has it")
	}
}

// A setup is the Config of an engine, and the environment that its clients bring.
type setup struct {
	engine.Config
	Env []string
}

// config returns the setup of an engine in a workspace of its own, which uses an environment of the
// machine's Python, and its shell.
func config(t testing.TB) setup {
	t.Helper()
	shell := must.Get(exec.LookPath("sh"))(t)
	return setup{Env: os.Environ(), Config: engine.Config{
		Version: "test", Guard: processtest.Guard(t), GuardEnv: os.Environ(), Workspace: t.TempDir(), Shell: shell,
		Python: pythontest.Bare(t, pythontest.Real(t)), StateDir: filepath.Join(t.TempDir(), "state"),
		MaxJobs: 100, MaxSessions: 10, MaxOutput: 1 << 20, MaxState: 1 << 20, Log: slog.New(slog.DiscardHandler),
	}}
}

// A bench is an engine that runs real jobs.
type bench struct {
	*engine.Engine
	t   testing.TB
	env []string
}

func newBench(t testing.TB, c setup) *bench {
	t.Helper()
	e := must.Get(engine.New(c.Config))(t)
	t.Cleanup(e.Close)
	return &bench{e, t, c.Env}
}

// Scope returns the scope of a client that brings only its environment.
func (b *bench) Scope() engine.Scope { return b.Engine.Scope(engine.Client{Env: b.env}) }

// python starts a job in a session of the scope.
func (b *bench) python(sc engine.Scope, session, code string) *jobs.Job {
	b.t.Helper()
	s, _ := must.Get2(b.Open(sc, session))(b.t)
	return jobstest.Start(b.t, b.Jobs(), jobs.Spec{Kind: jobs.Python, Session: session, Title: code}, s.Exec(code))
}

// shell starts a command of the scope.
func (b *bench) shell(sc engine.Scope, c engine.Command) *jobs.Job {
	b.t.Helper()
	c.Dir = sc.Workspace
	run := must.Get(b.Shell(sc, c))(b.t)
	return jobstest.Start(b.t, b.Jobs(), jobs.Spec{Kind: jobs.Shell, Title: c.Line}, run)
}

// A session beyond the limit is refused, and the refusal names the setting. A session that was
// restarted makes room.
func TestMaxSessions(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.MaxSessions = 2
	b := newBench(t, c)
	sc := b.Scope()
	jobstest.End(t, b.python(sc, "a", "1"))
	jobstest.End(t, b.python(sc, "b", "1"))
	if _, _, err := b.Open(sc, "c"); err == nil || !strings.Contains(err.Error(), "REPL_MAX_SESSIONS") {
		t.Errorf("a third session: %v", err)
	}
	s := must.Get(b.Session("a"))(t)
	wait := must.Get(s.Restart(jobs.Agent, "test"))(t)
	if end, err := wait(t.Context()); !end.Had || end.Survivors != nil || end.Note != "" || err != nil {
		t.Errorf("restart: %+v, %v", end, err)
	}
	if record := jobstest.End(t, b.python(sc, "c", "1")); record.Status != jobs.Completed {
		t.Errorf("a session in the room of another: %s", record.Receipt.Text())
	}
}

// pids waits until a job has printed count pids, each as "pid N.", and returns them.
func pids(t testing.TB, j *jobs.Job, count int) (all []int) {
	t.Helper()
	polltest.Check(t, func() error {
		all = nil
		for _, part := range strings.Split(jobstest.Output(j), "pid ")[1:] {
			number, _, ok := strings.Cut(part, ".")
			pid, err := strconv.Atoi(number)
			if ok && err == nil {
				all = append(all, pid)
			}
		}
		if len(all) == count {
			return nil
		}
		return fmt.Errorf("%d pids wanted:\n%s", count, jobstest.Output(j))
	})
	return all
}

// Close ends all jobs, with receipts, and every process, including those that have left their
// session and those of a job that has ended.
func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	running := b.shell(sc, engine.Command{Line: `setsid sleep 1000 & echo "pid $!. pid $$."; wait`, TTY: true})
	ended := b.shell(sc, engine.Command{Line: `setsid sleep 1000 >/dev/null 2>&1 & echo "pid $!."`})
	python := b.python(sc, "default", "import os, subprocess, time\nprint(f'pid {subprocess.Popen([\"sleep\", \"1000\"]).pid}. pid {os.getpid()}.')\ntime.sleep(1000)")
	queued := b.python(sc, "default", "1")
	all := slices.Concat(pids(t, running, 2), pids(t, ended, 1), pids(t, python, 2))
	jobstest.End(t, ended)
	b.Close()
	for _, pid := range all {
		processtest.Gone(t, pid)
	}
	for name, j := range map[string]*jobs.Job{"running": running, "python": python, "queued": queued} {
		select {
		case <-j.Done():
			if record := j.Record(); record.Receipt.By != jobs.Shutdown {
				t.Errorf("%s: %s, by %q", name, record.Receipt.Text(), record.Receipt.By)
			}
		default:
			t.Errorf("the %s job is %s", name, j.Record().Status)
		}
	}
	run, err := b.Shell(sc, engine.Command{Line: "true", Dir: "/"})
	if err == nil {
		_, err = b.Jobs().Start(jobs.Spec{Kind: jobs.Shell}, run)
	}
	if !errors.Is(err, jobs.ErrShutdown) {
		t.Errorf("a start after the end: %v", err)
	}
}

// Close lets Python exit in idle sessions while it ends everything else, in the sessions used last
// first. A session whose exit takes too long, or whose turn does not come, is cut off and logged.
func TestCloseLetsPythonExit(t *testing.T) {
	inFull(t)
	t.Parallel()
	var log strings.Builder
	c := config(t)
	sessions := 2*runtime.GOMAXPROCS(0) + 2 // more than are asked at once
	c.MaxSessions, c.Log = sessions+1, slog.New(slog.NewTextHandler(&log, nil))
	b := newBench(t, c)
	sc := b.Scope()
	var starts []*jobs.Job
	for i := range sessions {
		sleep := map[bool]string{true: "time.sleep(1000)"}[i < sessions-1]
		starts = append(starts, b.python(sc, fmt.Sprint("s", i), fmt.Sprintf(`import atexit, time
rows = open("rows%d", "w"); _ = rows.write("rows")
atexit.register(lambda: %s)`, i, cmp.Or(sleep, "open('late', 'w').write('late')"))))
		jobstest.End(t, starts[i])
	}
	busy := b.python(sc, "busy", "print('on', flush=True)\nwhile True: pass")
	jobstest.Prints(t, busy, "on")
	b.Close()
	for name, text := range map[string]string{fmt.Sprint("rows", sessions-1): "rows", "late": "late", "rows0": ""} {
		if got, err := os.ReadFile(filepath.Join(c.Workspace, name)); err != nil || string(got) != text {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, text)
		}
	}
	for _, j := range append(starts, busy) {
		processtest.Gone(t, j.Record().PID)
	}
	if record := busy.Record(); record.Receipt.By != jobs.Shutdown {
		t.Errorf("the busy session: %s, by %q", record.Receipt.Text(), record.Receipt.By)
	}
	if got := log.String(); !strings.Contains(got, `msg="shutdown cut off the exit of idle Python sessions" sessions=`) || strings.Contains(got, fmt.Sprint("s", sessions-1)) {
		t.Errorf("log: %s", got)
	}
}

// Status starts nothing and makes no file. It counts the processes of all engines, so this test
// runs alone.
func TestStatusBeforeTheFirstJob(t *testing.T) {
	c := config(t)
	c.Env = []string{"PATH=/nowhere:/usr/bin"}
	b := newBench(t, c)
	st := b.Status(b.Scope())
	if st.Version != "test" || st.Workspace != c.Workspace || st.MaxSessions != 10 || st.Jobs.Max != 100 || st.StateDir != c.StateDir {
		t.Errorf("settings: %+v", st)
	}
	if want := "/nowhere:/usr/bin (PATH), for python3 and uv"; st.Search != want {
		t.Errorf("searched: %q, want %q", st.Search, want)
	}
	if st.Processes != 0 || st.Sessions != nil || st.Self == 0 || st.Free <= 0 {
		t.Errorf("measurements: %+v", st)
	}
	if !slices.Contains(st.Works, "guard (started with the first job)") {
		t.Errorf("works: %q", st.Works)
	}
	if _, err := os.Stat(c.StateDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory: %v", err)
	}
	if kids, err := os.ReadDir(c.Workspace); err != nil || len(kids) > 0 {
		t.Errorf("the workspace holds %v, %v", kids, err)
	}
}

// Status shows the session of a waiting job, and the resources that its processes use.
func TestStatusOfARunningJob(t *testing.T) {
	b := newBench(t, config(t))
	sc := b.Scope()
	job := b.python(sc, "lab", "input('? ')")
	jobstest.Asks(t, job)
	b.python(sc, "lab", "1")
	st := b.Status(sc)
	if len(st.Sessions) != 1 || st.Processes != 1 || st.Memory < 1<<20 {
		t.Fatalf("status %+v", st)
	}
	s := st.Sessions[0]
	if s.Name != "lab" || s.Job != job.ID() || s.Queued != 1 || s.PID == 0 || s.Memory < 1<<20 || s.Threads != 1 || s.Processes != 1 {
		t.Errorf("session %+v", s)
	}
	if u, err := job.Live().Probe.Usage(); err != nil || u.Processes != 1 {
		t.Errorf("the job's probe: %+v, %v", u, err)
	}
	if !slices.ContainsFunc(st.Works, func(s string) bool { return strings.HasPrefix(s, "guard (pid ") }) {
		t.Errorf("works: %q", st.Works)
	}
}

func TestStatusWithoutStateDirectoryNamesTheSetting(t *testing.T) {
	c := config(t)
	c.StateDir = ""
	b := newBench(t, c)
	st := b.Status(b.Scope())
	if !slices.ContainsFunc(st.Lacks, func(s string) bool { return strings.Contains(s, "REPL_STATE_DIR") }) {
		t.Errorf("it lacks %q", st.Lacks)
	}
}

func TestScopeDefaults(t *testing.T) {
	if got := (engine.Scope{}).SessionName(""); got != "default" {
		t.Errorf("session %q", got)
	}
	sc := engine.Scope{Session: "mine", Grace: time.Second}
	if a, b := sc.SessionName(""), sc.SessionName("other"); a != "mine" || b != "other" {
		t.Errorf("sessions %q, %q", a, b)
	}
	if a, b := sc.GraceTime(), (engine.Scope{}).GraceTime(); a != time.Second || b != engine.DefaultGrace {
		t.Errorf("grace %v, %v", a, b)
	}
}

// An engine runs a command and is closed.
func Example() {
	e, err := engine.New(engine.Config{ // a server names its guard here
		Workspace: "/", Shell: "/bin/sh", MaxOutput: 1 << 20,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	scope := e.Scope(engine.Client{Env: os.Environ()})
	run, err := e.Shell(scope, engine.Command{Line: "echo hello; exit 3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := e.Jobs().Start(jobs.Spec{Kind: jobs.Shell, Title: "echo"}, run)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := job.Await(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(job.Record().Receipt.Text())
	fmt.Print(jobstest.Output(job))
	// Output:
	// failed (exit 3)
	// hello
}

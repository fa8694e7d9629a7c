package pkgmgr

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"

	"github.com/google/go-cmp/cmp"
)

var packageJob = jobs.Spec{Kind: jobs.Package, Title: "install"}

// start starts an install of a text.
func start(t testing.TB, r *jobs.Registry, m *Manager, text string) *jobs.Job {
	t.Helper()
	run, err := m.Install(text)
	if err != nil {
		t.Fatal(err)
	}
	return jobstest.Start(t, r, packageJob, run)
}

// A session is a Python that has been running since before an install.
type session struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// newSession starts a Python that evaluates lines. The caches of its finders are filled.
func newSession(t testing.TB, python string) *session {
	t.Helper()
	s := &session{t: t, cmd: exec.CommandContext(patient(t), python, "-c", `
import importlib, sys
try: import nothing_of_that_name
except ImportError: pass
for line in sys.stdin:
    try: exec(line)
    except BaseException as e: print(repr(e))
    sys.stdout.flush()
`)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewScanner(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.in.Close()
		s.cmd.Wait()
	})
	return s
}

// do runs one line that prints one line.
func (s *session) do(line string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
	if !s.out.Scan() {
		s.t.Fatalf("no answer to %q: %v", line, s.out.Err())
	}
	return s.out.Text()
}

func TestInstall(t *testing.T) {
	tests := map[string]func(*world){
		"pip": func(*world) {},
		"uv":  func(w *world) { w.addUV() },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("an installer takes seconds")
			}
			t.Parallel()
			w := newWorld(t)
			prepare(w)
			for _, module := range []string{"pip", "json", "venv", "ensurepip", "site"} {
				w.write("work space/"+module+".py", "raise SystemExit('a module of the workspace was imported')\n", 0o666)
			}
			w.wheel("spam", "1.0", "1")
			w.wheel("spam", "2.0", "2")
			w.wheel("eggs", "1.0", "3")
			w.wheel("absent", "1.0", "4")
			var installed atomic.Int32
			w.cfg.Installed = func(context.Context, *Manager, Changes) []string { installed.Add(1); return nil }
			m := New(w.cfg)
			python, err := m.Interpreter(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			s := newSession(t, python)
			if got := s.do("import spam; print(spam.value)"); !strings.Contains(got, "ModuleNotFoundError") {
				t.Fatalf("before the install: %s", got)
			}

			r := jobstest.Registry(t)
			j := start(t, r, m, `spam>=1,<2 eggs 'absent; python_version<"3"'`)
			select { // installing pip compiles 500 files
			case <-j.Done():
			case <-time.After(4 * time.Minute):
			}
			record := jobstest.End(t, j)
			if got := record.Receipt.Text(); got != "completed (installed spam 1.0, eggs 1.0)" {
				t.Fatalf("the install %s\n%s", got, jobstest.Output(j))
			}
			if installed.Load() != 1 {
				t.Errorf("Installed was called %d times, want once", installed.Load())
			}
			s.do("importlib.invalidate_caches(); print()")
			for code, want := range map[string]string{
				"import spam; print(spam.value)":     "1",
				"import eggs; print(eggs.value)":     "3",
				"import absent; print(absent.value)": "ModuleNotFoundError",
			} {
				if got := s.do(code); !strings.Contains(got, want) {
					t.Errorf("%s: %s, want %s", code, got, want)
				}
			}

			ends(t, w, r, name)
		})
	}
}

func TestInstallMakesEnvironment(t *testing.T) {
	w := newWorld(t)
	w.cfg.Command = func([]string, []string, string) jobs.Runner { return ended{} }
	w.script("bin/uv", "exit 1") // fails, so that venv makes it
	j := start(t, jobstest.Registry(t), New(w.cfg), "spam")
	if record := jobstest.End(t, j); record.Status != jobs.Completed {
		t.Fatalf("%s\n%s", record.Receipt.Text(), jobstest.Output(j))
	}
	ask(t, w.venv()+"/bin/python", "pass")
	if want, out := "Making the environment "+w.venv()+" from ", jobstest.Output(j); !strings.HasPrefix(out, want) {
		t.Errorf("the output is %q, want %q and a path", out, want)
	}
}

func TestInstallArgv(t *testing.T) {
	w := newWorld(t)
	env := w.environment("env")
	w.cfg.VirtualEnv.Value = env
	argv := make(chan []string, 1) // one install at a time
	w.cfg.Command = func(a, _ []string, _ string) jobs.Runner {
		argv <- a
		return ended{}
	}
	r := jobstest.Registry(t)
	uv := w.script("bin/uv", "exit 1")
	w.write("work space/list.txt", "a\n", 0o666)
	jobstest.End(t, start(t, r, New(w.cfg), "-r list.txt c a[b]>=1,<2; os_name=='x'"))
	want := []string{uv, "pip", "install", "--no-progress", "--python", env + "/bin/python", "--requirement=" + w.path("work space/list.txt"), "--", "c", "a[b]>=1,<2; os_name=='x'"}
	if diff := cmp.Diff(want, <-argv); diff != "" {
		t.Errorf("with uv: -want +got\n%s", diff)
	}
}

// fake writes a Python that has no pip and finds none.
func (w *world) fake() string {
	return w.script("bin/real", `case "$*" in
		*sysconfig*) echo 'async-repl {"dirs": ["`+w.root+`"], "pip": "", "managed": false}' ;;
		*async-repl*) echo "async-repl 3 12 $0" ;;
		*) exit 1 ;; esac`)
}

func TestInstallCannotStart(t *testing.T) {
	tests := map[string]struct {
		prepare func(*world)
		want    string
	}{
		"no Python": {func(w *world) { w.cfg.Path = nil }, "no python3 on PATH"},
		"no pip": {
			func(w *world) {
				w.cfg.Python.Value = w.fake()
			},
			"install uv, or pip",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tt.prepare(w)
			record := jobstest.End(t, start(t, jobstest.Registry(t), New(w.cfg), "a"))
			got := record.Receipt.Text()
			if !strings.HasPrefix(got, "failed (could not start: ") || !strings.Contains(got, tt.want) {
				t.Errorf("%s\nwant that it could not start: %s", got, tt.want)
			}
		})
	}
}

// ended is a runner that does nothing.
type ended struct{}

func (ended) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited}}
}

// held is a runner that runs until it is released.
type held struct{ runs, release chan struct{} }

func (h held) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	h.runs <- struct{}{}
	<-h.release
	return ended{}.Run(ctx, p)
}

// Installs take turns, those of one server and those of several. A search for Python needs no turn.
func TestInstallsTakeTurns(t *testing.T) {
	w := newWorld(t)
	w.cfg.VirtualEnv.Value = w.environment("env")
	w.script("bin/uv", "exit 1")
	h := held{make(chan struct{}), make(chan struct{})}
	w.cfg.Command = func([]string, []string, string) jobs.Runner { return h }
	m := New(w.cfg)
	r := jobstest.Registry(t)
	first := start(t, r, m, "a")
	<-h.runs
	second, third, other := start(t, r, m, "b"), start(t, r, m, "c"), start(t, r, New(w.cfg), "d")
	jobstest.Prints(t, other, "Waiting for another install\n")
	if _, err := New(w.cfg).Interpreter(patient(t)); err != nil {
		t.Error(err)
	}
	for _, j := range []*jobs.Job{second, third} {
		if got := j.Record().Status; got != jobs.Queued {
			t.Errorf("a later install is %s, want queued", got)
		}
	}
	second.Stop(jobs.Stop{By: jobs.Agent})
	jobstest.EndsAs(t, second, "cancelled (before it ran)")
	h.release <- struct{}{}
	for range 2 {
		<-h.runs
		h.release <- struct{}{}
	}
	for _, j := range []*jobs.Job{first, third, other} {
		if got := jobstest.End(t, j).Status; got != jobs.Completed {
			t.Errorf("an install is %s", got)
		}
	}
}

func TestInstallIsStoppedWhilePreparing(t *testing.T) {
	tests := map[string]struct {
		timeout time.Duration
		want    string
	}{
		"cancelled": {0, "cancelled (before it ran)"},
		"timed out": {time.Second, "failed (timed out after 1s)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			pid := w.stuck()
			run, err := New(w.cfg).Install("a")
			if err != nil {
				t.Fatal(err)
			}
			spec := packageJob
			spec.Timeout = tt.timeout
			j := jobstest.Start(t, jobstest.Registry(t), spec, run)
			stuck := pid()
			if tt.timeout == 0 {
				j.Stop(jobs.Stop{By: jobs.Agent})
			}
			jobstest.EndsAs(t, j, tt.want)
			processtest.Gone(t, stuck)
		})
	}
}

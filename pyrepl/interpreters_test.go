package pyrepl_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/jobs/jobstest"
)

var interpreterName = regexp.MustCompile(`^(python|pypy)3(\.\d+)?t?$`)

// interpreters finds every Python 3 of this machine: on PATH, among pyenv's versions, and those
// that PYREPL_TEST_PYTHONS lists as PATH does.
func interpreters() []string {
	paths := filepath.SplitList(os.Getenv("PYREPL_TEST_PYTHONS"))
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		found, _ := filepath.Glob(filepath.Join(dir, "py*3*"))
		paths = append(paths, found...)
	}
	root := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); root == "" && err == nil {
		root = filepath.Join(home, ".pyenv")
	}
	found, _ := filepath.Glob(filepath.Join(root, "versions", "*", "bin", "python3"))
	var all []string
	seen := make(map[string]bool)
	for _, path := range append(paths, found...) {
		path, err := filepath.EvalSymlinks(path)
		if err != nil || seen[path] || !interpreterName.MatchString(filepath.Base(path)) {
			continue
		}
		seen[path] = true
		if text, err := os.ReadFile(path); err == nil && !bytes.HasPrefix(text, []byte("#!")) { // a shim
			all = append(all, path)
		}
	}
	return all
}

// tested are the versions that docs/settings.md names.
var tested = []string{"3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "3.13t", "3.14t"}

// A found is an interpreter of this machine.
type found struct {
	path                 string
	name, version, minor string // such as cpython, 3.14.2t and 3.14t; the t is that of a free-threaded build
	holds                bool   // a session
}

// identify asks the interpreter at path.
func identify(path string) (found, error) {
	out, err := exec.Command(path, "-c", `import sys
v, t = sys.version_info, "t" if "t" in getattr(sys, "abiflags", "") else ""
name = sys.implementation.name
print(name, "%d.%d.%d%s" % (v[:3] + (t,)), "%d.%d%s" % (v[:2] + (t,)), name == "cpython" and v >= (3, 9))`).Output()
	words := strings.Fields(string(out))
	if err == nil && len(words) != 4 {
		err = fmt.Errorf("it answers %q", out)
	}
	if err != nil {
		return found{}, err
	}
	return found{path, words[0], words[1], words[2], words[3] == "True"}, nil
}

// holders returns the interpreters of this machine that can hold a session. TestInterpreters says
// why the others can't.
var holders = sync.OnceValue(func() (all []found) {
	for _, path := range interpreters() {
		if f, err := identify(path); err == nil && f.holds {
			all = append(all, f)
		}
	}
	return all
})

// freeThreaded reports whether the interpreter at path is a build without the global lock.
func freeThreaded(t testing.TB, path string) bool {
	t.Helper()
	f, err := identify(path)
	if err != nil {
		t.Fatalf("asking %s: %v", path, err)
	}
	return strings.HasSuffix(f.minor, "t")
}

// Every interpreter of the machine holds a session, or says why not. All tests run on one of them
// with PYREPL_TEST_PYTHON=path.
func TestInterpreters(t *testing.T) {
	all := interpreters()
	if testing.Short() {
		all = []string{python(t)}
	}
	if len(all) == 0 {
		t.Fatal("no Python was found")
	}
	missing := slices.Clone(tested)
	for _, path := range all {
		python, err := identify(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if python.holds {
			missing = slices.DeleteFunc(missing, func(minor string) bool { return minor == python.minor })
		}
		t.Run(python.name+" "+python.version, func(t *testing.T) {
			t.Parallel()
			// In a path as odd as any.
			link := filepath.Join(t.TempDir(), "my pythön")
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			b := newBenchOn(t, link, t.TempDir())
			if python.holds {
				b.works()
				return
			}
			record, _ := b.run("1")
			if text := record.Receipt.Text(); !strings.HasPrefix(text, "failed (could not start: ") || !strings.Contains(text, "sessions need ") || !strings.Contains(text, "set REPL_PYTHON to") {
				t.Errorf("status %q", text)
			}
		})
	}
	for _, minor := range missing {
		t.Run("cpython "+minor, func(t *testing.T) {
			t.Skip("not on this machine, or in a short test; PYREPL_TEST_PYTHONS can name one")
		})
	}
}

// holdersUnderTest returns the interpreters that can hold a session, or only the one under test in a
// short run.
func holdersUnderTest(t *testing.T) []found {
	t.Helper()
	if !testing.Short() {
		return holders()
	}
	f, err := identify(python(t))
	if err != nil {
		t.Fatalf("asking Python: %v", err)
	}
	return []found{f}
}

// The worker's own tests pass on every interpreter that can hold a session. They need nothing
// installed. A short run has the oldest, which lacks most, unless PYREPL_TEST_PYTHON names one.
func TestWorkerUnderUnittest(t *testing.T) {
	all := holders()
	if testing.Short() {
		all = holdersUnderTest(t)
		if os.Getenv("PYREPL_TEST_PYTHON") == "" {
			all = []found{slices.MinFunc(append(all, holders()...), func(a, b found) int {
				return cmp.Or(len(a.minor)-len(b.minor), strings.Compare(a.minor, b.minor)) // 3.9 before 3.10
			})}
		}
	}
	for _, python := range all {
		t.Run(python.version, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(python.path, "-B", "-W", "error", "-m", "unittest", "discover", "-s", "worker/tests", "-t", ".")
			cmd.WaitDelay = jobstest.Patience // for what the tests leave behind, which holds their output
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", python.path, err, out)
			}
		})
	}
}

// A session whose environment and workspace are deleted keeps working with what it has. When it
// needs a new worker, the receipt names what is missing, and the first job after that is back has a
// note of the loss.
func TestEnvironmentVanishes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes environments")
	}
	t.Parallel()
	dir := t.TempDir()
	venv, workspace := filepath.Join(dir, "venv"), filepath.Join(dir, "workspace")
	create := func() {
		t.Helper()
		if out, err := exec.Command(python(t), "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
			t.Fatalf("making an environment: %v: %s", err, out)
		}
		if err := os.MkdirAll(workspace, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	create()
	b := newBenchOn(t, filepath.Join(venv, "bin", "python"), workspace)
	b.result("import sys; sys.prefix != sys.base_prefix", "True")
	os.RemoveAll(venv)
	os.RemoveAll(workspace)
	b.works()
	b.want("import subprocess; subprocess.run([sys.executable, '-V'])", "failed (FileNotFoundError: [Errno 2] No such file or directory: '"+filepath.Join(venv, "bin", "python")+"')")
	record, _ := b.run("1")
	kill(t, record.PID)
	processtest.Gone(t, record.PID)
	for _, missing := range []struct{ what, remedy string }{{workspace, "set REPL_WORKDIR to"}, {filepath.Join(venv, "bin", "python"), "set REPL_PYTHON to"}} {
		record, _ := b.run("1")
		if text := record.Receipt.Text(); !strings.HasPrefix(text, "failed (could not start: ") || !strings.Contains(text, missing.what) || !strings.Contains(text, missing.remedy) {
			t.Errorf("status %q, want it to name %s", text, missing.what)
		}
		os.MkdirAll(workspace, 0o700)
	}
	create()
	record, _ = b.want("kept", "failed (NameError: name 'kept' is not defined)")
	if notes := strings.Join(record.Receipt.Notes, ";"); !strings.Contains(notes, "was killed by SIGKILL between jobs; variables lost") {
		t.Errorf("the notes are %q", notes)
	}
}

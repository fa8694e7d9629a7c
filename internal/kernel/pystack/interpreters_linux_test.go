package pystack_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/test/must"
)

// boot stands for the program of a worker: its functions are below and among those of the code that
// a test looks at. It runs the file that its argument names.
const boot = `import sys
main = '''
def run(self, coroutine):
    import asyncio
    loop = asyncio.new_event_loop()
    loop.run_until_complete(coroutine)

def call(function):
    return function()

def serve(path):
    space = {"__name__": "__main__", "run": run, "call": call}
    exec(compile(open(path, encoding="utf-8").read(), path, "exec"), space)
'''
space = {}
exec(compile(main, "<own/main.py>", "exec"), space)
space["serve"](sys.argv[1])
`

var program = pystack.Program{
	Bottom:    []pystack.Place{{File: "<string>", Function: "<module>"}, {File: "<own/main.py>", Function: "serve"}},
	Own:       "<own/",
	Loop:      pystack.Place{File: "<own/main.py>", Function: "run"},
	Coroutine: 1,
}

// An interpreter is a Python of this machine that looks are for.
type interpreter struct{ path, version string }

// interpreters finds every CPython from 3.9 on: on PATH, among pyenv's versions, and those that
// PYREPL_TEST_PYTHONS lists as PATH does. A short test has one of them.
func interpreters(t testing.TB) (all []interpreter) {
	t.Helper()
	paths := filepath.SplitList(os.Getenv("PYREPL_TEST_PYTHONS"))
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		paths = append(paths, filepath.Join(dir, "python3"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		found, _ := filepath.Glob(filepath.Join(home, ".pyenv", "versions", "*", "bin", "python3"))
		paths = append(paths, found...)
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		if text, err := os.ReadFile(real); err != nil || bytes.HasPrefix(text, []byte("#!")) { // a shim
			continue
		}
		out, err := exec.Command(real, "-I", "-S", "-c", "import sys; print(sys.implementation.name, sys.version_info >= (3, 9), '%d.%d.%d' % sys.version_info[:3] + getattr(sys, 'abiflags', ''))").Output()
		if words := strings.Fields(string(out)); err == nil && words[0] == "cpython" && words[1] == "True" {
			all = append(all, interpreter{real, words[2]})
		}
		if testing.Short() && len(all) == 1 {
			break
		}
	}
	if len(all) == 0 {
		t.Fatal("no Python was found")
	}
	return all
}

// A run is an interpreter at work.
type run struct {
	*pystack.Target
	file string
	cmd  *exec.Cmd
}

// start runs code, and returns when it has printed a line.
func (i interpreter) start(t testing.TB, code string) *run {
	t.Helper()
	file := filepath.Join(t.TempDir(), "code.py")
	must.Do(t, os.WriteFile(file, []byte(code), 0o600))
	cmd := exec.Command(i.path, "-I", "-S", "-c", boot, file) // no packages: path files of some import much
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	r := &run{pystack.NewTarget(cmd.Process.Pid, i.version, program), file, cmd}
	t.Cleanup(r.end)
	must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	return r
}

// end kills the interpreter.
func (r *run) end() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
}

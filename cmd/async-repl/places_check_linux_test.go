package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/slurmtest"
	"asyncrepl/internal/test/sshdtest"
)

// A spec is a place in the file of places.
type spec map[string]any

// carrier returns an exec place that is the machine.
func (m *farMachine) carrier(home string) []string {
	return []string{"env", "-i", "HOME=" + home, "PATH=/usr/bin:/bin", "TMPDIR=" + m.tmp, "GORACE=atexit_sleep_ms=0"}
}

// write writes a file of places and returns its path.
func (m *farMachine) write(places map[string]spec) (file string) {
	m.t.Helper()
	dir := m.t.TempDir()
	must.Do(m.t, os.Chmod(dir, 0o700))
	file = filepath.Join(dir, "places.json")
	must.Do(m.t, os.WriteFile(file, must.Get(json.Marshal(map[string]any{"places": places}))(m.t), 0o600))
	return file
}

// places runs the command places with a file of places. It returns what is printed, with ~ for the home and
// words for what differs from run to run.
func (m *farMachine) places(places map[string]spec, args ...string) (out string, status int) {
	m.t.Helper()
	cmd := m.command(append(append([]string{"places"}, args...), "-places", m.write(places))...)
	cmd.Dir = m.t.TempDir() // the workspace
	b, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		m.t.Fatal(err)
	}
	return m.plain(string(b)), cmd.ProcessState.ExitCode()
}

// ended returns once no engine is on the machine. One that has removed its files still has to exit.
func (m *farMachine) ended() {
	m.t.Helper()
	polltest.Until(m.t, "the ends of engines", func() bool { return len(m.engines()) == 0 })
}

// programsEnded waits until no process runs a program that was brought: an engine's guard ends after it.
func (m *farMachine) programsEnded() {
	m.t.Helper()
	polltest.Until(m.t, "the end of what the engines have started", func() bool {
		exes, _ := filepath.Glob("/proc/[0-9]*/exe")
		return !slices.ContainsFunc(exes, func(exe string) bool {
			path, _ := os.Readlink(exe) // an error: it has ended, or is another user's
			return strings.HasPrefix(path, m.home)
		})
	})
}

var (
	hashes  = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	farKeys = regexp.MustCompile(`places-far/[0-9a-z]+`)
)

// plain returns text without what differs from run to run.
func (m *farMachine) plain(text string) string {
	host := must.Get(os.Hostname())(m.t)
	text = strings.NewReplacer(m.home, "~", realPython(), "PYTHON", `"`+host+`"`, "HOST", ownVersion(), "VERSION").Replace(text)
	return farKeys.ReplaceAllString(hashes.ReplaceAllString(text, "HASH"), "places-far/KEY")
}

// tried is what check prints about a place where all is well.
const tried = `ok     good: reach: the machine HOST
ok     good: workspace: ~/work
ok     good: carry: async-repl VERSION
ok     good: start: the engine has answered
ok     good: Python: X at PYTHON
ok     good: evidence: a prompt that waits is seen, and takes an answer
ok     good: end: the engine there has ended; the program and the workspace stay
`

var versions = regexp.MustCompile(`Python: [0-9.]+`)

// Check finds nothing to say of a place that works, and leaves no process and no file but the program. Clean then
// removes that, unless an engine uses it.
func TestPlacesCheckAndClean(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	places := map[string]spec{"good": {"exec": m.carrier(m.home), "workspace": m.home + "/work", "python": realPython()}}
	out, status := m.places(places, "check")
	if out = versions.ReplaceAllString(out, "Python: X"); status != 0 || out != tried {
		t.Errorf("status %d:\n%s", status, out)
	}
	if files := m.files(); len(files) > 0 {
		t.Errorf("left: %q", files)
	}
	m.ended()
	const bin, far = "/.cache/async-repl/bin", "/.local/state/async-repl/places-far"
	programs := must.Get(filepath.Glob(m.home + bin + "/*"))(t)
	if len(programs) != 1 {
		t.Fatalf("the programs are %q", programs)
	}
	if left := must.Get(filepath.Glob(m.home + far + "/*"))(t); len(left) > 0 {
		t.Errorf("the state of an engine is left: %q", left)
	}

	// An engine that lives, with its state and its program, the state of a dead one, a program that no engine
	// uses, one that was interrupted, and what is not ours.
	m.settings.Key = "cleaned" // other tests have engines of the usual key at the same time
	must.Get(m.command(dialCommand, "-settings", m.json(), m.settings.Key).Output())(t)
	must.Do(t, os.MkdirAll(filepath.Join(m.home, far, m.settings.Key), 0o700))
	must.Do(t, os.MkdirAll(filepath.Join(m.home, far, "dead", "runs"), 0o700))
	old, cut := filepath.Join(m.home, bin, strings.Repeat("a1", 32)), filepath.Join(m.home, bin, "."+strings.Repeat("A2", 13))
	strange := []string{filepath.Join(m.home, bin, "mine"), filepath.Join(m.home, bin, ".hidden"), filepath.Join(m.home, bin, strings.Repeat("a1", 31))}
	for _, path := range append([]string{old, cut}, strange...) {
		must.Do(t, os.WriteFile(path, nil, 0o700))
	}
	running := filepath.Join(m.home, bin, strings.Repeat("b2", 32))
	must.Do(t, os.WriteFile(running, must.Get(os.ReadFile(must.Get(exec.LookPath("sleep"))(t)))(t), 0o700))
	sleeper := exec.Command(running, "1000")
	must.Do(t, sleeper.Start())
	defer sleeper.Wait()
	defer sleeper.Process.Kill()
	out, status = m.places(places, "clean", "good")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	slices.Sort(lines)
	want := []string{
		"note   good: kept: ~" + bin + "/HASH, which an engine there uses",
		"note   good: kept: ~" + far + "/KEY, which an engine there uses",
		"ok     good: removed: ~" + bin + "/." + strings.Repeat("A2", 13),
		"ok     good: removed: ~" + bin + "/HASH",
		"ok     good: removed: ~" + bin + "/HASH",
		"ok     good: removed: ~" + far + "/KEY",
	}
	if status != 0 || !slices.Equal(lines, want) {
		t.Errorf("status %d:\n%s", status, out)
	}
	for _, path := range append(strange, running, filepath.Join(m.home, far, m.settings.Key)) {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}

	kill(t, m.engine())
	sleeper.Process.Kill()
	sleeper.Wait()
	for _, path := range strange {
		must.Do(t, os.Remove(path))
	}
	m.programsEnded()
	out, status = m.places(places, "clean", "good")
	if want := "ok     good: removed: ~" + bin + "/HASH\nok     good: removed: ~" + far + "/KEY\n"; status != 0 || out != want {
		t.Errorf("status %d:\n%s", status, out)
	}
	for _, path := range []string{m.home + filepath.Dir(bin), m.home + far} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if out, status = m.places(places, "clean", "good"); status != 0 || out != "ok     good: clean: nothing was there\n" {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// Check says at which step a place fails and what helps, and goes on to the next one.
func TestPlacesCheckFails(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	work := m.home + "/work"
	modules := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(modules, "sitecustomize.py"), []byte("import subprocess\nsubprocess.run = print\n"), 0o600))
	full := filepath.Join(m.home, "file") // no directory
	must.Do(t, os.WriteFile(full, nil, 0o600))
	taken := t.TempDir()
	must.Do(t, os.WriteFile(taken+"/.venv", nil, 0o600)) // no environment can be made
	good := m.carrier(m.home)
	out, status := m.places(map[string]spec{
		"a": {"exec": []string{"false"}, "workspace": work},
		"b": {"exec": good, "workspace": full + "/work"},
		"c": {"exec": []string{"env", "-i", "HOME=" + full, "TMPDIR=" + full}, "workspace": work},
		"d": {"exec": good, "workspace": work, "setup": "no_such_module"},
		"e": {"exec": good, "workspace": work, "setup": "export TMPDIR=relative"},
		"f": {"exec": good, "workspace": work, "python": "/no/python"},
		"g": {"exec": good, "workspace": work, "python": realPython(), "setup": "export PYTHONPATH='" + modules + "'"},
		"h": {"exec": good, "workspace": work, "python": realPython()},
		"i": {"exec": good, "workspace": taken},
	}, "check")
	if status != 1 {
		t.Errorf("status %d", status)
	}
	var fails []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "fails") {
			fails = append(fails, line)
		}
	}
	for i, want := range [][]string{
		{"a: reach: ", "exit status 1", "see what it says when run by hand: "},
		{"b: workspace: ", "Not a directory", `name another one in "workspace"`},
		{"c: carry: ", "Not a directory", `set XDG_CACHE_HOME in "setup"`},
		{"d: start: setup: it ended with exit status 127; ", "no_such_module", `correct "setup"`},
		{"e: start: ", "set TMPDIR to an absolute path", "see what happens by hand: "},
		{"f: Python: ", `(named by python in the file of places); set python in the file of places to an interpreter that works`, `name the interpreter there in "python"`},
		{"g: evidence: ", "is not seen to wait", "let processes there see each other in /proc"},
		{"i: Python: ", `set workspace in the file of places to a directory where it may be made, or python in the file of places to an interpreter`, "name the interpreter there"},
	} {
		if i >= len(fails) || !strings.HasPrefix(fails[i], "fails  "+want[0]) || !strings.Contains(fails[i], want[1]) || !strings.Contains(fails[i], want[2]) {
			t.Errorf("no line %q", want)
		}
	}
	if ends := strings.Count(out, ": end: the engine there has ended"); len(fails) != 8 || ends != 4 || strings.Contains(out, "REPL_") || strings.Contains(out, "d: carry") {
		t.Errorf("%d lines of failures, %d ends", len(fails), ends)
	}
	m.ended()
	if t.Failed() {
		t.Log(out)
	}
}

// The same holds over ssh.
func TestPlacesOverSSH(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	server := sshdtest.Start(t)
	m.home = server.Home
	places := map[string]spec{"good": {"ssh": server.Args(), "workspace": m.home + "/work", "python": realPython(), "setup": "export TMPDIR=" + m.tmp}}
	out, status := m.places(places, "check", "good")
	if out = versions.ReplaceAllString(out, "Python: X"); status != 0 || out != tried {
		t.Errorf("status %d:\n%s", status, out)
	}
	m.programsEnded()
	out, status = m.places(places, "clean", "good")
	if status != 0 || out != "ok     good: removed: ~/.cache/async-repl/bin/HASH\n" {
		t.Errorf("status %d:\n%s", status, out)
	}
	server.Stop(t)
	for word, step := range map[string]string{"check": "reach", "clean": "clean"} {
		out, status = m.places(places, word, "good")
		if status != 1 || !strings.HasPrefix(out, "fails  good: "+step) || !strings.Contains(out, "Connection refused; check that sshd runs there") {
			t.Errorf("%s: status %d:\n%s", word, status, out)
		}
	}
}

// inSlurm returns a place in a cluster whose engines have the directories of m.
func (m *farMachine) inSlurm(c *slurmtest.Cluster) spec {
	return spec{"slurm": []string{"--partition=short", "--time=10"}, "workspace": c.Dir + "/work", "python": realPython(),
		"setup": "export HOME=" + m.home + " TMPDIR=" + m.tmp}
}

// With Slurm, check says what it has asked for, and gives it back. Clean is refused while a job of ours runs.
func TestPlacesWithSlurm(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	cluster := slurmtest.Start(t)
	m.env = append(m.env, "SLURM_CONF="+cluster.Conf)
	places := map[string]spec{
		"good": m.inSlurm(cluster),
		"none": {"slurm": []string{"--partition=nope"}, "workspace": cluster.Dir + "/work"},
	}
	out, status := m.places(places, "check", "good")
	if status != 0 || strings.Contains(out, "fails") || !strings.Contains(out, "\nok     good: allocation: Slurm job 1, node n1\n") ||
		!strings.Contains(out, "evidence: a prompt") || !strings.HasSuffix(out, "\nok     good: end: the allocation was given back\n") {
		t.Errorf("status %d:\n%s", status, out)
	}
	polltest.Check(t, func() error {
		if out, status := m.places(places, "clean", "good"); status != 0 || out != "ok     good: removed: ~/.cache/async-repl/bin/HASH\n" {
			return fmt.Errorf("status %d: %s", status, out)
		}
		return nil
	})
	out, status = m.places(places, "check", "none")
	if want := "fails  none: allocation: sbatch: invalid partition specified: nope"; status != 1 || !strings.Contains(out, want) {
		t.Errorf("status %d:\n%s", status, out)
	}

	// An allocation that will never run is given back when a person has seen enough.
	var held lockedBuffer
	cmd := m.command("places", "check", "-places", m.write(map[string]spec{"held": {"slurm": []string{"--hold"}, "workspace": cluster.Dir + "/work"}}))
	cmd.Dir, cmd.Stdout = t.TempDir(), &held
	must.Do(t, cmd.Start())
	polltest.Until(t, "the reason why it waits", func() bool { return strings.Contains(held.String(), "Slurm job 2, JobHeldUser") })
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	cmd.Wait()
	if status, said := cmd.ProcessState.ExitCode(), held.String(); status != 1 || !strings.HasSuffix(said, "fails  held: reach: it was interrupted\nok     held: end: the allocation was given back\n") {
		t.Errorf("status %d:\n%s", status, said)
	}
	if jobs := cluster.Must(t, "squeue", "--noheader"); jobs != "" {
		t.Errorf("left: %s", jobs)
	}

	must.Get(cluster.Command(t.Context(), []string{"sbatch", "--job-name=async-repl-x-y", "--hold", "--wrap=true"}, ""))(t)
	out, status = m.places(places, "clean", "good")
	if status != 1 || out != "fails  good: clean: it is in use by Slurm job 3: end these, or wait for their ends\n" {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// A job whose allocation a person has cancelled is not cancelled by this server: it fails, as Slurm says.
func TestScancelOfAnAllocation(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	cluster := slurmtest.Start(t)
	file := m.write(map[string]spec{"cluster": m.inSlurm(cluster)})
	s := startServer(t, "REPL_PLACES="+file, "SLURM_CONF="+cluster.Conf)
	id := s.do("execute_python", "on", "cluster", "code", "import time\nprint('sleeps', flush=True)\ntime.sleep(1000)", "wait_seconds", 0).Header("Job ID")
	s.prints(id, "sleeps")
	cluster.Must(t, "scancel", "1")
	if r := s.end(id); r.Header("Status") != "failed (Slurm: CANCELLED; variables lost)" || !strings.HasPrefix(r.Header("Place"), "cluster (Slurm job 1") {
		t.Errorf("after scancel:\n%s", r)
	}
}

// What can't be tried is refused before anything is started.
func TestPlacesRefuses(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	places := map[string]spec{"box": {"exec": []string{"false"}, "workspace": "/x"}, "pods": {"exec": []string{"true"}, "workspace": "/x"}}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, `"" is neither check nor clean: see async-repl places -h`},
		{[]string{"chekc"}, `"chekc" is neither check nor clean`},
		{[]string{"check", "bax"}, `there is no place "bax": the places are box, pods`},
		{[]string{"clean"}, "name the place to clean: async-repl places clean NAME"},
		{[]string{"check", "box", "-sandbox", "workspace"}, "can't be used with -sandbox"},
		{[]string{"check", "box", "-no-such"}, "-no-such"},
	} {
		if out, status := m.places(places, c.args...); status != 2 || !strings.HasPrefix(out, "async-repl: ") || !strings.Contains(out, c.want) {
			t.Errorf("%q: status %d: %s", c.args, status, out)
		}
	}
	status, _, said := m.fails("places", "check")
	if want := "async-repl: there is no file of places: name it by -places or REPL_PLACES\n"; status != 2 || said != want {
		t.Errorf("without a file: status %d: %s", status, said)
	}
	if out, status := m.places(places, "-h"); status != 0 || !strings.Contains(out, "places clean NAME") || !strings.Contains(out, "REPL_PLACES") {
		t.Errorf("-h: status %d: %s", status, out)
	}
}

// The timeout of the server holds at a place.
func TestTimeoutHoldsAtAPlace(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	file := m.write(map[string]spec{"box": {"exec": m.carrier(m.home), "workspace": m.home + "/work"}})
	s := startServer(t, "REPL_PLACES="+file, "REPL_TIMEOUT=50ms")
	r := s.do("execute_command_async", "on", "box", "command", "sleep 1000", "wait_seconds", 60)
	if status := r.Header("Status"); status != "failed (timed out after 50ms)" {
		t.Errorf("the status is %q:\n%s", status, r)
	}
}

// A server that can't note what it has at places uses them all the same, and its log says what is missing.
func TestPlacesWithoutAStateDirectory(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	file := m.write(map[string]spec{"box": {"exec": m.carrier(m.home), "workspace": m.home + "/work"}})
	state := newState(t)
	must.Do(t, os.WriteFile(state, nil, 0o600))
	s := startServer(t, "REPL_PLACES="+file, "REPL_STATE_DIR="+state)
	holds(t, s.do("execute_command_async", "on", "box", "command", "echo there", "wait_seconds", 60), "Status", "completed")
	if log := s.log.String(); !strings.Contains(log, "no later server will find what this one has at places") {
		t.Errorf("the log says nothing of it:\n%s", log)
	}
}

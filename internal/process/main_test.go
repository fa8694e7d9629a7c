//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/guard"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/process/procset"
	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// patience bounds every wait: a test that runs into it has failed.
const patience = polltest.Patience

// parts are the programs that the test binary plays if its first argument names one.
var parts = map[string]func(args []string) int{
	"part-guard":    func([]string) int { return guard.Run(os.Stdin) },
	"part-server":   partServer,
	"part-defaults": partDefaults,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if part := parts[os.Args[1]]; part != nil {
			os.Exit(part(os.Args[2:]))
		}
	}
	code := m.Run()
	if left := leftBehind(); left != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "left behind:", left)
		code = 1
	}
	os.Exit(code)
}

// leftBehind waits for the guards, which end last, and returns the children that remain after that.
func leftBehind() string {
	var es []procfs.Stat
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		reaper.scan()
		pids, err := ownChildren()
		if err == nil {
			es, err = walk(0, processes(pids))
		}
		if err == nil && len(es) == 0 {
			return ""
		}
	}
	return fmt.Sprint(es)
}

func processes(pids []int) []procfs.Process {
	var ps []procfs.Process
	for _, pid := range pids {
		if s, ok := inspect(pid); ok {
			ps = append(ps, s.Process)
		}
	}
	return ps
}

// inspect returns a process, and false if it has ended.
func inspect(pid int) (procfs.Stat, bool) {
	s, err := procfs.Inspect(pid)
	if err != nil && !errors.Is(err, procfs.ErrGone) {
		panic(err)
	}
	return s, err == nil
}

func self(part string, args ...string) []string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{path, part}, args...)
}

// guarded returns the Config of an Owner whose guard the test binary plays. The guard has the
// test's GORACE; without it a guard under the race detector waits for a second at its end.
func guarded() Config { return Config{Guard: self("part-guard"), GuardEnv: os.Environ()} }

// newOwner returns an Owner without a guard, which most tests don't need.
func newOwner(t testing.TB) *Owner {
	t.Helper()
	o := must.Get(NewOwner(Config{}))(t)
	t.Cleanup(o.Shutdown)
	polltest.Until(t, "the orphans of earlier tests to be reaped", func() bool {
		reaper.scan()
		reaper.mu.Lock()
		defer reaper.mu.Unlock()
		return len(reaper.orphans) == 0
	})
	return o
}

var testEnv = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "LC_ALL=C"}

// A job is a started program and its output.
type job struct {
	*Handle
	pty  *tty.PTY // nil: on pipes
	pump *pump.Pump

	mu  sync.Mutex
	out []byte
}

// listed returns ps and panics on an error, which only the tests of full tables expect.
func listed(ps []procfs.Process, err error) []procfs.Process {
	if err != nil {
		panic(err)
	}
	return ps
}

func (j *job) Tree() []procfs.Process         { return listed(j.Handle.Tree()) }
func (j *job) Descendants() []procfs.Process  { return listed(j.Handle.Descendants()) }
func (j *job) Unattributed() []procfs.Process { return listed(j.Handle.Unattributed()) }

// Settle is the handle's and panics on an error.
func (j *job) Settle() (hungUp, left []procfs.Process) {
	hungUp, left, err := j.Handle.Settle()
	return hungUp, listed(left, err)
}

// Unattributed returns the living orphans that could belong to one of several jobs of o, with their
// descendants.
func (o *Owner) Unattributed() []procfs.Process {
	reaper.scan()
	es, err := walk(0, reaper.unattributed(func(p *orphan) bool { return slices.Contains(p.owners(), o) }))
	return listed(procset.Living(es), err)
}

func (j *job) write(b []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out = append(j.out, b...)
}

// output returns the output so far, with the line ends of a pipe.
func (j *job) output() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.ReplaceAll(string(j.out), "\r\n", "\n")
}

// newPTY returns a terminal that is closed at the test's end.
func newPTY(t testing.TB) *tty.PTY {
	t.Helper()
	pty := must.Get(tty.Open(24, 80))(t)
	t.Cleanup(pty.Close)
	return pty
}

func say(t testing.TB, pty *tty.PTY, s string) {
	t.Helper()
	must.Get(pty.Master().WriteString(s))(t)
}

// onTTY starts a bash script on a terminal of its own, as a job with the given mark. It runs in a
// directory of its own: on a terminal, nohup writes a file.
func onTTY(t testing.TB, o *Owner, mark, script string) *job {
	t.Helper()
	pty := newPTY(t)
	j := &job{pty: pty}
	j.Handle = must.Get(o.Start(Spec{Argv: []string{"bash", "-c", script}, Env: testEnv, Dir: t.TempDir(), TTY: pty, Mark: mark}))(t)
	j.pump = pump.Shared(pty.Master(), j.write)
	t.Cleanup(func() {
		end(t, j.Handle)
		j.pump.Close()
	})
	return j
}

// onPipe starts a bash script with one pipe as stdout and stderr, and /dev/null as stdin.
func onPipe(t testing.TB, o *Owner, mark, script string) *job {
	t.Helper()
	r, w := must.Get2(os.Pipe())(t)
	defer w.Close()
	j := &job{}
	j.Handle = must.Get(o.Start(Spec{Argv: []string{"bash", "-c", script}, Env: testEnv, Dir: t.TempDir(), Files: []*os.File{nil, w, w}, Mark: mark}))(t)
	j.pump = pump.New(r, j.write)
	t.Cleanup(func() {
		end(t, j.Handle)
		j.pump.Close()
	})
	return j
}

func end(t testing.TB, h *Handle) {
	if r := h.Stop(Ladder{From: ladder.Kill}); len(r.Survivors) > 0 || r.Err != nil {
		t.Errorf("survivors: %v, error %v", r.Survivors, r.Err)
	}
}

// says waits until the job has printed s.
func (j *job) says(t testing.TB, s string) {
	t.Helper()
	polltest.Check(t, func() error {
		if out := j.output(); !strings.Contains(out, s) {
			return fmt.Errorf("%q was not printed, but %q", s, out) // without the tree: to list it is a scan
		}
		return nil
	})
}

// ends waits for the end of the leader.
func ends(t testing.TB, h *Handle) Exit {
	t.Helper()
	select {
	case <-h.Done():
	case <-time.After(patience):
		t.Fatalf("process %d has not ended", h.PID())
	}
	return h.Exit()
}

// tag returns a duration for sleep that no other process sleeps for. It identifies a process even
// if its parents, session, environment and files change.
func tag() string { return fmt.Sprintf("9%06d.%06d", rand.IntN(1e6), rand.IntN(1e6)) }

// tagged returns the living processes that have s as an argument, except those about to execute
// another program.
func tagged(s string) []procfs.Process {
	carries := func(pid int) bool {
		b, _ := os.ReadFile(procfs.TaskPath(pid, pid, "cmdline"))
		return slices.ContainsFunc(bytes.Split(b, []byte{0}), func(a []byte) bool { return string(a) == s })
	}
	var ps []procfs.Process
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err)
	}
	for _, dir := range dirs { // one at a time: some are short-lived
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if !carries(pid) {
			continue
		}
		e, ok := inspect(pid)
		if !ok || e.Ended() || e.Program == "env" || e.Program == "setsid" || e.Program == "nohup" {
			continue
		}
		if carries(pid) { // again: during an exec its name is the old one
			ps = append(ps, e.Process)
		}
	}
	return ps
}

// grown waits until n processes carry the tag.
func grown(t testing.TB, tag string, n int) (ps []procfs.Process) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("%d processes", n), func() bool { ps = tagged(tag); return len(ps) == n })
	return ps
}

// gone fails the test if a process with the tag is left.
func gone(t testing.TB, tag string) {
	t.Helper()
	if ps := tagged(tag); len(ps) > 0 {
		t.Errorf("left: %v", ps)
		for _, p := range ps {
			p.Signal(syscall.SIGKILL)
		}
	}
}

func programs(ps []procfs.Process) string {
	var names []string
	for _, p := range ps {
		names = append(names, p.Program)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// partServer starts the script args[0] with a guard and waits to be killed. For each byte of input
// it scans and prints the guard's pid.
func partServer(args []string) int {
	o, err := NewOwner(guarded())
	if err != nil {
		return 2
	}
	pty, err := tty.Open(24, 80)
	if err != nil {
		return 3
	}
	h, err := o.Start(Spec{Argv: []string{"bash", "-c", args[0]}, Env: testEnv, TTY: pty, Mark: "job"})
	if err != nil {
		return 4
	}
	pump.Shared(pty.Master(), func(b []byte) {})
	var line [1]byte
	for {
		if _, err := os.Stdin.Read(line[:]); err == io.EOF {
			return 0
		}
		h.Tree()
		reaper.scan()
		fmt.Println(o.guard.pid())
	}
}

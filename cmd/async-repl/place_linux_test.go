package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
)

// A far machine is where the engines of these tests run. Its temporary directory and its home belong to
// one test.
type farMachine struct {
	t        *testing.T
	tmp      string
	home     string
	settings far.Settings
	env      []string
}

const keyOfTests = "0123456789abcdef"

// newFarMachine returns a machine without an engine.
func newFarMachine(t *testing.T) *farMachine {
	t.Helper()
	notAgain(t)
	overStdio(t, "the carrier is a pipe")
	notApart(t, "places are refused in a sandbox")
	m := &farMachine{t: t, tmp: t.TempDir(), home: t.TempDir()}
	m.settings = far.Settings{
		Key: keyOfTests, Workspace: t.TempDir(), Python: realPython(), Linger: time.Hour,
		MaxJobs: 100, MaxSessions: 10, MaxOutput: 1 << 20, MaxState: 1 << 30,
	}
	path := filepath.Dir(realPython()) + ":" + os.Getenv("PATH")
	m.env = append(withoutSettings(os.Environ()), "PATH="+path, "HOME="+m.home, "XDG_STATE_HOME=", "TMPDIR="+m.tmp)
	t.Cleanup(func() {
		for _, pid := range m.engines() {
			syscall.Kill(pid, syscall.SIGTERM)
			processtest.Gone(t, pid)
		}
	})
	return m
}

// dir returns the directory of the sockets.
func (m *farMachine) dir() string { return sockets.Places("", m.tmp)[0] }

// files returns the names of the files in the directory of the sockets.
func (m *farMachine) files() (names []string) {
	entries, _ := os.ReadDir(m.dir()) // an error: it is not there
	for _, e := range entries {
		names = append(names, strings.Replace(e.Name(), keyOfTests, "KEY", 1))
	}
	return names
}

// engines returns the processes of the engines on the machine.
func (m *farMachine) engines() []int { return m.processes(placedCommand) }

// processes returns the processes of a command of the program on the machine.
func (m *farMachine) processes(command string) (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, err := os.ReadFile(path) // empty once it has ended
		if err != nil || !bytes.Contains(line, []byte("\x00"+command+"\x00")) {
			continue
		}
		env, err := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if err == nil && bytes.Contains(env, []byte("\x00TMPDIR="+m.tmp+"\x00")) {
			pids = append(pids, must.Get(strconv.Atoi(filepath.Base(filepath.Dir(path))))(m.t))
		}
	}
	return pids
}

// engine returns the process of the only engine on the machine.
func (m *farMachine) engine() int {
	m.t.Helper()
	pids := m.engines()
	if len(pids) != 1 {
		m.t.Fatalf("the engines are %v", pids)
	}
	return pids[0]
}

// json returns the settings as an argument.
func (m *farMachine) json() string { return string(must.Get(json.Marshal(m.settings))(m.t)) }

// command returns a command of the program on the machine.
func (m *farMachine) command(args ...string) *exec.Cmd {
	cmd := bounded(m.t, ownProgram(m.t), args...)
	cmd.Dir, cmd.Env = m.home, m.env
	return cmd
}

// dialArgs returns the arguments of dial.
func (m *farMachine) dialArgs(flags ...string) []string {
	return append(append([]string{dialCommand, "-settings", m.json()}, flags...), keyOfTests)
}

// A joined is a dial that is joined with an engine, and the pipes of its carrier.
type joined struct {
	net.Conn // only for its addresses
	far.Greeting

	cmd *exec.Cmd
	in  *os.File // the other end is the standard input of dial
	out *os.File
	r   *bufio.Reader
	h   *http.ClientConn
}

func (j *joined) Read(p []byte) (int, error)       { return j.r.Read(p) }
func (j *joined) Write(p []byte) (int, error)      { return j.in.Write(p) }
func (j *joined) SetDeadline(time.Time) error      { return nil }
func (j *joined) SetReadDeadline(time.Time) error  { return nil }
func (j *joined) SetWriteDeadline(time.Time) error { return nil }

// Close closes the pipes, as a carrier that has lost its link.
func (j *joined) Close() error {
	j.in.Close()
	return j.out.Close()
}

// start starts dial, and reads no greeting.
func (m *farMachine) start(flags ...string) *joined {
	m.t.Helper()
	j := &joined{cmd: m.command(m.dialArgs(flags...)...)}
	in, ours := must.Get2(os.Pipe())(m.t)
	out, theirs := must.Get2(os.Pipe())(m.t)
	stderr := new(lockedBuffer)
	j.cmd.Stdin, j.cmd.Stdout, j.cmd.Stderr = in, theirs, stderr
	j.cmd.ExtraFiles = []*os.File{theirs, theirs} // a carrier can leave its descriptors open
	must.Do(m.t, j.cmd.Start())
	in.Close()
	theirs.Close()
	j.in, j.out, j.r = ours, out, bufio.NewReader(out)
	must.Do(m.t, out.SetReadDeadline(time.Now().Add(patience)))
	m.t.Cleanup(func() {
		if j.h != nil {
			j.h.Close()
		}
		j.Close()
		j.cmd.Process.Kill()
		j.cmd.Wait()
		if m.t.Failed() {
			m.t.Logf("dial said: %s", stderr)
		}
	})
	return j
}

// greet reads the greeting.
func (j *joined) greet(t *testing.T) {
	t.Helper()
	line := must.Get(j.r.ReadString('\n'))(t)
	text, ok := strings.CutPrefix(line, far.Mark)
	if !ok {
		t.Fatalf("dial says %q", line)
	}
	must.Do(t, json.Unmarshal([]byte(text), &j.Greeting))
}

// client returns a client of the engine. From then on a connection of HTTP/2 reads what the engine says.
func (j *joined) client(t *testing.T) *far.Client {
	t.Helper()
	if j.h == nil {
		j.h = must.Get(far.Connect(t.Context(), j))(t)
	}
	return far.NewClient(j.h.RoundTrip, j.Start)
}

// dial starts dial and reads the greeting.
func (m *farMachine) dial(flags ...string) *joined {
	m.t.Helper()
	j := m.start(flags...)
	j.greet(m.t)
	return j
}

// fails runs dial, which fails, and returns its exit status and what it says.
func (m *farMachine) fails(args ...string) (status int, stdout, stderr string) {
	m.t.Helper()
	var out, errs bytes.Buffer
	cmd := m.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err == nil {
		m.t.Fatalf("%q succeeds: %s", args, &out)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// ends waits for the end of dial and returns its state.
func (j *joined) ends() string {
	j.cmd.Wait()
	return j.cmd.ProcessState.String()
}

// Dial starts an engine that has nothing of the link, and the next dial joins the same one.
func TestDialStartsAnEngineAndJoinsIt(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	first := m.dial()
	boot := strings.TrimSpace(string(must.Get(os.ReadFile("/proc/sys/kernel/random/boot_id"))(t)))
	host := must.Get(os.Hostname())(t)
	if g := first.Greeting; g.Protocol != far.Protocol || g.Version != ownVersion() || g.Machine != host || g.Boot != boot || len(g.Start) < 20 {
		t.Errorf("the greeting is %+v", g)
	}
	pid := m.engine()
	stat := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t))
	_, fields, _ := strings.Cut(stat, ") ")
	if session := strings.Fields(fields)[3]; session != fmt.Sprint(pid) {
		t.Errorf("its session is %s", session)
	}
	if cwd := must.Get(os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)))(t); cwd != "/" {
		t.Errorf("it works in %s", cwd)
	}
	for _, fd := range must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t) {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if strings.HasPrefix(to, "pipe:") {
			t.Errorf("its descriptor %s is %s", fd.Name(), to)
		}
	}
	if files := m.files(); !slices.Equal(files, []string{"place-KEY", "place-KEY.lock", "place-KEY.log"}) {
		t.Errorf("the files are %q", files)
	}
	second := m.dial()
	third := m.dial("-start", first.Start)
	fourth := m.dial("-join")
	for _, j := range []*joined{first, second, third, fourth} {
		if j.Start != first.Start {
			t.Errorf("another engine greets: %+v", j.Greeting)
		}
		if state, err := j.client(t).State(t.Context()); err != nil || !state.Unused || state.Since <= 0 {
			t.Errorf("the state is %+v, %v", state, err)
		}
	}
	if again := m.engine(); again != pid {
		t.Errorf("the engine is %d, was %d", again, pid)
	}
}

// Everything passes both ways, in order, and an end of input is passed on.
func TestDialPassesOnAnEndOfInput(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	j := m.dial()
	must.Do(t, j.in.Close()) // the engine closes its side then
	if rest, err := io.ReadAll(j.r); err != nil || len(rest) > 0 {
		t.Errorf("after the end of input: %q, %v", rest, err)
	}
	if how := j.ends(); how != "exit status 0" {
		t.Errorf("dial: %s", how)
	}
	again := m.dial("-start", j.Start)
	kill(t, m.engine())
	if _, err := io.ReadAll(again.r); err != nil { // dial closes it although its input is open
		t.Error(err)
	}
	if how := again.ends(); how != "exit status 0" {
		t.Errorf("dial after the end of the engine: %s", how)
	}
}

// An engine outlives its links, however they end.
func TestEngineSurvivesItsDial(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	first := m.dial()
	pid := m.engine()
	must.Do(t, first.cmd.Process.Kill())
	first.ends()
	group := m.start()
	group.greet(t)
	must.Do(t, syscall.Kill(group.cmd.Process.Pid, syscall.SIGTERM))
	group.ends()
	again := m.dial()
	if again.Start != first.Start || m.engine() != pid {
		t.Errorf("engine %d greets %+v; it was %d, %+v", m.engine(), again.Greeting, pid, first.Greeting)
	}
}

// An engine that was killed is gone: that is said only by the machine on which no process has its lock.
func TestKilledEngineIsGone(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	first := m.dial()
	kill(t, m.engine())
	for range 2 { // being asked changes nothing
		status, out, said := m.fails(m.dialArgs("-start", first.Start)...)
		var gone far.Answer
		text, ok := strings.CutPrefix(out, far.Mark)
		if err := json.Unmarshal([]byte(text), &gone); status != goneStatus || !ok || err != nil || !gone.Gone || gone.Machine != first.Machine || gone.Boot != first.Boot {
			t.Errorf("status %d, %q, %q", status, out, said)
		}
	}
	if pids := m.engines(); len(pids) > 0 {
		t.Errorf("engines %v were started", pids)
	}
	if files := m.files(); !slices.Contains(files, "place-KEY") {
		t.Errorf("there is no dead socket: %q", files)
	}
	second := m.dial()
	if second.Start == first.Start {
		t.Error("the new engine has the same start")
	}
	if status, out, said := m.fails(m.dialArgs("-start", first.Start)...); status != goneStatus || !strings.HasPrefix(out, far.Mark) {
		t.Errorf("with another engine: status %d, %q, %q", status, out, said)
	}
	must.Get(second.client(t).State(t.Context()))(t)
}

// An engine that does not answer is not gone.
func TestStoppedEngineIsNotGone(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	first := m.dial()
	pid := m.engine()
	must.Do(t, syscall.Kill(pid, syscall.SIGSTOP))
	defer syscall.Kill(pid, syscall.SIGCONT)
	polltest.Until(t, "each thread of the engine to stop", func() bool {
		threads, err := procfs.Threads(pid)
		runs := func(tid int) bool { s, err := procfs.InspectThread(pid, tid); return err != nil || !s.Stopped() }
		return err == nil && !slices.ContainsFunc(threads, runs)
	})
	if status, out, said := m.fails(m.dialArgs("-start", first.Start)...); status != 1 || out != "" || !strings.Contains(said, "the engine does not answer within 5s") {
		t.Errorf("status %d, %q, %q", status, out, said)
	}
}

// Ten dials at once start one engine.
func TestDialsAtOnceStartOneEngine(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	var all []*joined
	for range 10 {
		all = append(all, m.start())
	}
	for _, j := range all {
		j.greet(t)
		if j.Start != all[0].Start {
			t.Errorf("one engine greets as %s, another as %s", all[0].Start, j.Start)
		}
	}
	m.engine()
}

// A goodbye ends the engine, and nothing is left.
func TestGoodbyeEndsTheFarEngine(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	m.settings.NoHistory = true
	j := m.dial()
	pid := m.engine()
	must.Do(t, j.client(t).End(t.Context()))
	m.leavesNothing(pid)
	j.ends()
	if status, _, said := m.fails(m.dialArgs("-start", j.Start)...); status != goneStatus {
		t.Errorf("status %d, %q", status, said)
	}
}

// leavesNothing waits for the end of an engine, and checks that nothing is left of it.
func (m *farMachine) leavesNothing(pid int) {
	m.t.Helper()
	processtest.Gone(m.t, pid)
	if files := m.files(); len(files) > 0 {
		m.t.Errorf("the files %q are left", files)
	}
	if left, _ := filepath.Glob(m.home + "/.local/state/async-repl/places-far/*"); m.settings.NoHistory && len(left) > 0 {
		m.t.Errorf("%q is left", left)
	}
}

// An engine without a server ends when its time is over, and one that no server has reached when it is
// unused.
func TestEngineEndsWithoutAServer(t *testing.T) {
	t.Parallel()
	t.Run("left", func(t *testing.T) {
		t.Parallel()
		m := newFarMachine(t)
		m.settings.NoHistory = true
		m.settings.Linger = 300 * time.Millisecond
		j := m.dial()
		pid := m.engine()
		must.Get(j.client(t).State(t.Context()))(t)
		must.Do(t, j.cmd.Process.Kill())
		m.leavesNothing(pid)
	})
	t.Run("never reached", func(t *testing.T) {
		t.Parallel()
		m := newFarMachine(t)
		m.settings.NoHistory = true
		m.settings.Idle = 300 * time.Millisecond
		cmd := m.command(placedCommand, "-settings", m.json())
		late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer late.Stop()
		out := must.Get(cmd.CombinedOutput())(t)
		if len(out) > 0 {
			t.Errorf("it says %q", out)
		}
		m.leavesNothing(cmd.Process.Pid)
	})
	t.Run("terminated", func(t *testing.T) {
		t.Parallel()
		m := newFarMachine(t)
		m.settings.NoHistory = true
		j := m.dial()
		pid := m.engine()
		must.Get(j.client(t).State(t.Context()))(t)
		must.Do(t, syscall.Kill(pid, syscall.SIGTERM))
		m.leavesNothing(pid)
		if how := j.ends(); how != "exit status 0" {
			t.Errorf("dial: %s", how)
		}
	})
}

// An allocation's script is the engine itself, in the foreground. A link that comes earlier waits for it.
func TestDialWaitsForTheEngineOfAnAllocation(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	j := m.start("-join")
	cmd := m.command(placedCommand, "-settings", m.json())
	must.Do(t, cmd.Start())
	j.greet(t)
	if pid := m.engine(); pid != cmd.Process.Pid {
		t.Errorf("the engine is %d, not %d", pid, cmd.Process.Pid)
	}
	status, _, said := m.fails(placedCommand, "-settings", m.json())
	if status != 1 || !strings.Contains(said, "an engine of this key lives") {
		t.Errorf("a second one: status %d, %q", status, said)
	}
	must.Get(j.client(t).State(t.Context()))(t)
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	must.Do(t, cmd.Wait())
}

// What keeps an engine from starting is said in a sentence, and nothing is left.
func TestDialSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	file := func(suffix string) func(t *testing.T, m *farMachine) {
		return func(t *testing.T, m *farMachine) {
			must.Do(t, os.Mkdir(m.dir(), 0o700))
			must.Do(t, os.WriteFile(filepath.Join(m.dir(), "place-"+keyOfTests+suffix), nil, 0o600))
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, m *farMachine)
		args    func(m *farMachine) []string
		status  int
		want    string
	}{
		"no workspace": {func(_ *testing.T, m *farMachine) { m.settings.Workspace += "/missing" }, nil, 1,
			"the engine has ended at its start:\nasync-repl: the workspace "},
		"no workspace of an allocation": {func(_ *testing.T, m *farMachine) { m.settings.Workspace += "/missing" },
			func(m *farMachine) []string { return []string{placedCommand, "-settings", m.json()} }, 1, "is not a directory that exists: make it"},
		"a plain file": {file(""), nil, 1, "is no socket, and an engine should listen there: remove it"},
		"a directory that others can open": {func(t *testing.T, m *farMachine) { must.Do(t, os.Mkdir(m.dir(), 0o755)) }, nil, 1,
			"should be yours with mode 700: remove it, or change its mode"},
		"a temporary directory of all": {func(t *testing.T, m *farMachine) { must.Do(t, os.Chmod(m.tmp, 0o777)) }, nil, 1,
			"can be changed by other users, so it can't hold the directory of the sockets: set XDG_RUNTIME_DIR, or TMPDIR at a place"},
		"a file for the directory": {func(t *testing.T, m *farMachine) { must.Do(t, os.WriteFile(m.dir(), nil, 0o600)) }, nil, 1,
			"is a file or a link, and should be a directory for sockets: remove it"},
		"a link for the lock": {func(t *testing.T, m *farMachine) {
			must.Do(t, os.Mkdir(m.dir(), 0o700))
			must.Do(t, os.Symlink("/etc/passwd", filepath.Join(m.dir(), "place-"+keyOfTests+".lock")))
		}, nil, 1, "place-" + keyOfTests + ".lock: too many levels of symbolic links"},
		"no temporary directory": {func(_ *testing.T, m *farMachine) { m.env = append(m.env, "TMPDIR=relative") }, nil, 1,
			`the temporary directory is "relative": set TMPDIR to an absolute path`},
		"no workspace path": {func(_ *testing.T, m *farMachine) { m.settings.Workspace = "relative" }, nil, 2, `the workspace "relative" is no absolute path`},
		"a bad key":         {nil, func(m *farMachine) []string { return []string{dialCommand, "-join", "../x"} }, 1, `the key "../x" can't be used`},
		"another key":       {nil, func(m *farMachine) []string { return []string{dialCommand, "-settings", m.json(), "other"} }, 2, "the settings are for the key"},
		"no settings":       {nil, func(*farMachine) []string { return []string{dialCommand, keyOfTests} }, 2, "-settings can't be read"},
		"no limits":         {func(_ *testing.T, m *farMachine) { m.settings.MaxJobs = 0 }, nil, 2, "-settings need limits of jobs"},
		"no time":           {func(_ *testing.T, m *farMachine) { m.settings.Linger = -1 }, nil, 2, "-settings have a limit below 0"},
		"no lock":           {nil, func(m *farMachine) []string { return []string{placedCommand, "-settings", m.json(), "-locked"} }, 1, "this command is for async-repl dial"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFarMachine(t)
			if c.prepare != nil {
				c.prepare(t, m)
			}
			args := m.dialArgs()
			if c.args != nil {
				args = c.args(m)
			}
			before := m.files()
			status, out, said := m.fails(args...)
			if status != c.status || out != "" || !strings.Contains(said, c.want) {
				t.Errorf("status %d, %q, %q; want %q", status, out, said, c.want)
			}
			if after := m.files(); !slices.Equal(after, before) {
				t.Errorf("the files were %q and are %q", before, after)
			}
			if pids := m.engines(); len(pids) > 0 {
				t.Errorf("engines %v are left", pids)
			}
		})
	}
}

// A temporary directory that is not there holds no socket, and the one of the system does.
func TestTemporaryDirectoryOfAPlace(t *testing.T) {
	there := t.TempDir()
	for set, want := range map[string]string{there: there, there + "/missing": "/tmp", "relative": "relative"} {
		t.Setenv("TMPDIR", set)
		if got := temporary(); got != want {
			t.Errorf("TMPDIR=%s: %s, want %s", set, got, want)
		}
	}
}

// The path of the socket can be longer than an address has room for.
func TestDialWithALongPath(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	m.tmp = filepath.Join(m.tmp, strings.Repeat("x", 200))
	must.Do(t, os.Mkdir(m.tmp, 0o700))
	m.env = append(m.env, "TMPDIR="+m.tmp)
	j := m.dial()
	must.Get(j.client(t).State(t.Context()))(t)
}

// The directory of the sockets can be on a full disk.
func TestDialOnAFullDisk(t *testing.T) {
	t.Parallel()
	needtest.Root(t, "mount a file system")
	m := newFarMachine(t)
	needtest.Right(t, "mount a disk", syscall.Mount("tmpfs", m.tmp, "tmpfs", 0, "size=4k,nr_inodes=2,mode=700"), nil)
	t.Cleanup(func() { syscall.Unmount(m.tmp, syscall.MNT_DETACH) })
	status, out, said := m.fails(m.dialArgs()...)
	if status != 1 || out != "" || !strings.Contains(said, "no space left on device") || !strings.Contains(said, m.dir()) {
		t.Errorf("status %d, %q, %q", status, out, said)
	}
}

// What a killed engine has left does not pile up: the next one removes it after a day.
func TestFilesOfKilledEnginesAreRemoved(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	must.Do(t, os.Mkdir(m.dir(), 0o700))
	for _, name := range []string{"place-old", "place-old.lock", "place-old.log", "place-young", "place-young.lock", "other"} {
		path := filepath.Join(m.dir(), name)
		must.Do(t, os.WriteFile(path, nil, 0o600))
		if strings.Contains(name, "old") || name == "other" {
			must.Do(t, os.Chtimes(path, time.Time{}, time.Now().Add(-25*time.Hour)))
		}
	}
	m.dial()
	polltest.Check(t, func() error {
		want := []string{"other", "place-KEY", "place-KEY.lock", "place-KEY.log", "place-young", "place-young.lock"}
		if files := m.files(); !slices.Equal(files, want) {
			return fmt.Errorf("the files are %q", files)
		}
		return nil
	})
}

// A life is what was read of a job's life.
type life struct {
	output strings.Builder
	record jobs.Record // the last one
	at     stream.Position
}

// read reads a life until enough reports true, or it is complete. It reports whether it is complete; the
// error is that of a lost link.
func (l *life) read(r *stream.Reader, enough func() bool) (complete bool, err error) {
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		l.output.Write(f.Data)
		l.at.Cursor += int64(len(f.Data))
		if f.Record != nil {
			l.record = *f.Record
		}
		if enough() {
			return false, nil
		}
	}
}

// start starts a job.
func (j *joined) start(t *testing.T, id, tool string, args map[string]any, keep bool) (*stream.Reader, io.Closer) {
	t.Helper()
	r, c, err := j.client(t).Start(t.Context(), id, tool, must.Get(json.Marshal(args))(t), keep, stream.Position{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return r, c
}

// whole runs a job to its end.
func (j *joined) whole(t *testing.T, tool string, args map[string]any) life {
	t.Helper()
	var l life
	r, _ := j.start(t, ulid.Make().String(), tool, args, false)
	if complete, err := l.read(r, never); err != nil || !complete {
		t.Fatalf("after %+v: %v", l.record, err)
	}
	return l
}

// never is for a life that is read to its end.
func never() bool { return false }

// Jobs run there, and nothing that is set for servers of that machine counts.
func TestJobsRunAtAPlace(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	m.env = append(m.env, "REPL_PYTHON=/missing", "REPL_MAX_JOBS=none", "REPL_WORKDIR=relative", "REPL_SHELL=/missing", "OF_THE_MACHINE=1")
	j := m.dial()
	l := j.whole(t, "execute_python", map[string]any{"code": "import os\nx = 6\nprint(os.getcwd(), os.environ['OF_THE_MACHINE'])"})
	if want := m.settings.Workspace + " 1\n"; l.record.Status != jobs.Completed || l.output.String() != want {
		t.Errorf("%s: %q, want %q", l.record.Status, &l.output, want)
	}
	again := m.dial("-start", j.Start) // another link to the same variables
	if l := again.whole(t, "execute_python", map[string]any{"code": "x * 7"}); l.record.Result != "42" {
		t.Errorf("the result is %+v", l.record)
	}
	if l := again.whole(t, "execute_command_async", map[string]any{"command": "echo $((6 * 7)); exit 3"}); l.record.Receipt.Code != 3 || !strings.Contains(l.output.String(), "42") {
		t.Errorf("%+v: %q", l.record.Receipt, &l.output)
	}
	text, refused, err := again.client(t).Call(t.Context(), "list_sessions", nil, func() {})
	if err != nil || refused || !strings.Contains(text, "default") {
		t.Errorf("list_sessions: %q, %v, %v", text, refused, err)
	}
	state, err := j.client(t).State(t.Context())
	if err != nil || state.Unused || !slices.Equal(state.Names, []string{"default"}) {
		t.Errorf("the state is %+v, %v", state, err)
	}
	_, _, err = j.client(t).Start(t.Context(), ulid.Make().String(), "execute_python", json.RawMessage(`{"code": 7}`), false, stream.Position{})
	if refused := new(far.Refused); !errors.As(err, &refused) || refused.Code != http.StatusUnprocessableEntity {
		t.Errorf("bad arguments: %v", err)
	}
}

// A job outlives the link over which it was started, and not a byte of its output is lost or doubled.
func TestJobOutlivesItsLinks(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	j := m.dial()
	const lines = 40000
	id := ulid.Make().String()
	args := map[string]any{"command": fmt.Sprintf("for i in $(seq %d); do echo line $i; done", lines)}
	var l life
	r, _ := j.start(t, id, "execute_command_async", args, false)
	for cuts := 0; ; cuts++ {
		from := l.at.Cursor
		complete, err := l.read(r, func() bool { return l.at.Cursor > from+20000 && cuts < 8 })
		if complete {
			if cuts != 8 {
				t.Errorf("the link was cut %d times", cuts)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		must.Do(t, j.cmd.Process.Kill())
		j.ends()
		j = m.dial("-start", j.Start)
		var c io.Closer
		if r, c, err = j.client(t).Follow(t.Context(), id, l.at); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "line %d\r\n", i+1)
	}
	if got := l.output.String(); l.record.Status != jobs.Completed || got != want.String() {
		t.Errorf("%s: %d bytes, want %d", l.record.Status, len(got), want.Len())
	}
}

// A job that is kept continues after the goodbye, and can be read after its end. Others end.
func TestKeptJobContinuesAtItsPlace(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	m.settings.NoHistory = true
	j := m.dial()
	pid := m.engine()
	gate := filepath.Join(m.settings.Workspace, "gate")
	must.Do(t, syscall.Mkfifo(gate, 0o600))
	kept, other := ulid.Make().String(), ulid.Make().String()
	r, _ := j.start(t, kept, "execute_command_async", map[string]any{"command": "cat gate"}, true)
	var l, o life
	l.read(r, func() bool { return l.record.Status == jobs.Running })
	or, _ := j.start(t, other, "execute_command_async", map[string]any{"command": "sleep 1000"}, false)
	o.read(or, func() bool { return o.record.Status == jobs.Running })
	must.Do(t, j.client(t).End(t.Context()))
	if complete, err := o.read(or, never); !complete || o.record.Status != jobs.Cancelled || o.record.Receipt.By != jobs.Shutdown {
		t.Errorf("the other job: %+v, %v", o.record, err)
	}
	must.Do(t, j.cmd.Process.Kill())
	j.ends()
	must.Do(t, os.WriteFile(gate, []byte("through the gate\n"), 0))
	again := m.dial("-start", j.Start)
	r, c, err := again.client(t).Follow(t.Context(), kept, l.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if complete, err := l.read(r, never); !complete || l.record.Status != jobs.Completed || !strings.Contains(l.output.String(), "through the gate") {
		t.Errorf("the kept job: %+v, %q, %v", l.record, &l.output, err)
	}
	must.Do(t, again.client(t).End(t.Context())) // nothing is kept any more
	m.leavesNothing(pid)
}

// When no server came back in time, what is not kept ends. What is kept continues, and the engine ends
// after it.
func TestKeptJobOutlivesTheWaitForAServer(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	m.settings.NoHistory = true
	m.settings.Linger = 300 * time.Millisecond
	j := m.dial()
	pid := m.engine()
	gate := filepath.Join(m.settings.Workspace, "gate")
	must.Do(t, syscall.Mkfifo(gate, 0o600))
	var k, o life
	kept := k.pidOf(t, j, ulid.Make().String(), "execute_command_async", map[string]any{"command": "echo $$.; cat gate"}, true)
	other := o.pidOf(t, j, ulid.Make().String(), "execute_command_async", map[string]any{"command": "echo $$.; exec sleep 1000"}, false)
	must.Do(t, j.cmd.Process.Kill())
	j.ends()
	processtest.Gone(t, other)
	if !alive(kept) || !alive(pid) {
		t.Error("the kept job has ended")
	}
	must.Do(t, os.WriteFile(gate, nil, 0))
	processtest.Gone(t, kept)
	m.leavesNothing(pid)
}

// A killed engine takes the processes of its jobs along.
func TestKilledFarEngineLeavesNoProcess(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	j := m.dial()
	var l life
	r, _ := j.start(t, ulid.Make().String(), "execute_command_async", map[string]any{"command": "echo $$.; exec sleep 1000"}, false)
	l.read(r, func() bool { return strings.Contains(l.output.String(), ".") })
	var pid int
	must.Get(fmt.Sscanf(l.output.String(), "%d.", &pid))(t)
	kill(t, m.engine())
	if complete, err := l.read(r, never); complete || err == nil {
		t.Error("the life is complete")
	}
	processtest.Gone(t, pid)
}

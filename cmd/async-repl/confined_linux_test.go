package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/release/version"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// prepareConfined returns a server with a front, whose engines run in a sandbox.
func prepareConfined(t testing.TB, env ...string) *started {
	t.Helper()
	if *transport != "stdio" {
		t.Skip("the same servers as over stdio")
	}
	needtest.Program(t, "bwrap")
	s := prepareFront(t, env...)
	s.confine()
	return s
}

// openConfined starts a server with a front, and opens a session.
func openConfined(t testing.TB, env ...string) *started {
	t.Helper()
	s := prepareConfined(t, env...)
	s.open()
	return s
}

// ask calls a tool and returns the text of its answer, also if that is an error.
func (s *started) ask(tool string, args ...any) (answer string) {
	s.t.Helper()
	r, err := s.Call(s.ctx(), tool, pairs(args))
	if err != nil && !errors.Is(err, client.ErrTool) {
		s.t.Fatalf("the client is lost: %v", err)
	}
	if err != nil {
		return err.Error()
	}
	return string(r)
}

// isRefused waits until a call says why no engine starts. The front need not know at once that one
// has ended, and the remaining processes of a killed one can answer calls for a moment.
func (s *started) isRefused(why string) {
	s.t.Helper()
	polltest.Check(s.t, func() error {
		if got := s.ask("list_jobs"); !strings.Contains(got, why) {
			return fmt.Errorf("the call is answered with %s", got)
		}
		return nil
	})
	if got := s.refused("execute_command_async", "command", "touch ran", "wait_seconds", 60); !strings.Contains(got, why) {
		s.t.Errorf("the call is answered with %s", got)
	}
}

// again waits until the client has an engine that runs jobs, and nothing of the one before is
// there.
func (s *started) again(before int) {
	s.t.Helper()
	polltest.Check(s.t, func() error { // the front starts no engine at once if some have died
		_, err := s.Call(s.ctx(), "execute_command_async", pairs([]any{"command", "true", "wait_seconds", 60}))
		return err
	})
	engine := pidOfEngine(s)
	polltest.Check(s.t, func() error {
		temps, _ := filepath.Glob(filepath.Join(filepath.Dir(s.records()), "tmp", "*"))
		if names := s.sockets(); len(chainOf(engine)) != 4 || len(names) != 1 || len(temps) != 1 || engine != before && alive(before) {
			return fmt.Errorf("engine %d has the processes %v; names are %v, and directories %v; engine %d is alive: %t", engine, chainOf(engine), names, temps, before, alive(before))
		}
		return nil
	})
}

// A job can do what it likes to the processes of its sandbox. The call is answered, and the next
// one has an engine.
func TestConfinedJobsThatHarmTheEngine(t *testing.T) {
	t.Parallel()
	const cut = `import ctypes, os, socket, sys
for number in range(3, 20):
    fd = ctypes.CDLL(None).syscall(438, os.pidfd_open(int(sys.argv[1])), number, 0)
    if fd < 0: continue
    try: s = socket.socket(fileno=fd)
    except OSError: continue
    if s.type & 15 == socket.SOCK_SEQPACKET: s.shutdown(socket.SHUT_RDWR); print("cut")
`
	for name, test := range map[string]struct {
		command string
		ends    bool // the signal ends the engine
	}{
		"kills all":               {"kill -9 -1; sleep 300", true},
		"kills the engine":        {"kill -9 $PPID; sleep 300", true},
		"kills the first process": {"kill -9 1; kill -TERM 1; echo on", false},
		"cuts the channel":        {"python3 cut.py $PPID; sleep 300", true},
		"floods the channel":      {"python3 flood.py $PPID; echo on", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openConfined(t)
			s.write("cut.py", cut)
			s.write("flood.py", strings.ReplaceAll(cut, `s.shutdown(socket.SHUT_RDWR)`, `[s.send(b'{"Request":1,"Kind":"found"}', socket.MSG_DONTWAIT) for _ in range(100)]`))
			s.run("kept = 1")
			before := s.engine()
			answer := s.ask("execute_command_async", "command", test.command, "wait_seconds", 60)
			if test.ends != strings.Contains(answer, "The server died during this call") {
				t.Errorf("the call is answered with %s", answer)
			}
			s.again(before)
			if same := s.engine() == before; same == test.ends {
				t.Errorf("engine %d follows %d", s.engine(), before)
			}
		})
	}
}

// stopEngine runs a command that stops the engine, and returns its processes.
func (s *started) stopEngine(command string) []int {
	s.t.Helper()
	chain := chainOf(pidOfEngine(s))
	must.Get(s.Start("execute_command_async", map[string]any{"command": command, "wait_seconds": 60}))(s.t)
	polltest.Until(s.t, "the engine to stop", func() bool {
		p, err := procfs.Inspect(chain[len(chain)-1])
		return err == nil && p.State == 'T'
	})
	return chain
}

// A job that stops the engine holds neither the front nor the sandbox when the client leaves.
func TestConfinedJobStopsTheEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the front stops waiting for the engine")
	}
	t.Parallel()
	for name, command := range map[string]string{
		"by a signal": "kill -STOP $PPID",
		"as a tracer": `python3 -c "import ctypes; ctypes.CDLL(None).ptrace(16, $PPID, 0, 0)"`,
		"for ever":    "while kill -STOP $PPID; do :; done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openConfined(t)
			chain := s.stopEngine(command)
			s.stdin.Close()
			s.exit()
			gone(t, chain)
			if names := s.sockets(); len(names) > 0 {
				t.Errorf("left are %v", names)
			}
		})
	}
}

// An engine that a job has stopped continues when its client is lost, with all that it keeps for the next one.
func TestConfinedEngineContinuesWithoutItsClient(t *testing.T) {
	t.Parallel()
	s := openConfined(t)
	s.run("kept = 41")
	chain := s.stopEngine("kill -STOP $PPID")
	s.lose()
	polltest.Until(t, "the engine to continue", func() bool {
		p, err := procfs.Inspect(chain[len(chain)-1])
		return err != nil || p.State != 'T'
	})
	if r := s.next().run("kept + 1"); !strings.HasPrefix(r.Section("RESULT"), "42") {
		t.Error(r)
	}
}

// A fork bomb ends with its sandbox.
func TestConfinedForkBomb(t *testing.T) {
	if testing.Short() {
		t.Skip("starts hundreds of processes")
	}
	s := prepareConfined(t)
	uid := 62_000 + os.Getpid()%1000
	as(uid, "resource.setrlimit(resource.RLIMIT_NPROC, (300, 300))")(t, s)
	s.cmd.Env = append(s.cmd.Env, "REPL_PYTHON="+interpreter(), "XDG_RUNTIME_DIR=")
	s.open()
	engine := pidOfEngine(s)
	s.do("execute_command_async", "command", "bomb() { bomb & bomb; }; bomb 2>/dev/null", "tty", false, "wait_seconds", 0)
	polltest.Until(t, "the bomb", func() bool { return processesOf(t, uid) > 200 })
	began := time.Now()
	must.Do(t, syscall.Kill(engine, syscall.SIGKILL))
	polltest.Until(t, "the end of the bomb", func() bool { return processesOf(t, uid) <= 1 }) // the front
	t.Logf("nothing left after %v", time.Since(began))
	if answer := s.ask("execute_command_async", "command", "echo on", "wait_seconds", 60); !strings.Contains(answer, "on") {
		t.Errorf("the next call is answered with %s", answer)
	}
}

// If the disk is full, jobs continue. If a sandbox can't start because of that, each call says so.
func TestConfinedOnAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts a disk and fills it")
	}
	t.Parallel()
	s := prepareConfined(t)
	state := s.setting("REPL_STATE_DIR")
	must.Do(t, os.Mkdir(state, 0o700))
	s.onDisk(state, "size=4m,nr_inodes=200")
	s.open()
	check := func(tool, what, code, status string) {
		t.Helper()
		if r := s.do(tool, what, code, "wait_seconds", 60); !strings.HasPrefix(r.Header("Status"), status) {
			t.Errorf("%s: %s", code, r)
		}
	}
	check("execute_command_async", "command", "head -c 20M /dev/zero > /tmp/large", "failed (exit 1)")
	check("execute_command_async", "command", "echo on", "completed")
	check("execute_python", "code", "1 + 1", "completed")
	kill(t, s.engine())
	next := func() {
		t.Helper()
		polltest.Check(t, func() error { // the front starts no engine at once if some have died
			_, err := s.Call(s.ctx(), "execute_command_async", pairs([]any{"command", "true", "wait_seconds", 60}))
			return err
		})
	}
	next() // which has removed the file
	engine := s.engine()
	must.Do(t, syscall.Kill(engine, syscall.SIGTERM))
	processtest.Gone(t, engine)
	disk := fmt.Sprintf("/proc/%d/root%s", s.cmd.Process.Pid, state)
	var fillers []string
	for i := 0; ; i++ { // no file more fits
		path := filepath.Join(disk, fmt.Sprint("filler", i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			break
		}
		fillers = append(fillers, path)
	}
	for range 2 {
		s.isRefused("o space left on device") // bubblewrap says it with a capital, if the plan of the sandbox still found room
	}
	if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
		t.Error("a job ran without a sandbox")
	}
	for _, path := range fillers {
		must.Do(t, os.Remove(path))
	}
	next()
}

// A client can be lost at any moment of the start. Nothing is left then.
func TestConfinedClientIsLostAtTheStart(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	rounds, seed := jobstest.Storm(t, confinedRounds)
	for i := range rounds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			tag := newTag()
			s := &storm{started: openConfined(t, "STORM="+tag, "REPL_LINGER=0"), rand: r, tag: tag}
			must.Get(s.Start("execute_command_async", map[string]any{"command": "sleep " + tag, "wait_seconds": 60}))(t)
			s.pause(time.Duration(r.IntN(60)) * time.Millisecond)
			switch r.IntN(4) {
			case 0:
				s.cmd.Process.Kill()
				s.exit()
			case 1:
				s.lose()
			case 2: // and one of the processes that there are by then is killed
				engine := 0
				for end := time.Now().Add(patience); engine == 0 && time.Now().Before(end); engine = s.engine() {
				}
				if engine == 0 {
					t.Fatal("no engine was started")
				}
				chain := chainOf(engine)
				for many := 1 + r.IntN(4); len(chain) < many && alive(engine); chain = chainOf(engine) {
				}
				syscall.Kill(chain[r.IntN(len(chain))], syscall.SIGKILL)
				s.stdin.Close()
				s.exit()
				s.clear()
				s.next().again(engine)
				return
			default:
				s.cmd.Process.Signal(syscall.SIGTERM)
				s.exit()
			}
			s.clear()
			temps, _ := filepath.Glob(filepath.Join(filepath.Dir(s.records()), "tmp", "*"))
			if names := s.sockets(); len(names)+len(temps) > 0 {
				t.Errorf("left are %v and %v", names, temps)
			}
		})
	}
}

// Signals that the process outside gets reach the engine, except a hangup.
func TestConfinedSignals(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		for target, of := range map[string]func(outer int) int{
			"outer":     func(outer int) int { return outer },
			"its group": func(outer int) int { return -outer },
		} {
			t.Run(sig.String()+", "+target, func(t *testing.T) {
				t.Parallel()
				s := openConfined(t)
				s.run("kept = 1")
				job := s.do("execute_command_async", "command", "read x", "wait_seconds", 0).Header("Job ID")
				before := s.engine()
				chain := chainOf(before)
				must.Do(t, syscall.Kill(of(before), sig))
				if sig == syscall.SIGHUP {
					if r := s.run("kept"); !strings.HasPrefix(r.Section("RESULT"), "1") || s.engine() != before {
						t.Errorf("after a hangup: %s", r)
					}
					return
				}
				gone(t, chain)
				s.again(before)
				if status := s.do("check_job_status", "job_id", job).Header("Status"); !strings.HasPrefix(status, "cancelled (") {
					t.Errorf("the job is %s", status)
				}
			})
		}
		t.Run(sig.String()+", one process", func(t *testing.T) {
			t.Parallel()
			s := prepareConfined(t, "REPL_KEEPER=off")
			s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			s.open()
			s.run("kept = 1")
			s.do("execute_command_async", "command", "read x", "wait_seconds", 0)
			chain := chainOf(s.engine())
			must.Do(t, syscall.Kill(-chain[0], sig))
			if got := s.exit(); got != "exit status 0" {
				t.Error(got)
			}
			gone(t, chain)
			temps, _ := filepath.Glob(filepath.Join(filepath.Dir(s.records()), "tmp", "*"))
			if len(temps) > 0 {
				t.Errorf("left are %v", temps)
			}
		})
	}
}

// The secrets of a client that takes an engine over reach no job, and its other variables do.
func TestConfinedTakeOverWithSecrets(t *testing.T) {
	t.Parallel()
	s := openConfined(t, "FIRST_TOKEN=secret-1", "PLAIN=plain-1")
	s.run("kept = 1")
	engine := s.engine()
	s.lose()
	s.cmd.Env = append(s.cmd.Env, "SECOND_API_KEY=secret-2", "PASSED_TOKEN=secret-3", "SSH_AUTH_SOCK=/secret-4", "PLAIN=plain-2")
	n := s.next()
	const look = "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; grep -l secret /tmp/* 2>/dev/null"
	for name, got := range map[string]string{
		"a command":       string(n.do("execute_command_async", "command", look, "tty", false, "wait_seconds", 60, "max_chars", 40_000)),
		"a shell session": string(n.do("execute_command_async", "command", look, "shell_session", "sh", "wait_seconds", 60, "max_chars", 40_000)),
		"Python":          string(n.run("import os\nprint(os.environ, kept)")),
		"a new session":   string(n.run("import os\nprint(os.environ)", "session", "new")),
	} {
		if strings.Contains(got, "secret-") {
			t.Errorf("%s has a secret:\n%s", name, got)
		}
		if !strings.Contains(got, "plain-2") && name != "Python" { // the variables of a session are those of its start
			t.Errorf("%s has no variable of the client:\n%s", name, got)
		}
	}
	if n.engine() != engine {
		t.Errorf("engine %d was not taken over, but %d", engine, n.engine())
	}
}

// Servers take over no engine that is confined in another way.
func TestConfinedInAnotherWay(t *testing.T) {
	t.Parallel()
	for name, other := range map[string][]string{
		"without a sandbox": {"REPL_SANDBOX=none"},
		"network":           {"REPL_SANDBOX_NET=all"},
		"read":              {"REPL_SANDBOX_READ=/var/log"},
		"passed":            {"REPL_SANDBOX_ENV=A_TOKEN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openConfined(t)
			s.run("kept = 1")
			s.lose()
			n := s.another()
			n.cmd.Env = append(n.cmd.Env, other...)
			n.open()
			if r := n.run("'kept' in globals()"); !strings.HasPrefix(r.Section("RESULT"), "False") || r.Header("Resumed") != "" {
				t.Errorf("the other server has %s", r)
			}
			n.stop()
			n.exit()
			if r := s.next().run("kept"); !strings.HasPrefix(r.Section("RESULT"), "1") {
				t.Errorf("the same server has %s", r)
			}
		})
	}
}

// While a server runs, its program can be replaced by another version. Its engine continues.
// Another can't be started, and the error says what to do. The new version takes the engine over.
func TestConfinedUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("copies the program")
	}
	t.Parallel()
	s := prepareConfined(t)
	self := filepath.Join(filepath.Dir(s.setting("REPL_STATE_DIR")), "server")
	publish(t, s.cmd.Path, self, 0o755)
	s.cmd.Path = self
	s.open()
	s.run("kept = 1")
	next := bytes.ReplaceAll(must.Get(os.ReadFile(self))(t), []byte(version.Release), []byte(strings.Repeat("9", len(version.Release))))
	processtest.WriteProgram(t, self+".new", string(next))
	must.Do(t, os.Rename(self+".new", self))
	s.run("import subprocess\nsubprocess.run(['true'])", "session", "new")
	s.lose()
	n := s.next()
	if r := n.run("kept"); !strings.HasPrefix(r.Section("RESULT"), "1") {
		t.Errorf("the new version has %s", r)
	}

	old := prepareConfined(t)
	self = filepath.Join(filepath.Dir(old.setting("REPL_STATE_DIR")), "server")
	publish(t, ownProgram(t), self, 0o755)
	old.cmd.Path = self
	old.open()
	before := pidOfEngine(old)
	processtest.WriteProgram(t, self+".new", string(next))
	must.Do(t, os.Rename(self+".new", self))
	kill(t, before)
	old.isRefused("has taken the place of " + version.Release)
	old.isRefused("restart the server")
	if _, err := os.Stat(filepath.Join(old.dir, "ran")); err == nil {
		t.Error("a job ran without a sandbox")
	}
	if pids := slices.DeleteFunc(children(old.cmd.Process.Pid), func(pid int) bool { return !alive(pid) }); len(pids) > 0 {
		t.Errorf("left are %v", pids)
	}
}

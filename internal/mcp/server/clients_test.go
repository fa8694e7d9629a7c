package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/release/wheel"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/pythontest"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pkgmgr"
)

// pipArg makes the test binary play the program pip of jobs.
const pipArg = "server-pip"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == pipArg {
		err := pkgmgr.RunPip(context.Background(), os.Args[2], os.Args[3:], os.Environ(), func(string) {})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(processtest.Main(m))
}

// A rig is a real engine. Its clients differ in what they bring.
type rig struct {
	*world
	engine *engine.Engine
	real   string // a Python
}

func newRig(t *testing.T) *rig {
	t.Helper()
	w := newWorld(t)
	guard := processtest.Guard(t)
	eng, err := engine.New(engine.Config{
		Version: "test", Guard: guard, GuardEnv: os.Environ(), Pip: []string{guard[0], pipArg}, Workspace: w.workspace, Shell: "/bin/sh",
		StateDir: t.TempDir(), MaxJobs: 100, MaxSessions: 10, MaxOutput: 1 << 20, MaxState: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(eng.Close)
	w.config.Backend = eng
	return &rig{w, eng, pythontest.Real(t)}
}

// A guest is a client with an environment and a PATH of its own.
type guest struct {
	*client
	name, bin, venv string
	brings          engine.Client
}

// guest connects a client. Its sessions are called after it. The program whoami on its PATH prints
// its name.
func (r *rig) guest(name string, grace time.Duration) *guest {
	r.t.Helper()
	g := &guest{name: name, bin: r.t.TempDir(), venv: filepath.Dir(filepath.Dir(pythontest.Bare(r.t, r.real)))}
	processtest.WriteProgram(r.t, filepath.Join(g.bin, "whoami"), "#!/bin/sh\necho "+name+"\n")
	g.brings = engine.Client{Grace: grace, Env: []string{
		"PATH=" + g.bin + ":/usr/bin:/bin", "VIRTUAL_ENV=" + g.venv, "HOME=" + r.t.TempDir(), "LANG=C.UTF-8",
		"PIP_CONFIG_FILE=/dev/null", "PIP_NO_INDEX=1", "UV_NO_CONFIG=1", "UV_OFFLINE=1",
	}}
	g.client = r.join(name, g.brings)
	return g
}

// join connects a client whose calls use a session, if they name none.
func (r *rig) join(session string, brings engine.Client) *client {
	r.t.Helper()
	sc := r.engine.Scope(brings)
	sc.Session = session
	c := r.serve(func(ctx context.Context, conn net.Conn) error { return serve(ctx, conn, r.config, sc, 0) })
	c.handshake()
	return c
}

// ends makes a call that waits for the end of its job, which must complete, and returns the output.
func (c *client) ends(tool string, a given) string {
	c.t.Helper()
	a["wait_seconds"] = jobstest.Patience.Seconds()
	reply := c.call(tool, a)
	if !strings.HasPrefix(field(reply, "Status"), "completed") {
		c.t.Fatalf("%s(%v):\n%s", tool, a, reply)
	}
	_, output, _ := strings.Cut(reply, "---\n")
	return output
}

// shows checks that the output of a call that waits for its job has each of some lines.
func (c *client) shows(tool string, a given, lines ...string) {
	c.t.Helper()
	output := c.ends(tool, a)
	for _, line := range lines {
		if !strings.Contains("\n"+output, "\n"+line+"\n") {
			c.t.Errorf("%s(%v) does not show %q:\n%s", tool, a, line, output)
		}
	}
}

// where is code that prints where its Python looks.
const where = "import os, shutil, sys; print(sys.prefix); print(shutil.which('whoami')); print(os.environ['VIRTUAL_ENV'])"

// Two clients of one engine that differ in PATH, VIRTUAL_ENV and grace have the Python, the programs
// and the waits that they brought. Each can use the session of the other, which stays as it is, and
// so do its branches.
func TestClientsOfOneEngine(t *testing.T) {
	r := newRig(t)
	quick, patient := r.guest("quick", time.Millisecond), r.guest("patient", jobstest.Patience)
	for _, g := range []*guest{quick, patient} {
		other := map[*guest]*guest{quick: patient, patient: quick}[g]
		whoami := filepath.Join(g.bin, "whoami")
		g.shows("execute_python", given{"code": where}, g.venv, whoami, g.venv)
		g.shows("execute_command_async", given{"command": "whoami; command -v python; echo $VIRTUAL_ENV"}, g.name, g.venv+"/bin/python", g.venv)
		g.shows("execute_command_async", given{"command": "whoami", "shell_session": "shared"}, g.name)
		other.shows("execute_python", given{"code": where, "session": g.name}, g.venv, whoami, g.venv)
		branch := "branch-of-" + g.name
		polltest.Check(t, func() error { // the job's session can be busy for longer than a grace of 1 ms
			made := map[string]any{"name": "create_session", "arguments": given{"name": branch, "from_session": g.name}}
			if text, refused := toolReply(t, other.request("tools/call", made)); refused {
				return errors.New(text)
			}
			return nil
		})
		other.call("restart_python_worker", given{"session": branch})
		other.shows("execute_python", given{"code": where, "session": branch}, g.venv, whoami, g.venv)
		status := g.call("server_status", nil)
		for _, want := range []string{g.venv + "/bin/python (", g.bin + ":/usr/bin:/bin (PATH), for python3 and uv"} {
			if !strings.Contains(status, want) {
				t.Errorf("the status for %s lacks %q:\n%s", g.name, want, status)
			}
		}
	}

	// Both wait for a file. The one with the short grace is answered before there is one.
	file := filepath.Join(r.workspace, "file")
	wait := given{"command": "while [ ! -e " + file + " ]; do sleep 0.01; done"}
	id := patient.startCall("execute_command_async", wait)
	reply := quick.call("execute_command_async", wait)
	if status := field(reply, "Status"); status != "running" && status != "queued" { // on a busy machine it has not begun
		t.Errorf("a call with a grace of 1 ms:\n%s", reply)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := patient.read()
	if reply, _ := toolReply(t, m); m.ID != id || field(reply, "Status") != "completed" {
		t.Errorf("a call with a long grace:\n%s", reply)
	}
}

// What a client of an engine installs goes into its own environment, by the tool and by the pip of
// its shell. A session is noted that has imported an earlier version, even if another client of the
// same environment made it.
func TestClientsInstallForThemselves(t *testing.T) {
	if testing.Short() {
		t.Skip("pip takes seconds")
	}
	r := newRig(t)
	one, two := r.guest("one", 0), r.guest("two", 0)
	if uv, err := exec.LookPath("uv"); err == nil { // then the two have different installers
		if err := os.Symlink(uv, filepath.Join(two.bin, "uv")); err != nil {
			t.Fatal(err)
		}
	}
	saved := func(version string) string {
		path, err := wheel.OfModule("spam", version, "value = '"+version+"'\n").Save(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	value := given{"code": "import spam; print(spam.value)"}
	one.ends("install_package_async", given{"package": saved("1.0")})
	one.shows("execute_python", value, "1.0")
	two.shows("execute_command_async", given{"command": "pip install " + saved("2.0") + " && pip list"}, "Successfully installed spam-2.0")
	two.shows("execute_python", value, "2.0")
	one.shows("execute_command_async", given{"command": "pip list --format=freeze"}, "spam==1.0")
	brings := one.brings
	brings.Env = append(slices.Clone(brings.Env), "MORE=1")
	third := r.join("third", brings)
	reply := third.call("install_package_async", given{"package": saved("3.0"), "wait_seconds": jobstest.Patience.Seconds()})
	if want := "session one has imported spam before; restart its Python to use spam 3.0 there"; field(reply, "Note") != want {
		t.Errorf("the note of the install is not %q:\n%s", want, reply)
	}
}

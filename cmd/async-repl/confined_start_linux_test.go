package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// startConfined starts a server in a sandbox, in a home of its own, with a secret.
func startConfined(t *testing.T, env ...string) *started {
	t.Helper()
	needtest.Program(t, "bwrap")
	overStdio(t, "these servers are over stdio")
	s := prepare(t)
	s.confine()
	home := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(home, "key"), []byte("PRIVATE"), 0o600))
	s.cmd.Env = append(s.cmd.Env, "REPL_SANDBOX_WRITE=", "HOME="+home, "PATH="+os.Getenv("PATH"), "GITHUB_TOKEN=PRIVATE", "REPL_PYTHON="+realPython())
	s.cmd.Env = append(s.cmd.Env, env...)
	return s
}

// A job has its workspace and a /tmp, and nothing of the person's.
func TestConfinedJobs(t *testing.T) {
	t.Parallel()
	for _, keeper := range []string{"on", "off"} {
		s := startConfined(t, "REPL_KEEPER="+keeper)
		s.open()
		r := s.do("execute_command_async", "wait_seconds", 60, "command", "cat ~/key; env; echo evil > ~/.bashrc; echo x > made; touch /tmp/x && echo ok")
		if r.Header("Status") != "completed" || strings.Contains(string(r), "PRIVATE") || !strings.Contains(string(r), "\nok") || r.Header("Sandbox") != "" {
			t.Errorf("keeper %s: %s", keeper, r)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "made")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(s.setting("HOME"), ".bashrc")); err == nil {
			t.Error("a job has written to the home directory")
		}
		r = s.do("execute_python", "wait_seconds", 60, "code", "open('/etc/x', 'w')")
		want := "workspace; writes " + s.dir + ", /tmp; home hidden; network none"
		if got := r.Header("Sandbox"); got != want {
			t.Errorf("a failed job says %q, want %q\n%s", got, want, r)
		}
		if r := s.do("server_status"); r.Header("Sandbox") != want || !strings.Contains(string(r), "GITHUB_TOKEN") {
			t.Errorf("%s", r)
		}
		s.stop()
		s.exit()
	}
}

// If the sandbox can't start, each call says why, and nothing runs outside of one.
func TestConfinedServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"echo 'bwrap: Unknown option --x' >&2; exit 1": "bwrap: Unknown option --x: this bwrap is older than 0.4.0: install a newer one",
		"exit 0":                     "the engine did not start in the sandbox",
		"exec sleep 1000":            "bubblewrap did not start the engine within 5s",
		"exec 3>&-; exec sleep 1000": "bubblewrap did not start the engine within 5s",
		"while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\" 3</dev/null": "does not lead out of a sandbox",
	} {
		for _, keeper := range []string{"on", "off"} {
			t.Run(fmt.Sprintf("%.20s/%s", script, keeper), func(t *testing.T) {
				t.Parallel()
				bin := t.TempDir()
				processtest.WriteProgram(t, filepath.Join(bin, "bwrap"), "#!/bin/sh\n"+script+"\n")
				s := startConfined(t, "REPL_KEEPER="+keeper, "PATH="+bin+":/usr/bin:/bin")
				s.open()
				for range 2 {
					if got := s.refused("execute_command_async", "command", "touch ran"); !strings.Contains(got, want) {
						t.Errorf("got %q, want %q", got, want)
					}
				}
				if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
					t.Error("a job ran outside of a sandbox")
				}
			})
		}
	}
}

// What can be known before the first call ends the start.
func TestConfinedServerWithBadSettings(t *testing.T) {
	t.Parallel()
	for want, env := range map[string]string{
		"install the package bubblewrap":                   "PATH=/none",
		`does not exist: set REPL_SANDBOX_READ to another`: "REPL_SANDBOX_READ=/none/there",
		`is in `: "REPL_STATE_DIR=WORKSPACE/state",
		`can't be used; allowed: none, false or workspace`:      "REPL_SANDBOX=yes",
		`"http://a.example" is a URL or a range of addresses`:   "REPL_SANDBOX_NET=http://a.example",
		`which belongs to the system: set REPL_WORKDIR to anot`: "REPL_WORKDIR=/usr",
	} {
		s := startConfined(t)
		s.cmd.Env = append(s.cmd.Env, "REPL_SHELL=/bin/sh", strings.ReplaceAll(env, "WORKSPACE", s.dir))
		s.begin()
		if state := s.exit(); !strings.HasPrefix(state, "exit status") || state == "exit status 0" || !strings.Contains(s.log.String(), want) {
			t.Errorf("%s: %s, %s, want %q", env, state, s.log, want)
		}
	}
}

// A job reaches the hosts of the list, and each other one that it tries is in its reply.
func TestConfinedNetwork(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	listen := func() string {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reached.Add(1)
			fmt.Fprint(w, "hello")
		})}
		go web.Serve(l) // ends with the test
		t.Cleanup(func() { web.Close() })
		return l.Addr().String()
	}
	good, bad := listen(), listen()
	s := startConfined(t, "REPL_SANDBOX_NET="+good)
	s.open()
	// Programs reach addresses of the loopback without the proxy, unless a variable says otherwise.
	fetch := `import os, urllib.request
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
print(urllib.request.urlopen("http://%s/").read())`
	if r := s.do("execute_python", "wait_seconds", 60, "code", fmt.Sprintf(fetch, good)); !strings.Contains(string(r), "hello") || r.Header("Denied") != "" {
		t.Errorf("%s", r)
	}
	before := reached.Load()
	r := s.do("execute_python", "wait_seconds", 60, "code", fmt.Sprintf(fetch, bad))
	if got := r.Header("Denied"); !strings.HasPrefix(got, "HTTP "+bad+" by python") || r.Header("Status") == "completed" {
		t.Errorf("denied %q: %s", got, r)
	}
	r = s.do("execute_python", "wait_seconds", 60, "code", fmt.Sprintf("import socket; socket.create_connection(%q.split(':'))", bad))
	if r.Header("Status") == "completed" || reached.Load() != before {
		t.Errorf("a job reached %s: %s", bad, r)
	}
}

// A file that vanishes between the plan of a sandbox and its mounts costs a second try, whatever bubblewrap
// says of it.
func TestConfinedServerStartsAfterAFileHasVanished(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	s := startConfined(t, "PATH="+bin+":/usr/bin:/bin")
	bwrap := must.Get(exec.LookPath("bwrap"))(t)
	processtest.WriteProgram(t, filepath.Join(bin, "bwrap"), fmt.Sprintf("#!/bin/sh\nif mkdir %[1]s/tried 2>/dev/null; then\n"+
		"echo \"bwrap: /etc/passwd- has gone\" >&2; exit 1\nfi\nexec %[2]s \"$@\"\n", bin, bwrap))
	s.open()
	if r := s.do("execute_command_async", "wait_seconds", 60, "command", "echo hi"); r.Expect("completed", "hi") != nil {
		t.Errorf("%s", r)
	}
	if _, err := os.Stat(filepath.Join(bin, "tried")); err != nil {
		t.Error("the first try was not made")
	}
}

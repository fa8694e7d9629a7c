package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// needsBwrap skips a test whose servers are in a sandbox if there can be none, or if the transport has one
// already.
func needsBwrap(t testing.TB) {
	t.Helper()
	needtest.Program(t, "bwrap")
	if *transport != "stdio" {
		t.Skip("the test chooses itself which of its servers are in a sandbox")
	}
}

// prepareTenants returns a server of several tenants, each of which is in a sandbox of its own if apart is true.
func prepareTenants(t testing.TB, apart bool, f tokenFile, args ...string) *started {
	t.Helper()
	needsBwrap(t)
	s := prepare(t)
	s.cmd.Env = append(s.cmd.Env, "HOME="+t.TempDir(), "XDG_RUNTIME_DIR="+runtimeDir(t))
	s.cmd.Args = append(append(s.cmd.Args, "serve", "-listen", "127.0.0.1:0", "-toolsets", "all"), args...)
	if f.path != "" {
		s.cmd.Args = append(s.cmd.Args, "-tokens", f.path)
	}
	if apart {
		s.cmd.Args, s.confined = append(s.cmd.Args, "-sandbox", "workspace"), true
	} else {
		s.cmd.Args = append(s.cmd.Args, "-trusted-tenants")
	}
	return s
}

// as returns a client of a tenant. Its dir is the workspace of the tenant.
func (s *started) as(t testing.TB, f tokenFile, tenant, version string) *started {
	t.Helper()
	m := *s
	m.t, m.Client, m.dir = t, s.join(version, f.tokens[tenant]), filepath.Join(s.dir, tenant)
	return &m
}

// startTenants starts a server of two tenants, and returns a client of each.
func startTenants(t testing.TB, apart bool, args ...string) (s, alice, bob *started) {
	t.Helper()
	f := newTokens(t, "alice", "bob")
	s = prepareTenants(t, apart, f, args...)
	s.begin()
	return s, s.as(t, f, "alice", client.Newer), s.as(t, f, "bob", client.Older)
}

// pythonCommand returns a command that runs code.
func pythonCommand(code string) string { return "exec python3 -I -c '" + code + "'" }

// A tenant in a sandbox reaches nothing of another. Without a sandbox all of it can be reached.
func TestTenantsReachNothingOfEachOther(t *testing.T) {
	t.Parallel()
	const key = 0x6172706c
	for _, apart := range []bool{true, false} {
		t.Run(fmt.Sprintf("apart %t", apart), func(t *testing.T) {
			t.Parallel()
			s, alice, bob := startTenants(t, apart)
			tag, recorded := newTag(), newTag()
			state := s.setting("REPL_STATE_DIR")
			listed := func(tag string) string { return strings.Replace(tag, ".", "[.]", 1) } // not in the command that looks for it
			temporary := "/tmp/async-repl-test-" + tag
			memory := "/dev/shm/async-repl-test-" + tag
			t.Cleanup(func() { // they are left if there is no sandbox
				os.Remove(temporary)
				os.Remove(memory)
			})
			for name, c := range map[string]struct {
				has  string // what alice runs; it prints "ready", and a value after it
				does string // what bob runs, with the value as $1; it succeeds if something of alice is reached
			}{
				"a file":                {`echo x >secret; echo ready $PWD/secret`, `cat $1`},
				"a file to write":       {`echo ready $PWD`, `echo x >$1/planted`},
				"the directory above":   {`echo ready $PWD/..`, `ls $1/alice/`},
				"its records":           {"echo ready # " + recorded, `grep -rl ` + listed(recorded) + ` ` + state},
				"the tokens":            {`echo ready`, `cat ` + s.cmd.Args[len(s.cmd.Args)-indexFromEnd(s.cmd.Args, "-tokens")]},
				"its home directory":    {`mkdir -p ~/.cache; echo x >~/.cache/x; echo ready`, `cat ~/.cache/x`},
				"a temporary file":      {`echo x >` + temporary + `; echo ready`, `cat ` + temporary},
				"shared memory, POSIX":  {`echo x >` + memory + `; echo ready`, `cat ` + memory},
				"shared memory":         {pythonCommand(fmt.Sprintf(`import ctypes; c = ctypes.CDLL(None); print("ready", c.shmget(%d, 4096, 0o1600))`, key)), pythonCommand(fmt.Sprintf(`import ctypes; c = ctypes.CDLL(None); i = c.shmget(%d, 0, 0); c.shmctl(i, 0, None); exit(i < 0)`, key))},
				"a queue of messages":   {pythonCommand(fmt.Sprintf(`import ctypes; c = ctypes.CDLL(None); print("ready", c.msgget(%d, 0o1600))`, key)), pythonCommand(fmt.Sprintf(`import ctypes; c = ctypes.CDLL(None); i = c.msgget(%d, 0); c.msgctl(i, 0, None); exit(i < 0)`, key))},
				"a process":             {`echo ready; exec sleep ` + tag, `grep -ls ` + listed(tag) + ` /proc/[0-9]*/cmdline | grep .`},
				"a variable of another": {`echo ready; OWN=` + tag + ` exec sleep 1000`, `grep -ls OWN=` + listed(tag) + ` /proc/[0-9]*/environ | grep .`},
				"a signal":              {`trap "echo hit; exit" USR1; echo ready; SIGNALLED=1 bash -c "sleep 1000; : ` + tag + `" & wait`, `for p in $(grep -ls ` + listed(tag) + ` /proc/[0-9]*/cmdline | cut -d/ -f3); do kill -USR1 $p && hit=1; done; [ "$hit" ]`},
				"a port":                {pythonCommand(`import socket; s = socket.create_server(("127.0.0.1", 0)); print("ready", s.getsockname()[1], flush=True); s.accept()`), `exec 3<>/dev/tcp/127.0.0.1/$1`},
				"a socket with a path":  {pythonCommand(`import os, socket; s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen(); print("ready", os.getcwd() + "/sock", flush=True); s.accept()`), pythonCommand(`import os, socket, sys; os.chdir(os.path.dirname(sys.argv[1])); socket.socket(socket.AF_UNIX).connect("sock")`) + ` $1`},
				"an abstract socket":    {pythonCommand(`import socket; s = socket.socket(socket.AF_UNIX); s.bind("\0` + tag + `"); s.listen(); print("ready", flush=True); s.accept()`), pythonCommand(`import socket; socket.socket(socket.AF_UNIX).connect("\0` + tag + `")`)},
				"its commands":          {`echo ready; : ` + tag + `x; sleep 1000`, s.cmd.Path + ` ps | grep ` + listed(tag) + `x`},
			} {
				job := alice.do("execute_command_async", "command", c.has, "tty", false, "wait_seconds", 0).Header("Job ID")
				r := alice.prints(job, "ready")
				_, value, _ := strings.Cut(r.Section("STDOUT"), "ready")
				value, _, _ = strings.Cut(strings.TrimSpace(value), "\n")
				r = bob.do("execute_command_async", "command", "set -- "+value+"; "+c.does, "tty", false, "wait_seconds", 60)
				if got := r.Header("Status"); (got == "completed") != !apart || got == "running" {
					t.Errorf("%s: %s", name, r)
				}
			}
		})
	}
}

// indexFromEnd returns the place of the value after a flag, from the end.
func indexFromEnd(args []string, flag string) int { return len(args) - 1 - slices.Index(args, flag) }

// A tenant sees no job, session, variable or file of another by the tools, and its own.
func TestTenantsInASandboxHaveTheirOwn(t *testing.T) {
	t.Parallel()
	_, alice, bob := startTenants(t, true)
	job := alice.do("execute_command_async", "command", "pwd; ls -A; exec sleep 1000", "wait_seconds", 1).Header("Job ID")
	if got, want := alice.prints(job, alice.dir).Section("STDOUT"), alice.dir+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	alice.do("execute_python", "code", "mine = 4711", "session", "lab", "wait_seconds", 60)
	alice.do("write_file", "path", "notes", "content", "x")
	for _, c := range []struct {
		tool string
		args []any
		want string
	}{
		{"list_jobs", nil, job}, {"list_sessions", nil, "lab"}, {"list_variables", []any{"session", "lab"}, "mine"},
		{"list_files", nil, "notes"}, {"read_file", []any{"path", "notes"}, "x"}, {"check_job_status", []any{"job_id", job}, alice.dir},
		{"server_status", nil, "Sandbox: workspace; writes "},
	} {
		if got := alice.do(c.tool, c.args...); !strings.Contains(string(got), c.want) {
			t.Errorf("%s of alice: %s", c.tool, got)
		}
		got, _ := bob.Call(bob.ctx(), c.tool, pairs(c.args)) // an error: it is refused
		if strings.Contains(string(got), c.want) && c.tool != "server_status" || strings.Contains(string(got), alice.dir) {
			t.Errorf("%s of bob: %s", c.tool, got)
		}
	}
	for _, dir := range []string{alice.dir, bob.dir} {
		if info := must.Get(os.Stat(dir))(t); info.Mode().Perm() != 0o700 {
			t.Errorf("the mode of %s is %v", dir, info.Mode())
		}
	}
}

// A server in a sandbox needs no file of tokens: its clients are one tenant.
func TestServeInASandboxWithoutTokens(t *testing.T) {
	t.Parallel()
	s := prepareTenants(t, true, tokenFile{})
	s.begin()
	c := s.as(t, tokenFile{}, "", client.Newer)
	r := c.do("execute_command_async", "command", "pwd; cat /proc/2/comm; ls /proc | grep -c '^[0-9]'", "wait_seconds", 60)
	if got := r.Section("STDOUT"); !strings.HasPrefix(got, s.dir+"\n") {
		t.Errorf("got %s", r)
	}
	if r := c.do("server_status"); !strings.Contains(r.Header("Sandbox"), "writes "+s.dir+", /tmp") {
		t.Errorf("got %s", r)
	}
}

// A service starts in /, which can be no workspace. Each tenant has one.
func TestServeInASandboxFromTheRoot(t *testing.T) {
	t.Parallel()
	f := newTokens(t, "alice")
	s := prepareTenants(t, true, f)
	f.write(t, f.lines(t)[0]+" "+filepath.Join(s.dir, "alice"))
	s.cmd.Dir = "/"
	s.begin()
	alice := s.as(t, f, "alice", client.Newer)
	if got := alice.do("execute_command_async", "command", "pwd", "wait_seconds", 60).Section("STDOUT"); got != alice.dir+"\n" {
		t.Errorf("got %q", got)
	}
	for want, set := range map[string]func(s *started){
		`the workspace "/" is the root of all files: set REPL_WORKDIR to another`: func(s *started) { s.cmd.Dir = "/" },
		`the workspace "/usr" is or holds /usr, which belongs to the system: set REPL_WORKDIR to another`: func(s *started) {
			f.write(t, f.lines(t)[0][:70]+" /usr")
			s.cmd.Args = append(s.cmd.Args, "-tokens", f.path)
		},
	} {
		s := prepareTenants(t, true, tokenFile{})
		set(s)
		s.begin()
		if got := s.exit(); got == "exit status 0" || !strings.Contains(s.log.String(), want) {
			t.Errorf("%s: %s, want %q", got, s.log, want)
		}
	}
}

// What a tenant's jobs do to their own server disturbs no other tenant, and not the end of the server.
func TestStoppedTenantDisturbsNoOther(t *testing.T) {
	t.Parallel()
	f := newTokens(t, "alice", "bob")
	lines := f.lines(t)
	s := prepareTenants(t, true, f, "-log-level", "info")
	s.begin()
	alice, bob := s.as(t, f, "alice", client.Newer), s.as(t, f, "bob", client.Newer)
	if _, err := alice.Start("execute_command_async", map[string]any{"command": "kill -STOP 2"}); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "alice's server to be stopped", func() bool {
		return slices.ContainsFunc(s.inners(), func(pid int) bool { return stateOf(pid) == 'T' })
	})
	const calls = 500 // more than the socket of the process holds
	before := s.descriptors()
	for range calls {
		if _, err := alice.Start("list_jobs", nil); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Until(t, "the calls to wait for the process", func() bool { return s.descriptors() > before+calls+100 })
	for i := range 4 { // alice's process must receive each
		f.write(t, lines[1-i%2:]...)
		s.hangUp("tokens reread")
		bob.do("list_jobs")
	}
	f.write(t, lines...)
	s.hangUp("tokens reread")
	s.cmd.Process.Signal(os.Interrupt)
	if got := s.exit(); got != "exit status 0" {
		t.Errorf("the server ended with %s", got)
	}
}

// stateOf returns the state of a process, or 0 if there is none.
func stateOf(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(stat), ") ")
	if err != nil || !found {
		return 0
	}
	return state[0]
}

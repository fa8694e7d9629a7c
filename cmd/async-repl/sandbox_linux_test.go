package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/nstest"
)

// check runs async-repl sandbox check in a home of its own, which ~ stands for.
func check(t *testing.T, path string, args ...string) (out string, err error) {
	t.Helper()
	home := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	work := filepath.Join(home, "work")
	for _, dir := range []string{work, filepath.Join(home, "a b\nc:d"), filepath.Join(home, "bin"), filepath.Join(home, "python/lib/python3")} {
		must.Do(t, os.MkdirAll(dir, 0o700))
	}
	must.Do(t, os.Symlink(home, filepath.Join(work, "out")))
	must.Do(t, os.Symlink(filepath.Join(home, "python"), filepath.Join(work, "data\n1")))
	must.Do(t, os.Symlink(filepath.Join(home, "nothing"), filepath.Join(work, "broken")))
	must.Do(t, os.Symlink(filepath.Join(home, "a b\nc:d"), filepath.Join(home, "link")))
	must.Do(t, os.WriteFile(filepath.Join(home, "python/lib/python3/os.py"), nil, 0o600))
	must.Do(t, os.MkdirAll(filepath.Join(home, "python/bin"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(home, "python/bin/python"), []byte("#!/bin/sh\n"), 0o700))
	must.Do(t, os.MkdirAll(filepath.Join(work, "env/bin"), 0o700))
	must.Do(t, os.Symlink(filepath.Join(home, "python/bin/python"), filepath.Join(work, "env/bin/python")))
	must.Do(t, os.MkdirAll(filepath.Join(home, "wrapper"), 0o700))
	must.Do(t, os.MkdirAll(filepath.Join(home, "repo/part"), 0o700))
	must.Do(t, os.MkdirAll(filepath.Join(home, "repo/.git"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(home, "wrapper/python"), []byte("#!/bin/sh\nexec "+home+"/python/bin/python\n"), 0o700))
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "~", home)
	}
	program := []string{must.Get(os.Executable())(t), "sandbox", "check"}
	cmd := bounded(t, program[0], append(program[1:], args...)...)
	if len(args) > 0 && args[0] == "sh" { // its script calls the program as "$@", in namespaces
		cmd = bounded(t, args[0], slices.Concat(args[1:], []string{"sh"}, program)...)
		nstest.Isolate(cmd, 0)
	}
	cmd.Dir = work
	cmd.Env = []string{"HOME=" + home, "PATH=" + path, "REPL_SANDBOX=workspace", "GITHUB_TOKEN=x", "GORACE=atexit_sleep_ms=0"}
	b, err := cmd.CombinedOutput()
	return strings.ReplaceAll(string(b), home, "~"), err
}

func TestSandboxCheck(t *testing.T) {
	needtest.Program(t, "bwrap")
	t.Parallel()
	out, err := check(t, os.Getenv("PATH"))
	if err != nil || strings.Contains(out, "fails") || strings.Count(out, "ok  ") < 15 || !strings.Contains(out, "environment: without GITHUB_TOKEN\n") {
		t.Errorf("got %v:\n%s", err, out)
	}
	const leads = `note   files: "~/work/data\n1" leads to "~/python", which is not there: add that to REPL_SANDBOX_READ or REPL_SANDBOX_WRITE if jobs need it`
	if !strings.Contains(out, leads+"\n") || strings.Count(out, " leads to ") != 1 {
		t.Errorf("a link leads to what is not there:\n%s", out)
	}
	if out, err := check(t, os.Getenv("PATH"), "-sandbox-read", "~/python"); err != nil || strings.Contains(out, " leads to ") {
		t.Errorf("got %v:\n%s", err, out)
	}
	if strings.Contains(out, "note   git:") {
		t.Errorf("there is no repository above:\n%s", out)
	}
	out, err = check(t, os.Getenv("PATH"), "-workdir", "~/repo/part")
	if err != nil || !strings.Contains(out, "note   git: the repository ~/repo is above the workspace and not there, so git does not work: set REPL_WORKDIR=~/repo if") {
		t.Errorf("got %v:\n%s", err, out)
	}
	out, err = check(t, os.Getenv("PATH"), "-sandbox-net", "all")
	if err != nil || !strings.Contains(out, "network: reaches that of the machine\n") {
		t.Errorf("got %v:\n%s", err, out)
	}
	for _, args := range [][]string{
		{"-workdir", "~/a b\nc:d", "-sandbox-write", "~/bin"}, {"-sandbox-read", "~/link"}, {"-workdir", "~/link"},
		{"-venv-dir", "~/work/env", "-sandbox-read", "~/python"}, {"-python", "~/python/bin/python"},
	} {
		if out, err := check(t, os.Getenv("PATH"), args...); err != nil || strings.Contains(out, "fails") {
			t.Errorf("%q: got %v, %s", args, err, out)
		}
	}
	if out, err := check(t, os.Getenv("PATH"), "-python", "~/wrapper/python"); err == nil || !strings.Contains(out, "fails  programs: ~/wrapper/python does not run (exit status 127); add what it needs to REPL_SANDBOX_READ: ") {
		t.Errorf("got %v, %s", err, out)
	}
	if out, err := check(t, os.Getenv("PATH")+":/none/there:/home:"+t.TempDir()); err != nil || !strings.Contains(out, "/home is on the PATH and not there: add it to REPL_SANDBOX_READ") || strings.Contains(out, "/none") {
		t.Errorf("got %v, %s", err, out)
	}
}

// Each error of a bad setting says what to do.
func TestSandboxCheckOfBadSettings(t *testing.T) {
	needtest.Program(t, "bwrap")
	t.Parallel()
	many := strings.Repeat("a.example,", 1000)
	for i := range 1000 {
		many = strings.Replace(many, "a.", "h"+strconv.Itoa(i)+".", 1)
	}
	for want, args := range map[string][]string{
		`the path to read "/none/there" does not exist: set REPL_SANDBOX_READ to another`:                                          {"-sandbox-read", "/none/there"},
		`-sandbox-read="work" can't be used; allowed: absolute paths`:                                                              {"-sandbox-read", "work"},
		`can't be used; allowed: absolute paths with : between; a link can stand for one that has : in its name`:                   {"-sandbox-read", "~/a b\nc:d"},
		`"/" is the root of all files: set REPL_WORKDIR to another`:                                                                {"-workdir", "/"},
		`-workdir="work" can't be used; allowed: an absolute path`:                                                                 {"-workdir", "work"},
		`the workspace "~/none" does not exist: set REPL_WORKDIR to another`:                                                       {"-workdir", "~/none"},
		`the workspace "/usr" is or holds /usr, which belongs to the system: set REPL_WORKDIR to another`:                          {"-workdir", "/usr"},
		`the workspace "~" holds the home directory ~: set REPL_WORKDIR to another`:                                                {"-workdir", "~"},
		`" holds the home directory ~: set REPL_WORKDIR to`:                                                                        {"-workdir", "~/../"},
		`the state directory "~/work/state" is in ~/work, which jobs write: set REPL_STATE_DIR to another`:                         {"-state-dir", "~/work/state"},
		`the path to read "~/.local/state" and the state directory ~/.local/state/async-repl hold one another: set REPL_SANDBOX_`:  {"-sandbox-read", "~/.local/state"},
		`leads by a link from ~/work, which jobs write, to ~: set REPL_SANDBOX_READ to another`:                                    {"-sandbox-read", "~/work/out"},
		`which belongs to the system: set REPL_SANDBOX_WRITE to another`:                                                           {"-sandbox-write", "/usr/lib"},
		`"*" is every host; write all alone`:                                                                                       {"-sandbox-net", "*"},
		`"http://a.example" is a URL or a range of addresses; write only HOST or HOST:PORT`:                                        {"-sandbox-net", "http://a.example"},
		`"::1" needs brackets around the address`:                                                                                  {"-sandbox-net", "::1"},
		`1001 hosts are more than 1000; *.NAME stands for all names below one`:                                                     {"-sandbox-net", many + "b.example"},
		`leads from ~/work, which jobs write, to a Python in ~/python: set REPL_SANDBOX_READ=~/python if that Python is yours, or`: {"-venv-dir", "~/work/env"},
		`"~/none/bin/python" does not exist, and jobs can't make it: set REPL_PYTHON or REPL_VENV_DIR to another`:                  {"-venv-dir", "~/none"},
		`REPL_SHELL="~/none" can't be used`:                                                                                        {"-shell", "~/none"},
	} {
		if out, err := check(t, os.Getenv("PATH"), args...); err == nil || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%.200q: got %v, %s, want %q", args, err, out, want)
		}
	}
	if out, err := check(t, t.TempDir()); err == nil || !strings.Contains(out, "install the package bubblewrap") {
		t.Errorf("got %v, %s", err, out)
	}
}

// What a machine lacks is tried in namespaces of a machine in small.
func TestSandboxCheckOfAPoorMachine(t *testing.T) {
	needtest.Program(t, "bwrap")
	t.Parallel()
	for script, want := range map[string]string{
		`echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"`:                                                                                  "async-repl: bwrap: ",
		`mkdir ~/full; mount -t tmpfs -o nr_inodes=2 none ~/full; touch ~/full/x; exec "$@" -state-dir ~/full`:                                   `the state directory "~/full" can't be used: mkdir ~/full/sandbox: no space left on device: set REPL_STATE_DIR to another`,
		`mkdir ~/ro; mount -t tmpfs -o ro none ~/ro; exec "$@" -state-dir ~/ro`:                                                                  `the state directory "~/ro" can't be used: mkdir ~/ro/sandbox: read-only file system: set REPL_STATE_DIR to another`,
		`mount -t tmpfs none ~/work; cd ~/work; dd if=/dev/zero of=x bs=1M count=1 2>/dev/null; mount -o remount,size=1M none ~/work; exec "$@"`: "ok     files: writes ~/work\n",
	} {
		out, err := check(t, os.Getenv("PATH"), "sh", "-c", script)
		if (err == nil) != strings.HasPrefix(want, "ok ") || !strings.Contains(out, want) {
			t.Errorf("%s: got %v, %s, want %q", script, err, out, want)
		}
		if strings.Contains(script, "max_user") && !strings.Contains(out, "sysctl -w user.max_user_namespaces") {
			t.Errorf("got %s, want a cure", out)
		}
	}
}

// A job can put another bwrap into a directory of the PATH, which would be started outside.
func TestSandboxCheckTakesNoBubblewrapOfAJob(t *testing.T) {
	needtest.Program(t, "bwrap")
	t.Parallel()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	must.Do(t, os.MkdirAll(filepath.Join(dir, "env/bin"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "env/bin/bwrap"), []byte("#!/bin/sh\necho started >"+dir+"/started\n"), 0o755))
	link := filepath.Join(t.TempDir(), "bin")
	must.Do(t, os.Symlink(filepath.Join(dir, "env/bin"), link))
	for _, first := range []string{filepath.Join(dir, "env/bin"), link} {
		if out, err := check(t, first+":"+os.Getenv("PATH"), "-sandbox-write", dir); err != nil {
			t.Errorf("got %v, %s", err, out)
		}
		if out, err := check(t, first, "-sandbox-write", dir); err == nil || !strings.Contains(out, "there is no program bwrap") {
			t.Errorf("got %v, %s", err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
			t.Errorf("the program in %s was started", first)
		}
	}
}

// A bubblewrap that hangs is ended, and one that fails is quoted.
func TestSandboxCheckOfABadBubblewrap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for script, want := range map[string]string{
		"exec sleep 1000": "did not start and end within 5s",
		"echo bwrap: Unknown option --unshare-user >&2; exit 1": "older than 0.4.0",
		"echo some trouble >&2; exit 1":                         "async-repl: some trouble",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		if out, err := check(t, dir+":"+os.Getenv("PATH")); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: got %v, %s, want %q", script, err, out, want)
		}
	}
}

// The doctor says whether a sandbox can start, and does not fail because of one that is not set.
func TestDoctorTriesASandbox(t *testing.T) {
	overStdio(t, "the doctor starts its own server")
	notApart(t, "the test says itself whether the doctor's server is in one")
	needtest.Program(t, "bwrap")
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\necho some trouble >&2; exit 1\n"), 0o755))
	s := prepare(t)
	path := ""
	for _, kv := range s.cmd.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for want, env := range map[string][]string{
		"ok     sandbox: it can start; REPL_SANDBOX=workspace sets it":         nil,
		"note   sandbox: some trouble":                                         {"PATH=" + dir + ":" + path},
		"ok     sandbox: workspace; writes ":                                   {"REPL_SANDBOX=workspace"},
		"note   server: in a sandbox memory is limited for each process only,": {"REPL_SANDBOX=workspace"},
	} {
		cmd := s.command("doctor")
		cmd.Env = append(slices.Clone(s.cmd.Env), env...)
		b, _ := cmd.CombinedOutput() // an error: an engine of another test can fail to answer in time
		out := string(b)
		if fails := strings.Count(out, "\nfails ") - strings.Count(out, "\nfails  engine: "); fails > 0 || !strings.Contains(out, "\n"+want) {
			t.Errorf("%v: it fails, or does not say %q:\n%s", env, want, out)
		}
	}
}

// The command sandbox explains itself, and refuses what it does not know.
func TestSandboxCommand(t *testing.T) {
	for name, tt := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"nothing":      {nil, 2, "", "async-repl: write async-repl sandbox check, with the flags of the server: see async-repl sandbox -h\n"},
		"another word": {[]string{"try"}, 2, "", `async-repl: "try" is not check: see async-repl sandbox -h` + "\n"},
		"a flag first": {[]string{"-sandbox-read", "/data"}, 2, "", `async-repl: "-sandbox-read" is not check: see async-repl sandbox -h` + "\n"},
		"a word more":  {[]string{"check", "it"}, 2, "", `async-repl: unknown command "it": see async-repl help` + "\n"},
		"help":         {[]string{"-h"}, 0, sandboxHelp, ""},
		"help later":   {[]string{"check", "--help"}, 0, sandboxHelp, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"sandbox"}, tt.args...), nil, nopCloser{&out}, &errs)
			if code != tt.code || !strings.HasPrefix(out.String(), tt.stdout) || (tt.stdout == "") != (out.Len() == 0) || errs.String() != tt.stderr {
				t.Errorf("exit %d, %q, %q; want %d, %q, %q", code, out.String(), errs.String(), tt.code, tt.stdout, tt.stderr)
			}
		})
	}
	if !strings.Contains(usage(), "\n  async-repl sandbox check [flags] ") {
		t.Error("help does not list it")
	}
}

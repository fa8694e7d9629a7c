//go:build unix

package engine

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"asyncrepl/jobs"
	"asyncrepl/pkgmgr"
)

// jobEnv returns the environment that jobs start from: environ with a terminal that programs know,
// pagers that do not wait for a key, no progress bars of installers, a UTF-8 locale if none is set,
// and the Python environment's programs first. It does not set variables that keep programs from
// asking questions (CI, PIP_NO_INPUT), because questions can be answered here.
//
// If the Python environment is virtual, a pip that runs outside of any virtual environment fails
// (--require-virtualenv, https://pip.pypa.io/en/stable/cli/pip/). Without that, "python -m pip"
// would install into another Python as long as our environment is not made.
func jobEnv(environ []string, bin string, virtual bool) []string {
	env := variables(environ)
	set := map[string]string{
		"TERM": "xterm-256color", "PAGER": "cat", "GIT_PAGER": "cat", "GH_PAGER": "cat",
	}
	if bin != "" {
		set["PATH"] = leading(bin, env["PATH"])
	}
	if !utf8Locale(env) {
		set["LC_CTYPE"] = "C.UTF-8"
	}
	if env["SHLVL"] == "" || env["SHLVL"] == "0" {
		// Under sshd, a bash that a job starts would take itself for a login's first shell and read
		// ~/.bashrc: Debian's bash does if SSH_CLIENT is set and SHLVL is below 2
		// (https://www.gnu.org/software/bash/manual/bash.html#Bash-Startup-Files). The shell of the
		// job itself has --norc too, see shell.Script.
		set["SHLVL"] = "1"
	}
	unlessSet := func(name, value string) {
		if _, ok := env[name]; !ok {
			set[name] = value
		}
	}
	unlessSet("PIP_PROGRESS_BAR", "off")
	unlessSet("UV_NO_PROGRESS", "1")
	if virtual {
		unlessSet("PIP_REQUIRE_VIRTUALENV", "1")
	}
	out := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, ours := set[name]
		return ours
	})
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	return out
}

// sessionEnv returns the environment of a session's Python. The programs of that Python lead the
// PATH, even if the session sets PATH. If the session has another Python environment than the
// client, the session's is the active one. A program that opens an address in a browser prints it,
// unless the session sets BROWSER: there is no browser, and one for text would read the terminal.
func sessionEnv(sc Scope, spec SessionSpec, packages *pkgmgr.Manager) []string {
	env := sc.Env
	if packages != sc.base.packages {
		env = activated(jobEnv(sc.base.given, packages.Bin(), packages.IsVirtual()), packages)
	}
	set := map[string]string{"BROWSER": "echo not opened %s"} // a list with ":" between its commands
	maps.Copy(set, spec.Env)
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, ok := set[name]
		return ok
	})
	for name, value := range set {
		if bin := packages.Bin(); name == "PATH" && bin != "" {
			value = leading(bin, value)
		}
		env = append(env, name+"="+value)
	}
	return withPrograms(packages, env)
}

// activated returns a copy of env in which the environment of packages is the active one. uv
// installs into the active environment (https://docs.astral.sh/uv/pip/environments/). Without one
// it takes the .venv of the current directory, which is the workspace's environment.
func activated(env []string, packages *pkgmgr.Manager) []string {
	env = deactivated(env)
	python, _ := packages.Describe() // an error: the start of Python reports it
	switch {
	case packages.IsVirtual():
		env = append(env, "VIRTUAL_ENV="+python.Dir)
	case python.Dir != "":
		env = append(env, "CONDA_PREFIX="+python.Dir)
	}
	return env
}

// withPrograms returns a copy of env in which the programs pip and pip3 of an environment lead the
// PATH. The server makes their directory for its first job.
func withPrograms(packages *pkgmgr.Manager, env []string) []string {
	env = slices.Clone(env)
	dir, err := packages.Programs()
	if err != nil { // Status reports the error
		return env
	}
	for i, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			env[i] = "PATH=" + leading(dir, path)
			return env
		}
	}
	return append(env, "PATH="+dir)
}

// leading returns a PATH with dir as its first element. If path is empty, dir is the only element:
// an empty element would stand for the current directory
// (https://pubs.opengroup.org/onlinepubs/9699919799/basedefs/V1_chap08.html).
func leading(dir, path string) string {
	if path == "" {
		return dir
	}
	return dir + string(os.PathListSeparator) + path
}

// A pipWatch runs a command. If a pip in the command refused to run outside of a virtual
// environment, the receipt names the refusal as its cause.
type pipWatch struct{ command jobs.Runner }

// pipRefusal is what pip prints when it refuses (https://github.com/prefix-dev/pixi/issues/1226
// shows it).
var pipRefusal = []byte("Could not find an activated virtualenv (required)")

// Queue takes the command's place, if commands take turns.
func (w pipWatch) Queue(p *jobs.Port) {
	if q, ok := w.command.(jobs.Queuer); ok {
		q.Queue(p)
	}
}

// Run runs the command.
func (w pipWatch) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	out := w.command.Run(ctx, p)
	if bytes.Contains(p.Tail(4<<10), pipRefusal) {
		out.Receipt.Cause = jobs.OtherPip
	}
	return out
}

// utf8Locale reports whether the locale's character encoding is UTF-8.
func utf8Locale(env map[string]string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(env[name]); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// variables returns the values of an environment by the names of its variables.
func variables(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			m[name] = value
		}
	}
	return m
}

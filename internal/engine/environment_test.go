//go:build unix

package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// Jobs find a terminal type that programs know, pagers that do not wait and a UTF-8 locale.
// Variables of the call are added.
func TestEnvironmentOfJobs(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "PAGER=less", "LANG=C", "MINE=1", "CI=yes"}
	b := newBench(t, c)
	sc := b.Scope()
	job := b.shell(sc, engine.Command{Line: "env", Env: map[string]string{"MINE": "2", "MORE": "3"}})
	jobstest.End(t, job)
	lines := strings.Split(jobstest.Output(job), "\n")
	for _, want := range []string{"TERM=xterm-256color", "PAGER=cat", "GIT_PAGER=cat", "GH_PAGER=cat", "LC_CTYPE=C.UTF-8", "LANG=C", "MINE=2", "MORE=3", "CI=yes"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not among\n%s", want, strings.Join(lines, "\n"))
		}
	}
	for given, want := range map[string]string{"": "SHLVL=1", "SHLVL=0": "SHLVL=1", "SHLVL=3": "SHLVL=3"} {
		c.Env = slices.DeleteFunc(c.Env, func(kv string) bool { return strings.HasPrefix(kv, "SHLVL=") })
		c.Env = append(c.Env, given)
		if env := newBench(t, c).Scope().Env; !slices.Contains(env, want) {
			t.Errorf("with %q, %s is not among %q", given, want, env)
		}
	}
	c.Env = append(c.Env, "LC_ALL=de_DE.utf8")
	if env := newBench(t, c).Scope().Env; slices.Contains(env, "LC_CTYPE=C.UTF-8") {
		t.Errorf("a UTF-8 locale is replaced: %q", env)
	}
}

// The file that a shell would read by BASH_ENV or ENV is read only if the call names it.
func TestStartUpFilesAreThoseOfTheCall(t *testing.T) {
	t.Parallel()
	bash := needtest.Program(t, "bash")
	c := config(t)
	c.Shell = bash
	write := func(name, text string) string {
		path := filepath.Join(c.Workspace, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	theirs, ours := write("theirs", "echo of the person"), write("ours", "echo of the call")
	c.Env = append(c.Env, "BASH_ENV="+theirs, "ENV="+theirs)
	b := newBench(t, c)
	for want, env := range map[string]map[string]string{
		"-":                          nil,
		"of the call\n" + ours + "-": {"BASH_ENV": ours},
		"-" + ours:                   {"ENV": ours},
	} {
		job := b.shell(b.Scope(), engine.Command{Line: `echo "$BASH_ENV-$ENV"`, Env: env})
		jobstest.End(t, job)
		if got := strings.TrimSpace(jobstest.Output(job)); got != want {
			t.Errorf("with %v: %q, want %q", env, got, want)
		}
	}
}

// The receipt of a job in which a pip of another Python refused to run has that as its cause.
func TestRefusalOfAnotherPip(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	for line, want := range map[string]jobs.Cause{
		"echo 'ERROR: Could not find an activated virtualenv (required).' >&2; exit 3": jobs.OtherPip,
		"exit 3": "",
	} {
		record := jobstest.End(t, b.shell(sc, engine.Command{Line: line}))
		if record.Receipt.Cause != want || record.Receipt.Code != 3 {
			t.Errorf("%s: cause %q, %s; want %q", line, record.Receipt.Cause, record.Receipt.Text(), want)
		}
	}
}

// An empty element of PATH would be the current directory.
func TestPathHasNoEmptyElement(t *testing.T) {
	for name, env := range map[string][]string{"unset": nil, "empty": {"PATH="}} {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			c.Env = env
			c.Pip = []string{"/bin/false"}
			b := newBench(t, c)
			job := b.shell(b.Scope(), engine.Command{Line: `echo "$PATH"`})
			jobstest.End(t, job)
			path := filepath.SplitList(strings.TrimSpace(jobstest.Output(job)))
			if len(path) < 2 || slices.Contains(path, "") || !strings.HasPrefix(path[0], filepath.Join(c.StateDir, "runs")+"/") {
				t.Errorf("PATH is %q", path)
			}
		})
	}
}

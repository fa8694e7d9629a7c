package pkgmgr

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// readBack is the number of bytes at the end of an installer's output that are searched for its
// result.
const readBack = 64 << 10

// installedLimit bounds Config.Installed.
const installedLimit = 5 * time.Second

// Install returns a runner that installs the requirements, addresses, paths and files with
// requirements in a text into the environment of the workspace. The runner makes the environment if
// needed, and installs pip first if there is neither uv nor pip. Install returns an error if a part
// of the text can't be an argument of the installer.
func (m *Manager) Install(text string) (jobs.Runner, error) {
	items, err := split(text)
	if err != nil {
		return nil, err
	}
	in := &install{m: m}
	for _, it := range items {
		arg, err := m.argument(it)
		if err != nil {
			return nil, err
		}
		if it.option != "" {
			in.options = append(in.options, arg)
			continue
		}
		in.packages = append(in.packages, arg)
		in.asked = append(in.asked, key(leadingName().FindString(arg)))
		_, marker := cutMarker(it.text)
		in.marked = in.marked || marker != ""
	}
	return in, nil
}

var leadingName = pattern(`^[A-Za-z0-9._-]+`)

// An install is the runner of one install job.
type install struct {
	m        *Manager
	options  []string // of the installer, each with its path
	packages []string // to install, as arguments of the installer
	asked    []string // the keys of the packages that were asked for by name
	marked   bool     // a marker can rule a requirement out

	notes []string // for the receipt
}

// Run waits for its turn, prepares the environment, runs the installer and completes its receipt.
func (in *install) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	m := in.m
	if err := m.installing.take(ctx); err != nil {
		return runner.NotRun(ctx)
	}
	defer m.installing.release()
	p.Begin()
	t, err := in.prepare(ctx, func(s string) { p.Write(output.Stdout, []byte(s)) })
	defer t.unlock()
	if ctx.Err() != nil {
		return runner.NotRun(ctx)
	}
	if err != nil {
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: err.Error(), By: jobs.Program}}
	}
	before := t.site.read()
	out := m.cfg.Command(t.argv, m.cfg.Env, m.cfg.Workspace).Run(ctx, p)
	changes := t.site.read().since(before)
	changes.Dir, changes.Gone = t.env.dir, t.gone
	in.conclude(&out.Receipt, t.env, changes, view.Text(p.Tail(readBack)))
	if !changes.none() && m.cfg.Installed != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), installedLimit)
		defer cancel()
		in.notes = append(in.notes, m.cfg.Installed(limited, changes)...)
	}
	out.Receipt.Notes = append(out.Receipt.Notes, in.notes...)
	return out
}

// A target is the environment that an install goes to, locked against the installs of other
// servers.
type target struct {
	env    environment
	site   site
	argv   []string // the command line of the installer
	gone   string   // the directory of the environment that was used before and is gone; empty: none
	unlock func()   // never nil
}

// prepare finds or makes the environment, locks it, and writes the command line of its installer.
func (in *install) prepare(ctx context.Context, say func(string)) (t target, err error) {
	m := in.m
	t.unlock = func() {}
	old := m.found.Load()
	if t.env, err = m.environment(ctx, say); err != nil {
		return t, err
	}
	if old != nil && old.python != t.env.python {
		t.gone = old.dir
	}
	if t.site, err = m.site(ctx, t.env.python); err != nil {
		return t, fmt.Errorf("asking Python for its packages: %w; remove its environment if it is broken, or set %s to an interpreter that works", err, m.cfg.Python.Name)
	}
	unlock, err := m.lockDir(ctx, t.site.Dirs[0], func() { say("Waiting for another server's install\n") })
	if err != nil {
		m.log.Debug("no lock on the packages", "dir", t.site.Dirs[0], "err", err) // the installer reports the problem
	} else {
		t.unlock = unlock
	}
	t.argv, err = m.installer(ctx, t.env, t.site, say)
	t.argv = slices.Concat(t.argv, in.options)
	if len(in.packages) > 0 {
		t.argv = slices.Concat(t.argv, []string{"--"}, in.packages)
	}
	return t, err
}

// installer returns the command line of uv, or of pip if there is no uv, without the packages to
// install. Python runs pip with -I, which leaves out the working directory, because pip must not
// import modules of the workspace.
func (m *Manager) installer(ctx context.Context, env environment, s site, say func(string)) ([]string, error) {
	if uv, ok := m.uv(ctx, env); ok {
		return []string{uv, "pip", "install", "--python", env.python}, nil
	}
	pip := []string{env.python, "-I", "-m", "pip"}
	if !s.Pip {
		if s.Managed {
			return nil, errors.New(m.forbidden(env.python))
		}
		var err error
		if pip, err = m.installPip(ctx, env, say); err != nil {
			return nil, err
		}
	}
	return append(pip, "install", "--disable-pip-version-check"), nil
}

// installPip installs pip into the environment, from the copy that Python carries, and returns its
// command line. If Python carries none, because its distribution packages pip separately, the pip
// of the Python that the environment was made from is used.
func (m *Manager) installPip(ctx context.Context, env environment, say func(string)) ([]string, error) {
	say("Bringing pip into the environment\n")
	pip := []string{env.python, "-I", "-m", "pip"}
	out, err := m.run(ctx, makeLimit, env.python, "-I", "-m", "ensurepip", "--default-pip")
	switch {
	case err == nil || ctx.Err() != nil:
		return pip, err
	case lacksModule(out):
		if base := filepath.Join(configOf(env.python)["home"], "python3"); filepath.IsAbs(base) && isProgram(base) {
			basePip := []string{base, "-I", "-m", "pip", "--python", env.python} // since pip 22.3
			if _, err := m.run(ctx, probeLimit, append(basePip, "--version")...); err == nil {
				say("Using the pip of " + base + "\n")
				return basePip, nil
			}
		}
		return nil, fmt.Errorf("%s has no pip and none to bring in; install uv, or pip for it (Debian, Ubuntu: apt install python3-pip python3-venv)", env.python)
	}
	if why := m.known(env, string(out)); why != "" {
		return nil, fmt.Errorf("bringing pip in: %s", why)
	}
	return nil, fmt.Errorf("bringing pip in: %w", err)
}

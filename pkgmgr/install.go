package pkgmgr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/pkgmgr/installer"
)

// readBack is the number of bytes at the end of an installer's output that are searched for its
// result.
const readBack = 64 << 10

// installedLimit bounds Config.Installed, so that a session that does not answer can't keep an
// install from ending.
const installedLimit = 5 * time.Second

// Install returns a runner that installs the requirements, addresses, paths and files with
// requirements in a text into the environment of the workspace. The runner makes the environment if
// needed. Install returns an error if a part of the text can't be an argument of the installer.
func (m *Manager) Install(text string) (jobs.Runner, error) {
	args, err := installer.Parse(text, installer.Places{Workspace: m.cfg.Workspace, Home: m.getenv("HOME")})
	if err != nil {
		return nil, err
	}
	return &install{m: m, args: args}, nil
}

// An install is the runner of one install job.
type install struct {
	m     *Manager
	args  installer.Arguments
	notes []string // facts to add to the receipt
}

// Run waits for its turn, prepares the environment, runs the installer and completes its receipt.
func (in *install) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	m := in.m
	if err := m.installing.take(ctx); err != nil {
		return runner.NotRun(ctx)
	}
	defer m.installing.release()
	if err := p.Admit(ctx); err != nil {
		return runner.NotRun(ctx)
	}
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
	if len(changes.Installed) > 0 && m.isUVProject() {
		in.notes = append(in.notes, "pyproject.toml and uv.lock are not changed; uv add changes them")
	}
	if !changes.none() && m.cfg.Installed != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), installedLimit)
		defer cancel()
		in.notes = append(in.notes, m.cfg.Installed(limited, m, changes)...)
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
	gone   string   // the directory of the last environment, if this one replaces it; else empty
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
	lock, err := m.lockDir(ctx, t.site.Dirs[0], func() { say("Waiting for another install\n") })
	if err != nil {
		// The installer reports the problem.
		m.log.Debug("no lock on the packages", "dir", t.site.Dirs[0], "err", err)
	} else {
		t.unlock = func() { lock.Close() }
	}
	t.argv, err = m.installerLine(ctx, t.env, t.site)
	t.argv = slices.Concat(t.argv, in.args.Line())
	return t, err
}

// conclude adds the result of the install to the installer's receipt.
func (in *install) conclude(rec *jobs.Receipt, env environment, ch Changes, printed string) {
	switch {
	case rec.Status() == jobs.Completed:
		rec.Detail = in.result(ch, printed)
		in.notes = append(in.notes, installer.Conflicts(printed)...)
		return
	case rec.Stop == nil && rec.End == jobs.Exited && installer.IsForbidden(printed):
		rec.Detail = in.m.forbidden(env.python)
	case rec.Stop == nil && rec.End == jobs.Exited:
		rec.Detail = installer.Cause(printed)
	}
	if len(ch.Installed) > 0 {
		in.notes = append(in.notes, "installed before it ended: "+list(ch.Installed))
	}
	if len(ch.removed) > 0 {
		in.notes = append(in.notes, "removed and not replaced: "+list(ch.removed)+"; install again")
	}
	if rec.Stop != nil && len(ch.Installed)+len(ch.removed) == 0 {
		in.notes = append(in.notes, "no package was installed or removed")
	}
}

// result describes the effect of an install that succeeded. It names first the packages that were
// asked for.
func (in *install) result(ch Changes, printed string) string {
	if len(ch.Installed) == 0 {
		return in.args.Result(printed)
	}
	rank := func(p Package) int {
		key := installer.Key(p.Name)
		return slices.Index(append(in.args.Asked, key), key)
	}
	slices.SortStableFunc(ch.Installed, func(a, b Package) int { return rank(a) - rank(b) })
	return "installed " + list(ch.Installed)
}

// installerLine returns the command line of uv, or of pip if there is no uv, without the packages
// to install.
func (m *Manager) installerLine(ctx context.Context, env environment, s site) ([]string, error) {
	if uv, ok := m.uv(ctx, env); ok {
		return []string{uv, "pip", "install", "--no-progress", "--python", env.python}, nil
	}
	pip := s.pip(env)
	switch {
	case pip == nil && s.Managed:
		return nil, errors.New(m.forbidden(env.python))
	case pip == nil:
		return nil, noPip(env)
	}
	return append(pip, "install", "--disable-pip-version-check", "--progress-bar", "off"), nil
}

// forbidden returns the text about a Python that the system does not allow installs into
// (https://peps.python.org/pep-0668/).
func (m *Manager) forbidden(python string) string {
	remedy := fmt.Sprintf("set %s to a directory in which an environment may be made", m.cfg.VenvDir.Name)
	switch {
	case m.chosen:
		remedy = fmt.Sprintf("set %s too, and an environment is made from it", m.cfg.VenvDir.Name)
	case m.cfg.Python.Value != "":
		remedy = fmt.Sprintf("unset %s, and an environment is made in %s or the workspace", m.cfg.Python.Name, m.cfg.VenvDir.Name)
	}
	return fmt.Sprintf("%s belongs to the system, which forbids installs into it (PEP 668); %s", python, remedy)
}

package pkgmgr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// readBack is how much of an installer's output is read for what it says, the
// newest.
const readBack = 64 << 10

// told bounds the time in which sessions hear of an install.
const told = 5 * time.Second

// Install returns a runner that installs what a text names into the environment of the workspace:
// requirements, addresses, paths and files with requirements. It makes the environment if needed, and
// brings pip in if there is no uv. What can't be an argument of the installer is refused.
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
		in.reqs = append(in.reqs, arg)
		in.asked = append(in.asked, key(leadingName().FindString(arg)))
		_, marker := cutMarker(it.text)
		in.marked = in.marked || marker != ""
	}
	return in, nil
}

var leadingName = pattern(`^[A-Za-z0-9._-]+`)

// An install is the runner of one install job.
type install struct {
	m       *Manager
	options []string // for the installer, each with its path
	reqs    []string
	asked   []string // names, as they are compared
	marked  bool     // a marker may rule a requirement out

	notes []string
}

// Run waits for its turn, prepares the environment, leaves the rest to the
// runner of the installer and tells what came of it.
func (in *install) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	m := in.m
	if err := m.installing.take(ctx); err != nil {
		return notRun(ctx)
	}
	defer m.installing.give()
	p.Begin()
	argv, s, unlock, err := in.prepare(ctx, func(s string) { p.Write(output.Stdout, []byte(s)) })
	if unlock != nil {
		defer unlock()
	}
	if ctx.Err() != nil {
		return notRun(ctx)
	}
	if err != nil {
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: err.Error(), By: jobs.Program}}
	}
	before := s.look()
	out := m.cfg.Command(argv, m.cfg.Env, m.cfg.Workspace).Run(ctx, p)
	changes := s.look().since(before)
	said := view.Text(p.Tail(readBack))
	in.conclude(&out.Receipt, changes, said)
	if !changes.none() && m.cfg.Installed != nil {
		telling, cancel := context.WithTimeout(context.WithoutCancel(ctx), told)
		defer cancel()
		in.notes = append(in.notes, m.cfg.Installed(telling, changes)...)
	}
	out.Receipt.Notes = append(out.Receipt.Notes, in.notes...)
	return out
}

// prepare returns the command line of the installer and the site that it writes
// to, which is kept from other servers until unlock is called.
func (in *install) prepare(ctx context.Context, say func(string)) (argv []string, s site, unlock func(), err error) {
	m := in.m
	old := m.found.Load()
	python, err := m.interpreter(ctx, say)
	if err != nil {
		return nil, s, nil, err
	}
	if old != nil && old.python != python {
		in.notes = append(in.notes, fmt.Sprintf("the environment %s is gone, this is %s: restart_python_worker in sessions that still run in the old one", old.dir, m.found.Load().dir))
	}
	if s, err = m.site(ctx, python); err != nil {
		return nil, s, nil, fmt.Errorf("asking Python for its packages: %w; remove its environment if it is broken, or set REPL_PYTHON to an interpreter that works", err)
	}
	unlock, err = m.lockDir(ctx, s.Dirs[0], func() { say("Waiting for another server's install\n") })
	if err != nil {
		m.log.Debug("no lock on the packages", "dir", s.Dirs[0], "err", err)
		unlock, err = nil, nil // the installer tells what is wrong with it
	}
	argv, err = m.installer(ctx, python, s, say)
	argv = slices.Concat(argv, in.options)
	if len(in.reqs) > 0 {
		argv = slices.Concat(argv, []string{"--"}, in.reqs)
	}
	return argv, s, unlock, err
}

// notRun is the outcome of a job that was stopped before its installer started.
func notRun(ctx context.Context) jobs.Outcome {
	rec := jobs.Receipt{End: jobs.NotRun}
	if st, ok := errors.AsType[*jobs.Stop](context.Cause(ctx)); ok {
		rec.Stop = st
	}
	return jobs.Outcome{Receipt: rec}
}

// installer returns the command line of the installer, without what it is to
// install. Of Python's it is with -I, which leaves out the working directory:
// modules of the workspace must not get into pip.
func (m *Manager) installer(ctx context.Context, python string, s site, say func(string)) ([]string, error) {
	env := ""
	if pl := m.found.Load(); pl != nil {
		env = pl.dir
	}
	if uv, ok := m.uv(ctx, env); ok {
		return []string{uv, "pip", "install", "--python", python}, nil
	}
	pip := []string{python, "-I", "-m", "pip"}
	if !s.Pip {
		if s.Managed {
			return nil, errors.New(m.forbidden(python))
		}
		var err error
		if pip, err = m.bringPip(ctx, python, say); err != nil {
			return nil, err
		}
	}
	return append(pip, "install", "--disable-pip-version-check"), nil
}

// bringPip brings pip into the environment, from the copy that Python carries,
// and returns how it is called. Where distributions package that copy apart, the
// pip of the Python that the environment was made from serves it.
func (m *Manager) bringPip(ctx context.Context, python string, say func(string)) ([]string, error) {
	say("Bringing pip into the environment\n")
	pip := []string{python, "-I", "-m", "pip"}
	out, err := m.run(ctx, makeLimit, python, "-I", "-m", "ensurepip", "--default-pip")
	switch {
	case err == nil || ctx.Err() != nil:
		return pip, err
	case lacksModule(out):
		if base, ok := madeFrom(python); ok {
			theirs := []string{base, "-I", "-m", "pip", "--python", python} // since pip 22.3
			if _, err := m.run(ctx, probeLimit, append(theirs, "--version")...); err == nil {
				say("Using the pip of " + base + "\n")
				return theirs, nil
			}
		}
		return nil, fmt.Errorf("%s has no pip and none to bring in; install uv, or pip for it (Debian, Ubuntu: apt install python3-pip python3-venv)", python)
	}
	if why := m.known(string(out)); why != "" {
		return nil, fmt.Errorf("bringing pip in: %s", why)
	}
	return nil, fmt.Errorf("bringing pip in: %w", err)
}

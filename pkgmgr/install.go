package pkgmgr

import (
	"context"
	"errors"
	"fmt"

	"asyncrepl/jobs"
)

// Install returns a runner that installs requirements, as ParseRequirements
// returns them, into the environment of the workspace. It makes the environment
// if need be and brings pip in where there is no uv. What is no requirement is
// refused with a *RequirementError.
func (m *Manager) Install(reqs []string) (jobs.Runner, error) {
	in := &install{m: m}
	for _, r := range reqs {
		parsed, err := ParseRequirements(r)
		if err != nil {
			return nil, err
		}
		in.reqs = append(in.reqs, parsed...)
	}
	if len(in.reqs) == 0 {
		return nil, &RequirementError{"", "there is none; " + byName}
	}
	return in, nil
}

// An install is the runner of one install job.
type install struct {
	m    *Manager
	reqs []string
}

// Run waits for its turn, prepares the environment and leaves the rest to the
// runner of the installer.
func (in *install) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	m := in.m
	if err := m.installing.take(ctx); err != nil {
		return notRun(ctx)
	}
	defer m.installing.give()
	p.Begin()
	argv, err := m.installer(ctx, func(s string) { p.Write(jobs.Stdout, []byte(s)) })
	if ctx.Err() != nil {
		return notRun(ctx)
	}
	if err != nil {
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: err.Error(), By: jobs.Program}}
	}
	out := m.cfg.Command(append(argv, in.reqs...), m.cfg.Env, m.cfg.Workspace).Run(ctx, p)
	if out.Receipt.Status() == jobs.Completed && m.cfg.Installed != nil {
		m.cfg.Installed()
	}
	return out
}

// notRun is the outcome of a job that was stopped before its installer started.
func notRun(ctx context.Context) jobs.Outcome {
	rec := jobs.Receipt{End: jobs.NotRun}
	if st, ok := errors.AsType[*jobs.Stop](context.Cause(ctx)); ok {
		rec.Stop = st
	}
	return jobs.Outcome{Receipt: rec}
}

// installer returns the command line to which the requirements are added. Of
// Python's it is with -I, which leaves out the working directory: modules of the
// workspace must not get into pip.
func (m *Manager) installer(ctx context.Context, say func(string)) ([]string, error) {
	python, err := m.interpreter(ctx, say)
	if err != nil {
		return nil, err
	}
	env := ""
	if pl := m.found.Load(); pl != nil {
		env = pl.dir
	}
	if uv, ok := m.uv(ctx, env); ok {
		return []string{uv, "pip", "install", "--python", python, "--"}, nil
	}
	if err := m.needPip(ctx, python, say); err != nil {
		return nil, err
	}
	return []string{python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--"}, nil
}

// findPip exits with 0 if there is a pip to be imported.
const findPip = `import importlib.util, sys; sys.exit(importlib.util.find_spec("pip") is None)`

// needPip brings pip into the environment, from the copy that Python carries,
// if it is not there.
func (m *Manager) needPip(ctx context.Context, python string, say func(string)) error {
	if _, err := m.run(ctx, probeLimit, python, "-I", "-c", findPip); err == nil || ctx.Err() != nil {
		return err
	}
	say("Bringing pip into the environment\n")
	out, err := m.run(ctx, makeLimit, python, "-I", "-m", "ensurepip", "--default-pip")
	if err != nil && lacksModule(out) {
		return fmt.Errorf("%s has no pip and none to bring in; install uv, or pip for it (Debian, Ubuntu: apt install python3-pip python3-venv)", python)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("bringing pip in: %w", err)
	}
	return err
}

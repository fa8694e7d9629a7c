package pkgmgr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/process"
)

// RunPip is the program pip of jobs. It executes the pip of the environment that the sessions run,
// or of one that its caller has activated, in its own process, so that pip has the terminal, gets
// the signals and gives the exit status. It makes a missing environment.
//
// settings is the path of the file that the server has written (Programs); env is the full
// environment of the program. RunPip calls say before each step that takes long, and returns only
// if pip could not be executed.
func RunPip(ctx context.Context, settings string, args, env []string, say func(string)) error {
	b, err := os.ReadFile(settings)
	if err != nil {
		return fmt.Errorf("reading the settings of the server: %w", err)
	}
	var cfg Config
	if err := json.Unmarshal(b, &cfg); err != nil {
		return fmt.Errorf("reading the settings of the server in %s: %w", settings, err)
	}
	cfg.Env = env
	m := New(cfg)
	m.inProgram = true
	m.useActivated()
	argv, lock, err := m.pipLine(ctx, args, say)
	if err != nil {
		return err
	}
	err = syscall.Exec(argv[0], argv, append(env, insideInstall+"=1"))
	if lock != nil {
		lock.Close() // pip would have kept the lock, but the exec failed
	}
	return fmt.Errorf("starting %s: %w", argv[0], err)
}

// insideInstall is set in the environment of pip. A build that runs pip again must not wait for the
// lock of the pip that it is part of.
const insideInstall = "ASYNC_REPL_INSTALLING"

// useActivated makes m use the environment that a script has activated since the server started.
func (m *Manager) useActivated() {
	for _, active := range []*Setting{&m.cfg.VirtualEnv, &m.cfg.CondaPrefix} {
		now := m.getenv(active.Name)
		if now != "" && now != active.Value && environmentIn(m.abs(now), active.Name).exists {
			m.cfg.Python.Value, m.cfg.VenvDir.Value = "", ""
			m.cfg.VirtualEnv = Setting{active.Name, now} // locate tries it first; errors name it
			return
		}
	}
}

// pipLine returns the command line that runs pip with the arguments. lock, if not nil, is the lock
// on the packages: the program that this process executes keeps it.
func (m *Manager) pipLine(ctx context.Context, args []string, say func(string)) (argv []string, lock *os.File, err error) {
	env, err := m.environment(ctx, say)
	if err != nil {
		return nil, nil, err
	}
	if note := m.TakeNote(); note != "" {
		say("Note: " + note + "\n")
	}
	s, err := m.site(ctx, env.python)
	if err != nil {
		return nil, nil, fmt.Errorf("asking Python for its packages: %w", err)
	}
	if argv = s.pip(env); argv != nil {
		argv = append(argv, args...)
	} else if argv, err = m.uvLine(ctx, env, s, args); err != nil {
		return nil, nil, err
	}
	if subcommand(args) == "install" && m.getenv(insideInstall) == "" {
		lock, err = m.lockDir(ctx, s.Dirs[0], func() { say("Waiting for another install\n") })
		if err == nil {
			err = inherit(lock)
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if err != nil {
			// pip reports the problem.
			m.log.Debug("no lock on the packages", "dir", s.Dirs[0], "err", err)
		}
	}
	return argv, lock, nil
}

// uvLine returns the command line that runs uv in place of pip, which an environment lacks.
func (m *Manager) uvLine(ctx context.Context, env environment, s site, args []string) ([]string, error) {
	uv, ok := m.uv(ctx, env)
	switch {
	case !ok && s.Managed:
		return nil, errors.New(m.forbidden(env.python))
	case !ok:
		return nil, noPip(env)
	}
	sub := subcommand(args)
	at := slices.Index(args, sub)
	switch sub {
	case "":
		return append([]string{uv, "pip"}, args...), nil
	case "install", "uninstall", "list", "freeze", "show", "check":
		return slices.Concat([]string{uv, "pip"}, args[:at+1], []string{"--python", env.python}, args[at+1:]), nil
	}
	return nil, fmt.Errorf("%s has no pip, and uv has no %q; run pip install pip first", env.python, "pip "+sub)
}

// subcommand returns the first argument that is not an option, or "".
func subcommand(args []string) string {
	i := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if i < 0 {
		return ""
	}
	return args[i]
}

// inherit lets the program that this process executes keep f open.
func inherit(f *os.File) error {
	return descriptor.Use(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		return err
	})
}

// runInProgram runs a command as a child of the program pip until it ends, or until limited is
// done. The child stays in the job's session, where the server finds it if this process is killed.
// It leads a new process group, so that an interrupt from the terminal reaches this process alone,
// which then ends the child.
func (m *Manager) runInProgram(limited context.Context, argv []string) ([]byte, process.Exit, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, process.Exit{}, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, process.Exit{}, err
	}
	defer r.Close()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir: m.cfg.Workspace, Env: m.cfg.Env, Files: []*os.File{null, w, w}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	w.Close()
	if err != nil {
		return nil, process.Exit{}, fmt.Errorf("starting %s: %v", argv[0], reason(err))
	}
	defer context.AfterFunc(limited, func() {
		p.Kill()
		r.SetReadDeadline(time.Now()) // descendants can have the pipe open
	})()
	out, _ := io.ReadAll(r) // fails only at the deadline
	state, err := p.Wait()
	if err != nil {
		return out, process.Exit{}, err
	}
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return out, process.Exit{Signal: status.Signal()}, nil
	}
	return out, process.Exit{Code: status.ExitStatus()}, nil
}

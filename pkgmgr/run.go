package pkgmgr

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/text/view"
	"asyncrepl/pkgmgr/installer"
)

// keptOutput is the number of bytes that are kept at the end of a command's output, so that a shim
// that prints without end does not fill the memory.
const keptOutput = 64 << 10

// ErrInterrupted is the error of the program pip if an interrupt from the terminal has ended a child
// that had no process group of its own yet.
var ErrInterrupted = errors.New("interrupted")

// termStep is the time between SIGTERM and SIGKILL.
const termStep = time.Second

// run runs a short command in the workspace, without a terminal or input, and returns its output on
// both streams. It ends the command with ctx or at the limit. An error contains the last line of
// the output.
func (m *Manager) run(ctx context.Context, limit time.Duration, argv ...string) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, errors.New("it takes too long"))
	defer cancel()
	run := m.runOwned
	if m.inProgram {
		run = m.runInProgram
	}
	out, exit, err := run(limited, argv)
	if err != nil {
		return nil, err
	}
	if limited.Err() != nil && ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if m.inProgram && exit.Signal == syscall.SIGINT {
		return out, ErrInterrupted // this process gets it, too, and may not know yet
	}
	return out, failure(limited, exit, argv, out)
}

// runOwned runs a command as a tree of the Owner until it ends, or until limited is done.
func (m *Manager) runOwned(limited context.Context, argv []string) ([]byte, process.Exit, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, process.Exit{}, err
	}
	h, err := m.cfg.Owner.Start(process.Spec{
		Argv:  argv,
		Env:   m.cfg.Env,
		Dir:   m.cfg.Workspace,
		Files: []*os.File{nil, w, w},
		Mark:  "packages",
	})
	w.Close()
	if err != nil {
		r.Close()
		return nil, process.Exit{}, err
	}
	var out []byte // belongs to the pump until it is closed
	reader := pump.New(r, func(b []byte) {
		out = append(out, b...)
		if len(out) > 2*keptOutput {
			out = append(out[:0], out[len(out)-keptOutput:]...)
		}
	})
	select {
	case <-h.Done():
	case <-limited.Done():
		h.Stop(process.Ladder{From: ladder.Terminate, Step: termStep})
	}
	reader.Drain()
	reader.Close() // closes r
	defer h.Forget()
	return out, h.Exit(), nil
}

// failure returns an error that says how a command failed, or nil.
func failure(limited context.Context, exit process.Exit, argv []string, out []byte) error {
	how := fmt.Sprintf("exit %d", exit.Code)
	switch {
	case limited.Err() != nil:
		how = context.Cause(limited).Error()
	case exit.Signal != 0:
		how = "killed by " + runner.SignalName(exit.Signal)
	case exit.Code == 0:
		return nil
	}
	last := view.Line(installer.LastLine(string(out)), 80)
	if last == "" {
		last = "it printed nothing"
	}
	return fmt.Errorf("running %s: %s: %s", view.Line(strings.Join(argv, " "), 80), how, last)
}

//go:build unix

package allocation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/text/view"
)

const (
	outputBytes = 16 << 20 // limit of a command's output; a pod is 10 KiB, and there are 20 at most
	textChars   = 600      // limit of an error of this machine
)

// errTooMuch ends a command that never stops printing.
var errTooMuch = fmt.Errorf("it printed more than %d MiB", outputBytes>>20)

// Local runs a command on this machine, with our environment. It stays in our session: package process takes a
// child outside of that for one that a job has left.
func Local(ctx context.Context, argv []string, stdin string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var out head
	out.full = func() { cancel(errTooMuch) }
	var said carry.Words
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A program that has left the session can hold our pipes, and Wait would wait for it.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errTooMuch) {
		return "", cause
	} else if cause != nil {
		return "", &Error{argv[0], -1, cause.Error(), true}
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return out.kept.String(), nil
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return out.kept.String(), &Error{argv[0], exit.ExitCode(), cmp.Or(said.String(), exit.Error()), true}
	case errors.Is(err, exec.ErrNotFound):
		return "", &Error{argv[0], 127, "there is no such program on the PATH", true}
	default:
		return "", &Error{argv[0], 127, view.Line(err.Error(), textChars), true}
	}
}

// mark begins the output of a command over ssh. What a login shell prints comes before it.
const mark = "@async-repl run"

// Over returns a Run for the machine that ssh reaches: ssh is the program with all its arguments. The
// command goes to /bin/sh there, as a script on standard input, so that any login shell will do.
func Over(ssh []string) Run {
	return func(ctx context.Context, argv []string, stdin string) (string, error) {
		out, err := Local(ctx, append(append([]string(nil), ssh...), "/bin/sh"), script(argv, stdin))
		before, after, reached := strings.Cut(out, mark+"\n")
		var e *Error
		switch {
		case errors.As(err, &e) && reached:
			e.Program = argv[0]
		case errors.As(err, &e):
			e.Reached = false
		case err == nil && !reached:
			text := "it ran no /bin/sh on the other machine"
			var said carry.Words
			if said.Write([]byte(before)); said.String() != "" {
				text += "; its login shell printed: " + said.String()
			}
			return "", &Error{ssh[0], 0, text, false}
		}
		return after, err
	}
}

// script returns the script that runs a command with its standard input. The shell has read all of it
// before the command begins.
func script(argv []string, stdin string) string {
	return "{ echo '" + mark + "'; printf %s " + carry.Quote(stdin) + " | " + carry.Quote(argv...) + "; exit; }\n"
}

// A head keeps the first outputBytes and then calls full. Its buffer is no embedded field, because
// io.Copy would find ReadFrom, which knows no limit.
type head struct {
	kept bytes.Buffer
	full func()
}

func (h *head) Write(p []byte) (int, error) {
	if h.kept.Len()+len(p) > outputBytes {
		h.full()
		return 0, errTooMuch
	}
	return h.kept.Write(p)
}

//go:build unix

package people

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/resource"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/jobs"
)

// An attachment joins a person's terminal with that of a job. The person's terminal passes on every
// key, and the engine types it; what the job's terminal prints is printed here. The engine answers
// what programs ask their terminal, so the questions don't reach the person's, which would answer
// them a second time.
//
// Three things are returned to what they were, however the attachment ends: the mode of the
// person's terminal, the modes that the job's programs have set in it, and the size of the job's
// terminal. A process of its own restores the terminal if the command is killed.

// detachKey is Ctrl-].
const detachKey = 0x1d

func (c *Config) attach() *cobra.Command {
	return &cobra.Command{Annotations: named("attach"), ValidArgsFunction: c.completeJobs(false, false), Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		in, ok := c.In.(*os.File)
		if !ok || !tty.IsTerminal(in) || !c.toTerminal() {
			return errors.New("attach: this is no terminal: use async-repl send and async-repl logs -f")
		}
		f := c.reach(ctx)
		defer f.close()
		j, err := f.find(ctx, args[0])
		switch {
		case err != nil:
			return err
		case jobs.Status(j.Status).Final():
			return fmt.Errorf("job %s has ended: %s: async-repl logs %s shows its output", j.ID, j.StatusText, j.ID)
		case j.Kind != jobs.Shell:
			return fmt.Errorf("job %s is a %s job, which has no terminal: answer it with async-repl send %s", j.ID, j.Kind, j.ID)
		}
		a := &attachment{config: c, job: j, in: in}
		rows, about, err := a.screen(ctx)
		if err != nil {
			if why, ok := strings.CutSuffix(err.Error(), ". Use view=text"); ok {
				return fmt.Errorf("%s: use async-repl send and async-repl logs -f", why)
			}
			return err
		}
		fmt.Fprintf(c.Err, "Attached to job %s. Ctrl-] detaches.\n", j.ID)
		restore, err := a.takeTerminal()
		if err != nil {
			return err
		}
		defer restore()
		err = a.run(ctx, rows, about)
		_ = a.resize(context.WithoutCancel(ctx), runner.Rows, runner.Cols) // an error: the job has ended, or its engine
		restore()
		if end := exit(0); errors.As(err, &end) || err == nil {
			if j.Document, err = j.at.document(context.WithoutCancel(ctx), j.ID); err == nil {
				fmt.Fprintf(c.Err, "\nDetached: job %s %s.\n", j.ID, j.StatusText)
			}
			return end
		}
		return err
	}}
}

// An attachment is one run of attach.
type attachment struct {
	config *Config
	job    job
	in     *os.File
	undo   *os.File // gets what undoes the modes that are set in the terminal
	out    filter
}

// screen returns what the job's terminal shows.
func (a *attachment) screen(ctx context.Context) (rows string, about resource.Screen, err error) {
	contents, err := a.job.at.read(ctx, 0, report.OutputURI(a.job.ID)+"?view="+report.ScreenView)
	if err != nil {
		return "", about, plain(err)
	}
	if len(contents) != 1 || contents[0].Text == nil {
		return "", about, errors.New("the answer is no screen")
	}
	meta, err := json.Marshal(contents[0].Meta[resource.OutputMeta])
	if err == nil {
		err = json.Unmarshal(meta, &about)
	}
	return *contents[0].Text, about, err
}

// takeTerminal makes the terminal raw. restore returns it to its mode of before, and more than once
// does nothing more.
func (a *attachment) takeTerminal() (restore func(), err error) {
	wait, undo, err := a.config.startRestorer(a.in)
	if err != nil {
		return nil, err
	}
	before, err := tty.Raw(a.in)
	if err != nil {
		undo.Close()
		wait()
		return nil, err
	}
	a.undo = undo
	done := false
	return func() {
		if done {
			return
		}
		done = true
		io.WriteString(a.config.Out, a.out.undo()) // an error: the terminal is gone
		before()                                   // an error: the same
		fmt.Fprintln(undo, restored)
		undo.Close()
		wait()
	}, nil
}

// run joins the terminals until the job has ended, the person detaches or ctx is done. The error is
// the exit status of the job if that has ended.
func (a *attachment) run(ctx context.Context, rows string, about resource.Screen) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sizes := make(chan os.Signal, 1) // one that was not seen yet is enough
	signal.Notify(sizes, syscall.SIGWINCH)
	defer signal.Stop(sizes)
	if err := a.show(ctx, rows, about); err != nil {
		return err
	}
	printed := make(chan error, 1) // its only value can come after the end
	go func() {                    // owned by run, which waits for it; ends with the job or with ctx
		printed <- a.print(ctx, about.End)
	}()
	go func() { // owned by the command; ends with the terminal, with a key that detaches, or with the process
		cancel(a.typeKeys(ctx))
	}()
	for {
		var again <-chan time.Time
		if rows, cols, err := tty.SizeOf(a.in); err == nil && rows > 0 && cols > 0 && a.resize(ctx, rows, cols) != nil {
			again = time.After(spinPause) // another call was typing
		}
		select {
		case <-sizes:
		case <-again:
		case err := <-printed:
			switch cause := context.Cause(ctx); { // it is why the reads have failed
			case errors.Is(cause, errDetached):
				return nil
			case cause != nil:
				return cause
			}
			return err
		}
	}
}

// errDetached is the cause of an end that the person has asked for.
var errDetached = errors.New("detached")

// modesBytes is how much of the output is read for the modes that its programs have set.
const modesBytes = 128 << 10

// show draws what the job's terminal shows, in the modes that its programs have set.
func (a *attachment) show(ctx context.Context, rows string, about resource.Screen) error {
	for cursor := max(0, about.End-modesBytes); cursor < about.End; {
		parts, rng, err := a.job.at.output(ctx, 0, a.raw(cursor))
		if err != nil {
			return err
		}
		for _, p := range parts {
			a.out.modes.Write(p.data)
		}
		if cursor = rng.Next; !rng.More {
			break
		}
	}
	var b bytes.Buffer
	b.WriteString(a.out.set())
	b.WriteString("\x1b[H\x1b[2J")
	b.Write(bytes.ReplaceAll(bytes.TrimSuffix([]byte(rows), []byte("\n")), []byte("\n"), []byte("\r\n")))
	fmt.Fprintf(&b, "\x1b[%d;%dH", about.Row, about.Column)
	return a.write(b.Bytes())
}

// raw returns the address of the output from a cursor on.
func (a *attachment) raw(cursor int64) string {
	return fmt.Sprintf("%s?view=%s&cursor=%d", report.OutputURI(a.job.ID), report.RawView, cursor)
}

// write writes to the terminal, after what will undo the modes that this sets has been noted.
func (a *attachment) write(b []byte) error {
	if undo := a.out.undo(); undo != a.out.noted {
		a.out.noted = undo
		fmt.Fprintln(a.undo, undo) // an error: the process that restores was killed
	}
	_, err := a.config.Out.Write(b)
	return err
}

// print prints what the job's terminal does, from a cursor on. It returns the exit status of the
// job when that has ended.
func (a *attachment) print(ctx context.Context, cursor int64) error {
	for {
		parts, rng, err := a.job.at.output(ctx, followWait*time.Second, fmt.Sprintf("%s&wait=%d", a.raw(cursor), followWait))
		if err != nil {
			return err
		}
		for _, p := range parts {
			if err := a.write(a.out.pass(p.data)); err != nil {
				return err
			}
		}
		if !rng.More && jobs.Status(rng.Status).Final() {
			doc, err := a.job.at.document(ctx, a.job.ID)
			if err != nil {
				return err
			}
			return exit(exitStatus(doc))
		}
		if rng.Next == cursor {
			select {
			case <-time.After(spinPause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		cursor = rng.Next
	}
}

// typeKeys sends what the person types. It returns errDetached if that is the key that detaches.
func (a *attachment) typeKeys(ctx context.Context) error {
	buffer, held := make([]byte, 4<<10), 0
	for {
		n, err := a.in.Read(buffer[held:])
		if err != nil {
			return fmt.Errorf("reading the terminal: %w", err)
		}
		keys, _, detaches := bytes.Cut(buffer[:held+n], []byte{detachKey})
		whole := wholeCharacters(keys)
		if len(whole) > 0 {
			err := a.send(ctx, map[string]any{"text": string(bytes.ToValidUTF8(whole, nil))})
			if errors.As(err, new(*lostError)) {
				return err
			}
			if err != nil { // a program has ended meanwhile, or takes nothing
				io.WriteString(a.config.Out, "\a")
			}
		}
		if detaches {
			return errDetached
		}
		held = copy(buffer, keys[len(whole):])
	}
}

// wholeCharacters returns b without a last character that lacks some of its bytes.
func wholeCharacters(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// send sends input to the job.
func (a *attachment) send(ctx context.Context, input map[string]any) error {
	input["job_id"], input["wait_seconds"] = a.job.ID, 0
	_, err := a.job.at.call(ctx, 0, "send_command_input", input)
	return err
}

// sideMax bounds the sides of a job's terminal.
const sideMax = 1000

// resize gives the job's terminal a size.
func (a *attachment) resize(ctx context.Context, rows, cols int) error {
	return a.send(ctx, map[string]any{"size": []int{min(rows, sideMax), min(cols, sideMax)}})
}

// A process of its own waits for the end of the command, and restores the terminal if the command
// could not. It leads a session of its own, so that no signal from the terminal ends it. Its
// standard input is the terminal, its descriptor 3 the pipe, from which it reads what undoes the
// modes, one a line, and at last the line restored.

// restored is the last line of a command that has restored the terminal itself.
const restored = "restored"

// startRestorer starts the process. It knows the mode of the terminal when startRestorer returns.
func (c *Config) startRestorer(terminal *os.File) (wait func(), undo *os.File, err error) {
	if c.Restorer == nil {
		return nil, nil, errors.New("attach: this program is not found where it was started: start it by its full path")
	}
	theirs, undo, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	ready, readiness, err := os.Pipe()
	if err != nil {
		undo.Close()
		return nil, nil, err
	}
	defer ready.Close()
	p, err := os.StartProcess(c.Restorer[0], c.Restorer, &os.ProcAttr{
		Files: []*os.File{terminal, readiness, nil, theirs}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	readiness.Close()
	if err == nil {
		wait = func() { p.Wait() } // an error: it is reaped already
		ready.SetReadDeadline(time.Now().Add(sockets.HelloTime))
		if _, err = ready.Read(make([]byte, 1)); err != nil {
			p.Kill()
			wait()
		}
	}
	if err != nil {
		undo.Close()
		return nil, nil, fmt.Errorf("starting the process that restores the terminal: %w", err)
	}
	return wait, undo, nil
}

// restore is the command of that process.
func (c *Config) restore() *cobra.Command {
	return &cobra.Command{Annotations: named("restore"), Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		terminal, ok := c.In.(*os.File)
		if !ok || !tty.IsTerminal(terminal) {
			return misuse{errors.New("restore is for attach: see async-repl help")}
		}
		restore, err := tty.Keep(terminal)
		if err != nil {
			return err
		}
		pipe := os.NewFile(3, "the pipe of attach")
		unix.CloseOnExec(3)
		c.Out.Write([]byte("\n")) // an error: the command was killed
		lines, _ := io.ReadAll(pipe)
		lines = bytes.TrimSuffix(lines, []byte("\n"))
		undo := lines[bytes.LastIndexByte(lines, '\n')+1:]
		if string(undo) == restored {
			return nil
		}
		terminal.Write(undo) // an error: the terminal is gone
		return restore()
	}}
}

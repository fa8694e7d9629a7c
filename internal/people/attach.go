//go:build unix

package people

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/resource"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/text/escape"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// attach joins a person's terminal with that of a job. The person's terminal passes on every key,
// and the engine types it; what the job's terminal prints is printed here. The engine answers what
// programs ask their terminal, so the questions don't reach the person's, which would answer them a
// second time.
//
// Three things are returned to what they were, however the attachment ends: the mode of the
// person's terminal, what the job's programs have set in it, and the size of the job's terminal. A
// process of its own restores the terminal, so that it is restored if the command is killed, too.

// detachKey is Ctrl-].
const detachKey = 0x1d

func (c *Config) attach() *cobra.Command {
	return &cobra.Command{ValidArgsFunction: c.completeJobs(false, false), Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		in, ok := c.In.(*os.File)
		if !ok || !tty.IsTerminal(in) || !c.toTerminal() {
			return errors.New("attach: this is no terminal: use async-repl send and async-repl logs -f")
		}
		f := c.reach(ctx)
		defer f.close()
		j, err := f.find(ctx, args[0])
		if err == nil {
			err = j.adrift()
		}
		switch {
		case err != nil:
			return err
		case jobs.Status(j.Status).Final():
			return fmt.Errorf("job %s has ended: %s: async-repl logs %s shows its output", j.ID, j.StatusText, j.ID)
		}
		rows, about, err := j.screen(ctx)
		if err != nil {
			if why, ok := strings.CutSuffix(err.Error(), ". Use view=text"); ok {
				return fmt.Errorf("%s: use async-repl send and async-repl logs -f", why)
			}
			return err
		}
		at := ""
		if j.Place != "" {
			at = " at " + report.PlaceText(j.Place, j.Where)
		}
		fmt.Fprintf(c.Err, "Attached to job %s%s. Ctrl-] detaches.\n", j.ID, at)
		restore, err := c.takeTerminal(in, j.ID)
		if err != nil {
			return err
		}
		a := &attachment{job: j, in: in, out: c.Out}
		err = a.run(ctx, rows, about)
		restore()
		if end := exit(0); errors.As(err, &end) || err == nil {
			if j.Document, err = j.at.document(context.WithoutCancel(ctx), j.ID); err == nil {
				fmt.Fprintf(c.Err, "\nDetached: job %s %s.\n", j.ID, j.StatusText)
				for _, line := range awayLines(j.Document) {
					fmt.Fprintln(c.Err, line)
				}
			}
			if lost := a.lost.Load(); lost != nil && end == 0 {
				return fmt.Errorf("some of what you typed was %w", lost)
			}
			return end
		}
		return err
	}}
}

// An attachment is one run of attach.
type attachment struct {
	job
	in   *os.File
	out  io.Writer
	held []byte                           // the begin of an escape sequence whose rest is not printed yet
	lost atomic.Pointer[undeliveredError] // about the first keys that did not arrive; nil: all did
}

// screen returns what the job's terminal shows.
func (j job) screen(ctx context.Context) (rows string, about resource.Screen, err error) {
	parts, err := j.at.read(ctx, 0, report.OutputURI(j.ID)+"?view="+report.ScreenView)
	if err != nil {
		return "", about, err
	}
	if parts[0].Text == nil {
		return "", about, errors.New("the answer is no screen")
	}
	return *parts[0].Text, about, parts[0].about(&about)
}

// run joins the terminals until the job has ended, the person detaches or ctx is done. The error is
// the exit status of the job if that has ended.
func (a *attachment) run(ctx context.Context, rows string, about resource.Screen) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sizes := make(chan os.Signal, 1) // one that was not seen yet is enough
	signal.Notify(sizes, syscall.SIGWINCH)
	defer signal.Stop(sizes)
	go func() { // owned by the command; ends with the terminal, with a key that detaches, or with the process
		cancel(a.typeKeys(ctx))
	}()
	if height, _, err := tty.SizeOf(a.in); err == nil { // what the person's terminal has shown scrolls away
		io.WriteString(a.out, strings.Repeat("\n", height)) // an error: the terminal is gone
	}
	for {
		if err := a.show(ctx, rows, about); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		err := a.join(ctx, about.End, sizes)
		switch cause := context.Cause(ctx); { // it is why the reads have failed
		case errors.Is(cause, errDetached):
			return nil
		case cause != nil:
			return cause
		case err != errBack:
			return err
		}
		if rows, about, err = a.screen(ctx); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
}

// errBack is the error of an attachment whose link to the job's place was lost and is there again. The last line
// of the person's terminal has to be drawn again.
var errBack = errors.New("the link is there again")

// linkPause is the time between two looks at the link to the place of an attached job.
const linkPause = time.Second

// join joins the terminals from a cursor on, until the job has ended or ctx is done. While the link to the job's
// place is lost, the last line of the person's terminal says so; then join returns errBack.
func (a *attachment) join(ctx context.Context, cursor int64, sizes <-chan os.Signal) error {
	a.held = nil
	ctx, stop := context.WithCancel(ctx)
	printed := make(chan error, 1) // buffered: join can have ended before
	var printing sync.WaitGroup
	defer printing.Wait()
	defer stop()
	printing.Go(func() { printed <- a.follow(ctx, cursor) }) // joined by join; ends with the job or with ctx
	var look <-chan time.Time
	if a.Place != "" {
		ticker := time.NewTicker(linkPause)
		defer ticker.Stop()
		look = ticker.C
	}
	lost := a.showLink(a.Link)
	for sized := false; ; {
		var again <-chan time.Time
		if !sized && !lost {
			rows, cols, err := tty.SizeOf(a.in)
			if sized = err != nil || rows <= 0 || cols <= 0 || a.resize(ctx, rows, cols) == nil; !sized {
				again = time.After(spinPause) // another call was typing
			}
		}
		select {
		case <-sizes:
			sized = false
		case <-again:
		case <-look:
			doc, err := a.at.document(ctx, a.ID)
			if err != nil {
				continue // the printing ends for the same reason
			}
			before := lost
			if lost = a.showLink(doc.Link); before && !lost {
				return errBack
			}
		case err := <-printed:
			return err
		}
	}
}

// showLink says on the last line of the person's terminal that the link to the job's place is lost, if it is, and
// reports whether it is. The job prints nothing then.
func (a *attachment) showLink(link string) (lost bool) {
	if !strings.HasPrefix(link, linkLost) {
		return false
	}
	if _, cols, err := tty.SizeOf(a.in); err == nil {
		fmt.Fprintf(a.out, "\x1b7\x1b[999;1H\x1b[0;7m%s\x1b[K\x1b8", view.Line("Link: "+link, max(1, cols-1))) // an error: the terminal is gone
	}
	return true
}

// errDetached is the cause of an end that the person has asked for.
var errDetached = errors.New("detached")

// modesBytes is how much of the output is read for the modes that its programs have set.
const modesBytes = 128 << 10

// switches are the modes that programs set and that matter before they draw again.
var switches = []int{1, 1000, 1002, 1003, 1004, 1006, 2004, 1049}

// show draws what the job's terminal shows, in the modes that its programs have set.
func (a *attachment) show(ctx context.Context, rows string, about resource.Screen) error {
	var modes escape.Modes
	err := a.output(ctx, report.RawView, max(0, about.End-modesBytes), false, func(p part) error {
		modes.Write(p.data)
		return nil
	})
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, n := range switches {
		if modes.Setting(escape.Mode{Private: true, Number: n}) == escape.Set {
			fmt.Fprintf(&b, "\x1b[?%dh", n)
		}
	}
	b.WriteString("\x1b[H\x1b[2J" + strings.ReplaceAll(strings.TrimSuffix(rows, "\n"), "\n", "\r\n"))
	fmt.Fprintf(&b, "\x1b[%d;%dH", about.Row, about.Column)
	if about.Hidden {
		b.WriteString("\x1b[?25l")
	}
	_, err = io.WriteString(a.out, b.String())
	return err
}

// follow prints what the job's terminal does, from a cursor on. It returns the exit status of the
// job when that has ended.
func (a *attachment) follow(ctx context.Context, cursor int64) error {
	err := a.output(ctx, report.RawView, cursor, true, func(p part) error {
		_, err := a.out.Write(a.pass(p.data))
		return err
	})
	if err != nil {
		return err
	}
	doc, err := a.at.document(ctx, a.ID)
	if err != nil {
		return err
	}
	return exit(exitStatus(doc))
}

// pass returns what of b to print: all but what asks the terminal something. b can be cut anywhere:
// the begin of a sequence is held until the rest is there.
func (a *attachment) pass(b []byte) (out []byte) {
	b = append(a.held, b...)
	a.held = nil
	for {
		k := bytes.IndexByte(b, escape.ESC)
		if k < 0 {
			return append(out, b...)
		}
		out, b = append(out, b[:k]...), b[k:]
		q := escape.Scan(b)
		if q.Open && len(b) <= escape.Longest {
			a.held = bytes.Clone(b)
			return out
		}
		if !asks(b[:q.Len], q) {
			out = append(out, b[:q.Len]...)
		}
		b = b[q.Len:]
	}
}

// asks reports whether a terminal answers a sequence. Sequences that change the window (CSI t) can
// do so, too (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html).
func asks(b []byte, q escape.Sequence) bool {
	switch {
	case q.Control:
		switch q.Final {
		case 'c', 't':
			return true
		case 'n': // CSI > n sets how keys are sent
			return b[2] != '>'
		case 'p':
			return bytes.HasSuffix(b, []byte("$p"))
		case 'q':
			return b[2] == '>'
		case 'u':
			return b[2] == '?'
		case 'x', 'y': // DECREQTPARM; checksums of the screen
			return true
		}
		return false
	case len(b) < 2:
		return false
	case b[1] == ']': // a colour or the clipboard, if "?" stands for it
		text := strings.TrimRight(string(b[2:]), "\a\x1b\\")
		return strings.HasSuffix(text, ";?")
	case b[1] == 'P':
		return bytes.HasPrefix(b[2:], []byte("$q")) || bytes.HasPrefix(b[2:], []byte("+q"))
	}
	return b[1] == 'Z' // DECID
}

// typeKeys sends what the person types. It returns errDetached if that is the key that detaches.
func (a *attachment) typeKeys(ctx context.Context) error {
	keys := bufio.NewReader(a.in)
	for {
		var text strings.Builder
		detaches := false
		for more := true; more && !detaches; more = keys.Buffered() > 0 {
			switch key, size, err := keys.ReadRune(); {
			case err != nil:
				return fmt.Errorf("reading the terminal: %w", err)
			case key == detachKey:
				detaches = true
			case key != utf8.RuneError || size > 1: // else it is no UTF-8
				text.WriteRune(key)
			}
		}
		if text.Len() > 0 {
			err := a.send(ctx, map[string]any{"text": text.String()})
			if errors.As(err, new(*lostError)) {
				return err
			}
			if lost, ok := errors.AsType[*undeliveredError](err); ok {
				a.lost.CompareAndSwap(nil, lost)
			}
			if err != nil { // a program has ended meanwhile, or takes nothing
				io.WriteString(a.out, "\a")
			}
		}
		if detaches {
			return errDetached
		}
	}
}

// send sends input to the job.
func (j job) send(ctx context.Context, input map[string]any) error {
	input["job_id"], input["wait_seconds"] = j.ID, 0
	reply, err := j.at.call(ctx, 0, "send_command_input", input)
	if err == nil {
		err = undelivered(reply)
	}
	return err
}

// sideMax bounds the sides of a job's terminal.
const sideMax = 1000

// resize gives the job's terminal a size.
func (j job) resize(ctx context.Context, rows, cols int) error {
	return j.send(ctx, map[string]any{"size": []int{min(rows, sideMax), min(cols, sideMax)}})
}

// reset undoes what programs set in a terminal and what would disturb a person who types at it
// afterwards: modes, the alternate screen, how keys are reported (xterm's modifyOtherKeys, kitty's
// protocol), margins, character sets, colours and the shape of the cursor. It moves the cursor to
// the last line.
const reset = "\x1b[?1;6;12;1000;1002;1003;1004;1006;2004l\x1b[?1049l\x1b[?7;25h\x1b[4l\x1b>\x1b[>4m\x1b[=0u\x1b[r\x1b(B\x0f\x1b[m\x1b[0 q\x1b[999;1H"

// takeTerminal makes a terminal raw, to join it with the terminal of a job. restore returns both to
// what they were. A process that takeTerminal starts does that work once its standard input ends, so
// it also does it if the command is killed. The process leads a session of its own: no signal from
// the terminal ends it.
func (c *Config) takeTerminal(terminal *os.File, id string) (restore func(), err error) {
	if c.Restorer == nil {
		return nil, errors.New("attach: this program is not found where it was started: start it by its full path")
	}
	before, err := tty.Save(terminal)
	if err != nil {
		return nil, err
	}
	mode, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	ends, ended, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ends.Close()
	p, err := os.StartProcess(c.Restorer[0], append(c.Restorer, string(mode), id), &os.ProcAttr{
		Files: []*os.File{ends, terminal, nil}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		ended.Close()
		return nil, fmt.Errorf("starting the process that restores the terminal: %w", err)
	}
	restore = func() {
		ended.Close()
		p.Wait()                 // an error: it is reaped already
		before.Restore(terminal) // the process can have been killed; an error: the terminal is gone
	}
	if _, err := tty.Raw(terminal); err != nil {
		restore()
		return nil, err
	}
	return restore, nil
}

// restore is the command of the process that restores a terminal, which is its standard output, and
// the size of a job's terminal.
func (c *Config) restore() *cobra.Command {
	return &cobra.Command{Args: cobra.ExactArgs(2), RunE: func(cmd *cobra.Command, args []string) error {
		var before tty.Saved
		terminal, ok := c.Out.(*os.File)
		if !ok || json.Unmarshal([]byte(args[0]), &before) != nil {
			return misuse{errors.New("restore is for attach: see async-repl help")}
		}
		io.Copy(io.Discard, c.In)   // nothing is written; it ends with attach
		terminal.WriteString(reset) // an error: the terminal is gone
		before.Restore(terminal)    // an error: the same
		f := c.reach(cmd.Context())
		defer f.close()
		j, err := f.find(cmd.Context(), args[1])
		if err == nil && !strings.HasPrefix(j.Link, linkLost) {
			err = j.resize(cmd.Context(), runner.Rows, runner.Cols)
		}
		return err
	}}
}

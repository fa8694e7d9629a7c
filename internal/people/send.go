//go:build unix

package people

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/jobs"
)

func (c *Config) send() *cobra.Command {
	var bare, eof, secret bool
	var keys []string
	cmd := &cobra.Command{ValidArgsFunction: c.completeJobs(false, false), Args: cobra.RangeArgs(1, 2), RunE: func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		switch given := len(args) == 2; {
		case given && secret:
			return misuse{errors.New("send: --secret asks for the text: leave it out, because your shell keeps command lines")}
		case !given && !secret && !eof && keys == nil:
			return misuse{errors.New("send: there is nothing to send: give TEXT, --key, --eof or --secret")}
		}
		f := c.reach(ctx)
		defer f.close()
		j, err := f.find(ctx, args[0])
		if err == nil {
			err = j.adrift()
		}
		if err != nil {
			return err
		}
		text := strings.Join(args[1:], "")
		if secret {
			if text, err = c.askSecret(ctx, j); err != nil {
				return err
			}
		}
		tool, input := "send_python_input", map[string]any{"job_id": j.ID, "text": text, "eof": eof, "wait_seconds": 0}
		if j.Kind != jobs.Python || secret || bare || keys != nil {
			tool, input["keys"], input["secret"] = "send_command_input", keys, secret
			if !bare && (secret || len(args) == 2) {
				input["text"] = text + "\n"
			}
		}
		reply, err := j.at.call(ctx, 0, tool, input)
		if err == nil {
			err = undelivered(reply)
		}
		if err == nil {
			fmt.Fprintln(c.Out, oneLine(reply.Header("Input")))
		}
		return err
	}}
	cmd.Flags().BoolVarP(&bare, "no-newline", "n", false, "send no Enter after TEXT")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "press `KEY` after TEXT, such as up, ctrl-c or f1; can be given several times")
	cmd.Flags().BoolVar(&eof, "eof", false, "then send end of file")
	cmd.Flags().BoolVar(&secret, "secret", false, "ask for the text, and never show or keep it")
	return cmd
}

// An undeliveredError says that input has not arrived at the place of its job, or may not have.
type undeliveredError struct{ words string }

func (e *undeliveredError) Error() string { return e.words }

// undelivered returns an *undeliveredError if a reply about input says so, or nil.
func undelivered(reply client.Reply) error {
	words := reply.Header("Input")
	if !strings.HasPrefix(words, "not ") {
		return nil
	}
	if link := reply.Header("Link"); link != "" {
		words += "; link: " + link
	}
	return &undeliveredError{oneLine(words)}
}

// secretMax bounds a secret, in bytes.
const secretMax = 64 << 10

// askSecret reads a line from standard input, without echo if that is a terminal.
func (c *Config) askSecret(ctx context.Context, j job) (string, error) {
	if f, ok := c.In.(*os.File); ok && tty.IsTerminal(f) {
		before, err := tty.Hide(f)
		if err != nil {
			return "", err
		}
		defer before.Restore(f) // an error: the terminal is gone
		prompt := "Text: "
		if j.Question != nil && j.Question.Prompt != "" {
			prompt = report.OneLine(j.Question.Prompt)
		}
		fmt.Fprint(c.Err, prompt)
	}
	var line string
	var err error
	read := make(chan struct{}) // closed once line and err are set
	go func() {                 // owned by the command; ends with the line, or with the process after a signal
		line, err = bufio.NewReader(io.LimitReader(c.In, secretMax)).ReadString('\n')
		close(read)
	}()
	select {
	case <-read:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if err == io.EOF && (line == "" || len(line) == secretMax) {
		return "", errors.New("send: standard input has no line of less than 64 KiB: nothing was sent")
	}
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("reading standard input: %w: nothing was sent", err)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

func (c *Config) cancel() *cobra.Command {
	var force bool
	cmd := &cobra.Command{ValidArgsFunction: c.completeJobs(false, true), Args: cobra.MinimumNArgs(1), RunE: func(cmd *cobra.Command, ids []string) error {
		ctx := cmd.Context()
		f := c.reach(ctx)
		defer f.close()
		code := exit(0)
		for _, id := range ids {
			var reply client.Reply
			j, err := f.find(ctx, id)
			if err == nil {
				err = j.adrift()
			}
			if err == nil {
				reply, err = j.at.call(ctx, cancelGrace+sockets.HelloTime, "cancel_job", map[string]any{"job_id": j.ID, "force": force})
			}
			if err != nil {
				fmt.Fprintf(c.Err, "async-repl: %v\n", err)
				code = failed
				continue
			}
			text := j.ID + " " + reply.Header("Status")
			for _, name := range []string{"Cancelling", "Link", "Ended now", "Survivors", "Note"} {
				if value := reply.Header(name); value != "" {
					text += "; " + strings.ToLower(name) + ": " + value
				}
			}
			if reply.Header("Cancelling") != "" && strings.HasPrefix(reply.Header("Link"), linkLost) {
				text += "; it is cancelled there when the link is back, and --force gives it up"
			}
			fmt.Fprintln(c.Out, oneLine(text))
		}
		return code
	}}
	cmd.Flags().BoolVar(&force, "force", false, "kill at once; Python loses its variables")
	return cmd
}

//go:build unix

package people

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/resource"
	"asyncrepl/jobs"
)

func (c *Config) logs() *cobra.Command {
	var follow bool
	var chosen string
	cmd := &cobra.Command{ValidArgsFunction: c.completeJobs(true, false), Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		switch {
		case chosen != report.TextView && chosen != report.RawView && chosen != report.ScreenView:
			return misuse{fmt.Errorf("logs: --view is %s, %s or %s", report.TextView, report.RawView, report.ScreenView)}
		case chosen == report.ScreenView && follow:
			return misuse{errors.New("logs: --view screen shows one moment: leave -f out")}
		}
		f := c.reach(cmd.Context())
		defer f.close()
		j, err := f.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if j.Link != "" {
			fmt.Fprintf(c.Err, "async-repl: output can be missing: link: %s\n", j.Link)
		}
		var next int64
		show := func(p part) error {
			next = p.Next
			if p.Dropped > 0 {
				fmt.Fprintf(c.Err, "async-repl: %d bytes of the output can't be read any more\n", p.Dropped)
			}
			w := c.Out
			if p.Stream == "stderr" {
				w = c.Err
			}
			_, err := w.Write(p.data)
			return err
		}
		if err = j.output(cmd.Context(), chosen, 0, follow, show); errors.As(err, new(*lostError)) { // records have the rest
			now, j, err := c.findAgain(cmd.Context(), j.ID)
			defer now.close()
			if err != nil {
				return err
			}
			return j.output(cmd.Context(), chosen, next, follow, show)
		}
		return err
	}}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show what follows, too, until the job has ended")
	cmd.Flags().StringVar(&chosen, "view", report.TextView, "the `VIEW`: text, screen (what its terminal shows) or raw (every byte as it came)")
	cmd.RegisterFlagCompletionFunc("view", cobra.FixedCompletions([]cobra.Completion{report.TextView, report.ScreenView, report.RawView}, cobra.ShellCompDirectiveNoFileComp)) // an error: it is registered
	return cmd
}

// followWait is how long one read waits for output, in seconds.
const followWait = 60

// spinPause is the pause after a read that has found an incomplete character or escape sequence
// only.
const spinPause = 50 * time.Millisecond

// A part is some output of one stream, with its place in the log. A screen has none.
type part struct {
	resource.Range
	data []byte
}

// output calls write for each part of a job's output from a cursor on: for all that there is, or with
// follow until the job has ended.
func (j job) output(ctx context.Context, view string, cursor int64, follow bool, write func(part) error) error {
	for {
		uri := fmt.Sprintf("%s?view=%s", report.OutputURI(j.ID), view)
		if view != report.ScreenView {
			uri += fmt.Sprintf("&cursor=%d", cursor)
		}
		wait := time.Duration(0)
		if follow {
			uri, wait = uri+fmt.Sprintf("&wait=%d", followWait), followWait*time.Second
		}
		contents, err := j.at.read(ctx, wait, uri)
		if err != nil {
			return err
		}
		var p part
		for i, c := range contents {
			p = part{}
			if err := c.about(&p.Range); err != nil {
				return err
			}
			if i > 0 {
				p.Dropped = 0 // the first part has said it
			}
			p.data = c.Blob
			if c.Text != nil {
				p.data = []byte(*c.Text)
			}
			if err := write(p); err != nil {
				return err
			}
		}
		if !p.More && (!follow || jobs.Status(p.Status).Final()) {
			return nil
		}
		if p.Next == cursor {
			select {
			case <-time.After(spinPause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		cursor = p.Next
	}
}

//go:build unix

package people

import (
	"context"
	"encoding/json"
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
		return c.print(cmd.Context(), j, chosen, follow)
	}}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show what follows, too, until the job has ended")
	cmd.Flags().StringVar(&chosen, "view", report.TextView, "text, screen (what its terminal shows) or raw (every byte as it came)")
	cmd.RegisterFlagCompletionFunc("view", cobra.FixedCompletions([]cobra.Completion{report.TextView, report.ScreenView, report.RawView}, cobra.ShellCompDirectiveNoFileComp)) // an error: it is registered
	return cmd
}

// followWait is how long one read waits for output, in seconds.
const followWait = 60

// spinPause is the pause after a read that has found an incomplete character or escape sequence
// only.
const spinPause = 50 * time.Millisecond

// print writes a job's output, what came over stderr to standard error.
func (c *Config) print(ctx context.Context, j job, view string, follow bool) error {
	for cursor := int64(0); ; {
		uri := fmt.Sprintf("%s?view=%s", report.OutputURI(j.ID), view)
		if view != report.ScreenView {
			uri += fmt.Sprintf("&cursor=%d", cursor)
		}
		wait := time.Duration(0)
		if follow {
			uri, wait = uri+fmt.Sprintf("&wait=%d", followWait), followWait*time.Second
		}
		parts, rng, err := j.at.output(ctx, wait, uri)
		if err != nil {
			return err
		}
		if rng.Dropped > 0 {
			fmt.Fprintf(c.Err, "async-repl: %d bytes of the output can't be read any more\n", rng.Dropped)
		}
		for _, part := range parts {
			w := c.Out
			if part.stream == "stderr" {
				w = c.Err
			}
			if _, err := w.Write(part.data); err != nil {
				return err
			}
		}
		if !rng.More && (!follow || jobs.Status(rng.Status).Final()) {
			return nil
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

// A part is some output of one stream.
type part struct {
	stream string
	data   []byte
}

// output reads output, and its place in the log. A screen has no place, and its status is set.
func (e *host) output(ctx context.Context, wait time.Duration, uri string) (parts []part, rng resource.Range, err error) {
	contents, err := e.read(ctx, wait, uri)
	if err != nil {
		return nil, rng, err
	}
	for _, c := range contents {
		meta, err := json.Marshal(c.Meta[resource.OutputMeta])
		if err == nil {
			err = json.Unmarshal(meta, &rng)
		}
		if err != nil {
			return nil, rng, fmt.Errorf("the answer has no place in the output: %w", err)
		}
		data := c.Blob
		if c.Text != nil {
			data = []byte(*c.Text)
		}
		parts = append(parts, part{rng.Stream, data})
	}
	return parts, rng, nil
}

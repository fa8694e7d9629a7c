//go:build unix

package people

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// Exit statuses of wait, besides the one of a job.
const (
	asksInput = 123
	timedOut  = 124 // timeout(1) has the same
	cantWait  = 125
	signalled = 128 // and the number of the signal
)

func (c *Config) wait() *cobra.Command {
	var first bool
	var limit string
	cmd := &cobra.Command{ValidArgsFunction: c.completeJobs(false, true), Args: cobra.MinimumNArgs(1), RunE: func(cmd *cobra.Command, ids []string) error {
		ctx := cmd.Context()
		d, err := timeLimit(limit)
		if err != nil {
			return err
		}
		f := c.reach(ctx)
		defer f.close()
		var list []job
		for _, id := range ids {
			j, err := f.find(ctx, id)
			if err == nil {
				err = j.adrift()
			}
			if err != nil {
				return err
			}
			list = append(list, j)
		}
		if d > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, d, errTimeout)
			defer cancel()
		}
		return c.waitFor(ctx, list, first)
	}}
	cmd.Flags().BoolVar(&first, "any", false, "wait until one of several has ended, and not all; of those that have, the first given counts")
	cmd.Flags().StringVar(&limit, "timeout", "", "the longest `TIME` to wait: a number of seconds, or a time like 90s or 2h")
	return cmd
}

// timeLimit reads a time, of which a bare number is seconds. An empty text is no limit, 0.
func timeLimit(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, misuse{errors.New("wait: --timeout is a number of seconds, or a time like 90s or 2h")}
	}
	return d, nil
}

var (
	errTimeout = errors.New("the time is over")
	errNews    = errors.New("one of the jobs has ended or asks")
)

// outcomes waits until the jobs have ended, or one if first is set, or one asks for input. It
// returns each job that has, and nil for the others. The error says why the wait was over before.
func (c *Config) outcomes(ctx context.Context, list []job, first bool) ([]*report.Document, error) {
	waits, waiting := errgroup.WithContext(ctx)
	ends := make([]*report.Document, len(list))
	if i := slices.IndexFunc(list, func(j job) bool { return settled(j.Document) }); first && i >= 0 {
		ends[i] = list[i].Document
		return ends, nil
	}
	for i, j := range list {
		waits.Go(func() error { // owned by this call, which waits for it; ends with the job or the wait
			end, err := c.follow(waiting, j)
			if err != nil {
				return err
			}
			if ends[i] = end; first || !jobs.Status(end.Status).Final() {
				return errNews
			}
			return nil
		})
	}
	err := waits.Wait()
	if errors.Is(err, errNews) {
		err = nil
	}
	return ends, err
}

// waitFor waits for the jobs, prints what has become of them and returns the exit status.
func (c *Config) waitFor(ctx context.Context, list []job, first bool) error {
	ends, err := c.outcomes(ctx, list, first)
	code, ended := 0, 0
	for _, end := range ends {
		if end == nil || first && ended > 0 {
			continue
		}
		ended++
		fmt.Fprintln(c.Out, news(end))
		switch status := exitStatus(end); {
		case len(list) == 1, first, !jobs.Status(end.Status).Final():
			code = status
		case status != 0 && code != asksInput:
			code = failed
		}
	}
	switch {
	case err == nil:
		return exit(code)
	case context.Cause(ctx) == errTimeout:
		fmt.Fprintf(c.Err, "async-repl: the time is over: %d of %d jobs have ended\n", ended, len(list))
		return exit(timedOut)
	}
	return err
}

// jobWait is how long one call waits for a job: as long as wait_for_jobs can.
const jobWait = time.Hour

// follow returns the job when it has ended or asks for input. If its engine ends meanwhile, the
// records say what has become of the job.
func (c *Config) follow(ctx context.Context, j job) (*report.Document, error) {
	for {
		reply, err := j.at.call(ctx, jobWait, "wait_for_jobs", map[string]any{"job_ids": []string{j.ID}, "wait_seconds": jobWait.Seconds()})
		var doc *report.Document
		if err == nil {
			doc, err = j.at.document(ctx, j.ID)
		}
		switch {
		case errors.As(err, new(*lostError)):
			f, again, err := c.findAgain(ctx, j.ID)
			defer f.close()
			if err != nil {
				return nil, err
			}
			j = again
			if err := j.adrift(); err != nil {
				return nil, err
			}
			if jobs.Status(j.Status).Final() {
				return j.Document, nil
			}
		case err != nil:
			return nil, err
		case settled(doc), strings.Contains(reply.Header("Condition"), "accepts input"):
			return doc, nil
		}
	}
}

// settled reports whether a wait for a job is over: it has ended or asks for input.
func settled(j *report.Document) bool {
	return jobs.Status(j.Status).Final() || j.Question != nil && j.Cancelling == ""
}

// news says in one line what has become of a job.
func news(j *report.Document) string {
	if jobs.Status(j.Status).Final() {
		return j.ID + " " + j.StatusText
	}
	if j.Question == nil {
		return j.ID + " accepts input"
	}
	if j.Question.Prompt == "" {
		return j.ID + " waits for a " + j.Question.Kind
	}
	return strings.TrimSpace(j.ID + " waits for input: " + report.OneLine(j.Question.Prompt))
}

// exitStatus returns the exit status that stands for the end of a job, or for its question.
func exitStatus(j *report.Document) int {
	switch r := j.Receipt; {
	case !jobs.Status(j.Status).Final():
		return asksInput
	case j.Status == string(jobs.Completed):
		return 0
	case r != nil && r.ExitCode != nil && *r.ExitCode != 0:
		return *r.ExitCode
	case r != nil && unix.SignalNum(r.Signal) > 0:
		return signalled + int(unix.SignalNum(r.Signal))
	}
	return failed
}

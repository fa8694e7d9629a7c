//go:build unix

package people

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"asyncrepl/internal/text/pattern"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A client runs a hook beside its model, after each call of a tool. Claude Code 2.1.330 shows the
// model a line on standard error of a hook that exits with status 2, and wakes the model for it if
// the hook's setting has asyncRewake. Any other status is silent, and so is bad input here: a
// client that changes its format must not have its model disturbed by each call.

// toldCode is the exit status with which a client reads the line on standard error.
const toldCode = 2

// callMax bounds the call on standard input, in bytes. A reply has 45,000 characters at most.
const callMax = 16 << 20

func (c *Config) hook() *cobra.Command {
	cmd := &cobra.Command{RunE: func(cmd *cobra.Command, _ []string) error {
		ids := shownRunning(c.In)
		if ids == nil {
			return nil
		}
		if line := c.tell(cmd.Context(), ids); line != "" {
			fmt.Fprintln(c.Err, "async-repl:", line)
			return exit(toldCode)
		}
		return nil
	}}
	cmd.Args, cmd.DisableFlagParsing = cobra.ArbitraryArgs, true // a mistake would have the status of news
	return cmd
}

// running matches the lines about a job that runs, in the JSON of a reply.
var running = pattern.Lazy(`(?:"|\\n)Job ID: ([0-9A-Z]{26})\\nStatus: (?:running|queued)\b`)

// shownRunning reads a call and returns the jobs that its reply shows running or queued.
func shownRunning(r io.Reader) (ids []string) {
	raw, err := io.ReadAll(io.LimitReader(r, callMax))
	var call struct {
		Response json.RawMessage `json:"tool_response"`
	}
	if err != nil || json.Unmarshal(raw, &call) != nil {
		return nil
	}
	head, _, _ := bytes.Cut(call.Response, []byte(`\n--- `)) // the rest is output of jobs
	for _, m := range running().FindAllSubmatch(head, -1) {
		if id := string(m[1]); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// tell waits until one of the jobs has ended or asks, and returns the line that says so. It returns
// the empty string if an engine has none of them, or if other hooks follow them.
func (c *Config) tell(ctx context.Context, ids []string) string {
	f := c.reach(ctx)
	defer f.close()
	var mine []job
	for _, id := range ids {
		j, err := f.find(ctx, id)
		if err != nil || j.at == f.records || jobs.Status(j.Status).Final() {
			continue
		}
		lock, err := lockJob(j)
		if err != nil {
			continue
		}
		defer lock.Close()
		mine = append(mine, j)
	}
	if mine == nil {
		return ""
	}
	ends, _ := c.outcomes(ctx, mine, true) // an error: nothing is known of the others
	var said []string
	for i, end := range ends {
		if end != nil {
			said = append(said, fmt.Sprintf("job %s (%s)", news(end), view.Line(mine[i].Title, titleMax)))
		}
	}
	return strings.Join(said, "; ")
}

// lockName is the name of the file by which hooks divide the jobs among themselves. Each job is one
// byte of it, and the hook that follows the job holds a lock on it: the kernel releases it however the
// process ends, and nothing is left to clean up.
const lockName = "hook.lock"

// lockJob locks a job for this process, until the file is closed.
func lockJob(j job) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(j.at.place, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	h.Write([]byte(j.ID))
	region := &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(h.Sum64() >> 1), Len: 1}
	if err := unix.FcntlFlock(lock.Fd(), unix.F_SETLK, region); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

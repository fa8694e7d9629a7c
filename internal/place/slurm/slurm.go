// Package slurm gets an allocation from Slurm: a batch job whose script ends as our engine. It speaks to
// Slurm through sbatch, squeue, scancel and srun.
//
// The batch script is the engine itself and no step: a step can outlive scancel, and Slurm would start it
// again on another node, without its variables. Nothing of our environment goes along, except SLURM_
// variables: sbatch and srun would send all of it by default.
//
// A job bears the key of the server that asked for it in its name. Slurm uses ids again, so a job of
// another name is none of ours: its state is not read, and it is never cancelled.
//
// What Slurm says comes from outside: ids and names are checked before they become arguments, and words
// are escaped and cut (state.go).
//
// Begin with [Cluster].
package slurm

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/text/pattern"
)

// A Cluster gets allocations for one place. Its methods can be called concurrently. Slurm's commands take
// 9 to 18 s if slurmctld is down; no method takes longer than its context.
type Cluster struct {
	run     allocation.Run
	options []string
	prefix  string // begins the names of our jobs
}

// ours begins the names of the jobs of all our servers.
const ours = "async-repl-"

// plain matches keys: all characters are such that no program takes them for more than a name.
var plain = pattern.Lazy(`^[A-Za-z0-9_]{1,64}$`)

// New returns a Cluster whose jobs are submitted with options of sbatch and have key in their names. Its
// commands are run by run.
func New(options []string, key string, run allocation.Run) (*Cluster, error) {
	if !plain().MatchString(key) {
		return nil, fmt.Errorf("the key %q can't be part of a job's name", key)
	}
	if err := checkOptions(options); err != nil {
		return nil, err
	}
	return &Cluster{run: run, options: options, prefix: ours + key + "-"}, nil
}

// refused are the options of sbatch with which a job would be no single allocation that runs our script,
// and the reason in words.
var refused = []struct{ long, short, why string }{
	{"array", "-a", "each session has an allocation of its own"},
	{"clusters", "-M", "the commands that follow ask the default cluster"},
	{"export", "", "the environment stays here; use \"setup\" to set variables there"},
	{"export-file", "", "the environment stays here; use \"setup\" to set variables there"},
	{"get-user-env", "", "the environment is that of a login there"},
	{"help", "-h", "it submits no job"},
	{"job-name", "-J", "the name says whose job it is"},
	{"requeue", "", "a job that starts again has lost its variables"},
	{"test-only", "", "it submits no job"},
	{"usage", "", "it submits no job"},
	{"version", "-V", "it submits no job"},
	{"wait", "-W", "it waits for the end of the job"},
	{"wrap", "", "the job runs our engine"},
}

// checkOptions returns an error, one sentence, if an option of sbatch can't be used.
func checkOptions(options []string) error {
	value := false // the word before can have its value in this one
	for _, word := range options {
		long, isLong := strings.CutPrefix(word, "--")
		long, _, joined := strings.Cut(long, "=")
		switch {
		case strings.ContainsAny(word, "\x00\n"):
			return fmt.Errorf("the option %q of \"slurm\" must be one line", word)
		case word == "-" || word == "--" || !strings.HasPrefix(word, "-") && !value:
			return fmt.Errorf("%q in \"slurm\" is no option of sbatch; give options only, such as \"--partition=short\"", word)
		case !strings.HasPrefix(word, "-"):
			value = false
			continue
		}
		for _, r := range refused { // getopt takes the beginning of a long option for it
			if isLong && strings.HasPrefix(r.long, long) || !isLong && r.short != "" && strings.HasPrefix(word, r.short) {
				return fmt.Errorf("the option %q of \"slurm\" can't be used: %s", word, r.why)
			}
		}
		value = isLong && !joined || len(word) == 2
	}
	return nil
}

// jobName returns the name in Slurm of the allocation that the server calls name. Different names stay
// different, and none has a comma, which would be several names for scancel.
func (c *Cluster) jobName(name string) string { return c.prefix + url.QueryEscape(name) }

// filters are the variables of the environment that would hide jobs from squeue and scancel: a hidden job
// would look as if Slurm had forgotten it.
var filters = []string{
	"SQUEUE_ACCOUNT", "SQUEUE_FORMAT2", "SQUEUE_LICENSES", "SQUEUE_NAMES", "SQUEUE_PARTITION", "SQUEUE_QOS", "SQUEUE_USERS",
	"SCANCEL_ACCOUNT", "SCANCEL_INTERACTIVE", "SCANCEL_PARTITION", "SCANCEL_QOS", "SCANCEL_STATE", "SCANCEL_USER", "SCANCEL_WCKEY",
	"SBATCH_ARRAY_INX", "SBATCH_CLUSTERS", "SBATCH_GET_USER_ENV", "SBATCH_TEST_ONLY", "SBATCH_WAIT", "SLURM_CLUSTERS",
}

// command returns the arguments of a command of Slurm whose times are in UTC, however its user likes them.
func command(words ...string) []string {
	argv := []string{"env"}
	for _, name := range filters {
		argv = append(argv, "-u", name)
	}
	return append(append(argv, "TZ=UTC0", "SLURM_TIME_FORMAT=standard", "LC_ALL=C"), words...)
}

// digits matches the ids of jobs.
var digits = pattern.Lazy(`^[0-9]{1,10}$`)

// Allocate submits a job that runs engine and returns its id. It does not wait until the job runs. The name
// is that of the allocation in the server that asks.
//
// If ctx ends, or slurmctld is lost, it is not known whether there is a job. Release with an empty id ends
// it then. Without that, it ends by itself when it has run for engine.Idle.
func (c *Cluster) Allocate(ctx context.Context, name string, engine allocation.Engine) (id string, err error) {
	// Options of the person can replace the first ones, and not the last.
	argv := command("sbatch", "--parsable", "--output=/dev/null", "--chdir=/")
	argv = append(argv, c.options...)
	argv = append(argv, "--no-requeue", "--export=NONE", "--job-name="+c.jobName(name))
	out, err := c.run(ctx, argv, script(engine))
	if err != nil {
		return "", explained("sbatch", err)
	}
	// A site's own sbatch can print more before the id, and a cluster's name can follow it.
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id, _, _ = strings.Cut(strings.TrimSpace(lines[len(lines)-1]), ";")
	if !digits().MatchString(id) {
		return "", fmt.Errorf("sbatch printed no job id: %.100q", strings.TrimSpace(out))
	}
	return id, nil
}

// Carrier returns the command that runs the program appended to it in the job's allocation, on the node of
// the batch script. It needs a path for the program, because there is no PATH.
//
// Without -u, srun holds back unfinished lines. Without -N1 -n1, it runs the program once for each task of
// the job, and sends the input to all of them. Without --overlap, it waits until the batch script has ended.
func (c *Cluster) Carrier(id string) []string {
	return []string{"srun", "-u", "--overlap", "--export=NONE", "-N1", "-n1", "--relative=0", "--jobid=" + digits().FindString(id)}
}

// Release cancels a job of ours, whether it waits or runs. It returns nil if there is no such job any more.
// If Slurm has given the id to a job of another name, that job is left alone. An empty id stands for each job
// that Allocate has submitted under name.
func (c *Cluster) Release(ctx context.Context, id, name string) error {
	argv := command("scancel", "--name="+c.jobName(name))
	if id != "" {
		if !digits().MatchString(id) {
			return fmt.Errorf("%q is no id of a Slurm job", id)
		}
		argv = append(argv, id)
	}
	_, err := c.run(ctx, argv, "")
	var e *allocation.Error
	if errors.As(err, &e) && e.Reached && (strings.Contains(e.Text, invalidID) || strings.Contains(e.Text, "already completing or completed")) {
		return nil
	}
	return explained("scancel", err)
}

// Ours returns the ids of the user's jobs that any of our servers has submitted and that have not ended.
func (c *Cluster) Ours(ctx context.Context) (ids []string, err error) {
	out, err := c.run(ctx, command("squeue", "--noheader", "--me", "--format=%i|%j"), "")
	if err != nil {
		return nil, explained("squeue", err)
	}
	for line := range strings.Lines(out) {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), "|"); digits().MatchString(id) && strings.HasPrefix(name, ours) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// invalidID is what the commands say about a job that slurmctld does not know.
const invalidID = "Invalid job id specified"

// explained returns an error of a command without the words that each line of it begins with.
func explained(program string, err error) error {
	var e *allocation.Error
	if !errors.As(err, &e) {
		return err
	}
	said := *e
	if !e.Reached {
		said.Program = path.Base(e.Program)
		return &said
	}
	said.Program = program
	if e.Code == 127 && !strings.Contains(e.Text, "error") { // env, or a shell, has found no such program
		said.Text = "there is no such program on the PATH"
	}
	lines := strings.Split(said.Text, "; ")
	for i, line := range lines {
		if rest, ok := strings.CutPrefix(line, program+": "); ok {
			lines[i] = strings.TrimPrefix(rest, "error: ")
		}
	}
	said.Text = strings.Join(lines, "; ")
	return &said
}

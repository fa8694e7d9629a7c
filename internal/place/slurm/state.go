package slurm

import (
	"context"
	"errors"
	"strings"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/text/view"
)

// format is what squeue prints of a job: id, state, reason, start, end, nodes, node of the batch script,
// name. Only the name can have a bar, and it is the last.
const format = "%i|%T|%r|%S|%e|%N|%B|%j"

const wordChars = 200 // limit of a word of Slurm: a reason can list nodes

// States returns what Slurm says about the jobs with these ids, by one command for all. It has a state for
// each id: a job that Slurm does not know, or whose name is not ours, is allocation.Unknown. An error says
// nothing about any job.
func (c *Cluster) States(ctx context.Context, ids []string) (map[string]allocation.State, error) {
	states := make(map[string]allocation.State, len(ids))
	var asked []string
	for _, id := range ids {
		states[id] = forgotten(id)
		if digits().MatchString(id) {
			asked = append(asked, id)
		}
	}
	if len(asked) == 0 {
		return states, nil
	}
	out, err := c.run(ctx, command("squeue", "--noheader", "--states=all", "--jobs="+strings.Join(asked, ","), "--format="+format), "")
	var e *allocation.Error
	switch {
	case errors.As(err, &e) && e.Reached && strings.Contains(e.Text, invalidID): // squeue says so only if one id was asked for
		return states, nil
	case err != nil:
		return nil, explained("squeue", err)
	}
	c.read(out, states, time.Now())
	return states, nil
}

// read puts what squeue has printed about jobs of ours into states, which has all that were asked for. The
// first line about a job counts.
func (c *Cluster) read(out string, states map[string]allocation.State, now time.Time) {
	for line := range strings.Lines(out) {
		fields := strings.SplitN(strings.TrimRight(line, "\r\n"), "|", 8)
		if len(fields) < 8 || !strings.HasPrefix(fields[7], c.prefix) {
			continue
		}
		id := strings.TrimSpace(fields[0])
		if s, ok := states[id]; ok && s.Phase == allocation.Unknown && digits().MatchString(id) {
			states[id] = stateOf(id, fields, now)
		}
	}
}

// forgotten returns the state of a job that Slurm does not know, as it does some minutes after the end of a job.
func forgotten(id string) allocation.State {
	job := "job " + view.Line(id, 20)
	return allocation.State{Phase: allocation.Unknown, Text: "Slurm " + job, End: "Slurm no longer knows " + job + "; how it ended is unknown"}
}

// stateOf returns what the fields of a line say.
func stateOf(id string, fields []string, now time.Time) allocation.State {
	word := func(i int) string { return view.Line(strings.TrimSpace(fields[i]), wordChars) }
	state, reason := word(1), word(2)
	s := allocation.State{Text: "Slurm job " + id, Node: word(5), Start: parseTime(fields[3])}
	several := strings.ContainsAny(s.Node, ",[")
	if batch := word(6); several && batch != "" && batch != "n/a" {
		s.Node = batch
	}
	switch state {
	case "PENDING", "CONFIGURING":
		s.Phase = allocation.Pending
		if state == "CONFIGURING" { // its nodes boot
			reason = state
		}
		if reason != "" && reason != "None" {
			s.Text += ", " + reason
		}
		if why := forEver(id, reason); why != "" {
			s.Text += ": " + why
		} else if s.Start.After(now) {
			s.Text += ", expected start " + clock(s.Start, now)
		}
	case "RUNNING", "RESIZING", "SIGNALING":
		s.Phase, s.Deadline = allocation.Running, parseTime(fields[4])
		if s.Node != "" {
			s.Text += ", node " + s.Node
		}
	case "NODE_FAIL":
		s.Phase, s.End = allocation.Ended, "node "+s.Node+" lost: Slurm NODE_FAIL"
		if several || s.Node == "" {
			s.End = "a node lost: Slurm NODE_FAIL"
		}
	case "TIMEOUT":
		s.Phase, s.End = allocation.Ended, "allocation's time limit"
	case "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT": // it is in the queue, and our script does not run again
		s.Phase, s.End, s.Remains = allocation.Ended, "Slurm: "+state, true
	case "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED":
		s.Phase, s.End = allocation.Ended, "Slurm: "+state
		if state == "FAILED" && reason != "" && reason != "None" {
			s.End += ", " + reason
		}
	default: // COMPLETING, SUSPENDED, and what a later version has: it is there, and how it will end is not known
		s.Phase = allocation.Cut
		s.Text += ", " + state
	}
	return s
}

// forEver returns why a job that waits for this reason never starts by itself, and what to do. Slurm accepts
// such jobs, because a limit or the job can be changed while it waits.
func forEver(id, reason string) string {
	switch {
	case reason == "PartitionTimeLimit":
		return "its time limit is over the partition's, so it pends for ever; cancel it and ask for less time"
	case reason == "PartitionNodeLimit":
		return "it asks for more nodes than the partition allows, so it pends for ever; cancel it and ask for fewer"
	case reason == "BadConstraints":
		return "no node has what it asks for, so it pends for ever; cancel it and ask for less"
	case strings.HasSuffix(reason, "PerJob") || strings.HasSuffix(reason, "PerJobLimit"):
		return "it asks for more than a job of this account may have, so it pends for ever; cancel it and ask for less"
	case reason == "DependencyNeverSatisfied":
		return "it depends on a job that has failed, so it pends for ever; cancel it"
	case reason == "JobHeldUser" || reason == "JobHeldAdmin":
		return "it is held until someone runs scontrol release " + id
	}
	return ""
}

// parseTime reads a time of Slurm in UTC. It returns the zero time for N/A, NONE and everything else.
func parseTime(s string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05", strings.TrimSpace(s))
	if err != nil {
		return time.Time{}
	}
	return t
}

// clock returns a time of the day of now as 14:20, and another with its date.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

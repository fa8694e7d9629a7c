//go:build linux

package process

import (
	"errors"
	"slices"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

func TestCensusCountsTrees(t *testing.T) {
	o := newOwner(t)
	before := o.Census()
	j := onTTY(t, o, "job", "sleep 1000 & sleep 1000 & i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo counted; wait")
	j.says(t, "counted")
	u, err := j.Usage()
	if err != nil || u.Processes != 3 || u.Memory < 1<<20 || u.CPU == 0 {
		t.Errorf("usage %+v, %v", u, err)
	}
	c := o.Census()
	if !c.Adopts || !c.Started || c.Self < 1<<20 || c.Trees.Processes != before.Trees.Processes+3 || c.Trees.Memory < before.Trees.Memory+1<<20 || c.Orphans != nil {
		t.Errorf("census %+v, before %+v", c, before)
	}
	end(t, j.Handle)
	if u, err := j.Usage(); !errors.Is(err, procfs.ErrGone) {
		t.Errorf("usage after the end %+v, %v, want %v", u, err, procfs.ErrGone)
	}
}

// An orphan with two candidates is counted once, and named.
func TestCensusNamesUnattributedOrphans(t *testing.T) {
	o := newOwner(t)
	before := o.Census().Trees.Processes
	onTTY(t, o, "other", `read x`)
	_, p, _ := escapes(t, o, "job")
	polltest.Until(t, "the orphan", func() bool { return slices.ContainsFunc(o.Census().Orphans, same(p)) })
	if c := o.Census(); c.Trees.Processes != before+3 {
		t.Errorf("%+v", c)
	}
}

// An Owner counts and names no process that is or can be another's.
func TestOwnersSeeNothingOfAnother(t *testing.T) {
	mine := newOwner(t)
	theirs := must.Get(NewOwner(Config{}))(t)
	t.Cleanup(theirs.Shutdown)
	a := onTTY(t, mine, "mine", "read x")
	b, _, tag := escapes(t, theirs, "theirs")
	if got := theirs.Unattributed(); len(got) != 1 {
		t.Fatalf("the orphan has a job: %v", got)
	}
	for name, j := range map[string]*job{"mine": a, "theirs": b} {
		if c := j.owner.Census(); c.Trees.Processes != 1 || c.Orphans != nil {
			t.Errorf("%s: census %+v", name, c)
		}
		if got := j.Unattributed(); got != nil {
			t.Errorf("%s: unattributed %v", name, got)
		}
	}
	end(t, a.Handle)
	end(t, b.Handle)
	polltest.Until(t, "the end of the orphan with its last candidate", func() bool { return len(tagged(tag)) == 0 })
}

func TestBusiestIsInTheTree(t *testing.T) {
	o := newOwner(t)
	h := must.Get(o.Start(Spec{Argv: []string{"bash", "-c", "bash -c 'while :; do :; done' & wait"}, Env: []string{"PATH=/usr/bin:/bin"}}))(t)
	defer h.Stop(Ladder{From: ladder.Kill})
	for { // the leader itself is the busiest while it starts
		p, percent, err := h.Busiest()
		if err == nil && percent > 5 && p.PID != h.PID() && p.Program == "bash" {
			return
		}
	}
}

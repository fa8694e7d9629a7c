//go:build linux

package slurmtest_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/slurmtest"
)

// Two clusters run side by side, each with jobs of its own. Nothing of them is left at the end, although a job
// and a step of it run, and a daemon has been killed.
func TestClusters(t *testing.T) {
	var ended []*slurmtest.Cluster
	t.Run("run", func(t *testing.T) {
		for _, name := range []string{"first", "second"} {
			c := slurmtest.Start(t, "FirstJobId=100")
			ended = append(ended, c)
			id := c.Must(t, "sbatch", "--parsable", "--nodelist=n1", "--output=/dev/null", "--wrap",
				"trap '' TERM; srun --overlap sh -c 'echo "+name+" >"+c.Dir+"/step; exec sleep 600' & while :; do wait; done")
			if id != "100" {
				t.Errorf("the first job of the %s cluster is %s", name, id)
			}
			polltest.Until(t, "the step of the job", func() bool {
				said, _ := os.ReadFile(c.Dir + "/step")
				return string(said) == name+"\n"
			})
			c.Kill(t, slurmtest.Node1)
			if found, err := c.Processes(); err != nil || len(found) < 5 { // two daemons of steps, a shell, srun, sleep
				t.Errorf("processes: %v %v", found, err)
			}
		}
		before := must.Get(ended[1].Processes())(t)
		ended[1].Must(t, "sbatch", "--nodelist=n2", "--output=/dev/null", "--wrap", "exec sleep 600")
		polltest.Until(t, "the job at the other node", func() bool { // the daemon of the step and sleep
			now := must.Get(ended[1].Processes())(t)
			sleeps := func(p procfs.Process) bool { return p.Program == "sleep" && !slices.Contains(before, p) }
			return len(now) == len(before)+2 && slices.ContainsFunc(now, sleeps)
		})
		ended[1].Lose(t, slurmtest.Node2)
		if after := must.Get(ended[1].Processes())(t); len(after) != len(before) {
			t.Errorf("losing a node with a job left %v, and %v were there before the job", after, before)
		}
		ended[0].Kill(t, slurmtest.Controller)
		ended[0].Run(t, slurmtest.Controller)
		ended[0].Must(t, "sbatch", "--hold", "--output=/dev/null", "--wrap", "exec sleep 600")
		ended[0].Stop(t, slurmtest.Controller) // it has saved a job that it has just accepted
		ended[0].Run(t, slurmtest.Controller)
		if got := strings.Fields(ended[0].Must(t, "squeue", "--noheader", "--format=%i", "--sort=i")); !slices.Equal(got, []string{"100", "101"}) {
			t.Errorf("jobs after two restarts: %q", got)
		}
	})
	for _, c := range ended {
		if found, err := c.Processes(); err != nil || len(found) > 0 {
			t.Errorf("processes remain: %v %v", found, err)
		}
		if _, err := os.Stat(c.Dir); err == nil {
			t.Errorf("%s remains", c.Dir)
		}
	}
}

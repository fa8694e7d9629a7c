package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/slurmtest"
	"asyncrepl/jobs/jobstest"
)

// A thousand jobs run in eight allocations on two nodes of Slurm, and one node is lost with all that runs there. Each
// job is completed with its whole output, or says that its node was lost.
func TestLoadLostNode(t *testing.T) {
	if jobstest.Rounds(t, 0) == 0 {
		t.Skip("slurmctld takes half a minute to see that a node is lost: .ci/long waits for it")
	}
	notAgain(t)
	const count, allocations = 1000, 8
	p := newPlaceCampaign(t, stormPlace{kind: "slurm", keys: func(p *placeCampaign) map[string]any {
		p.cluster = slurmtest.Start(p.t, "SlurmdTimeout=6") // how soon slurmctld sees that a node is lost
		p.cmd.Env = append(p.cmd.Env, "SLURM_CONF="+p.cluster.Conf)
		return map[string]any{"slurm": []string{"--time=60", "--cpus-per-task=2"}}
	}})
	p.rand = rand.New(rand.NewPCG(1, 1))
	p.what = "of the load"
	// A job of each allocation waits until all others have been sent, and a later one until the node is lost.
	waits := map[int]string{0: "sent", 20: "lost"}
	open := func(gate string) { must.Do(t, os.WriteFile(filepath.Join(p.work, gate), nil, 0o600)) }
	type calling struct {
		*client.Pending
		job *placedJob
	}
	var calls []calling
	for i := range count {
		n := i % allocations
		f := &placedJob{followed: &followed{tag: newTag(), lines: p.rand.IntN(400), then: "ends", python: n%2 == 0}}
		tool, args := p.call(f.followed)
		gate := waits[i/allocations]
		if f.python {
			args["session"] = fmt.Sprint("python", n)
			args["code"] = fmt.Sprintf("import os, time\nwhile not os.path.exists('./%s'): time.sleep(0.01)\n%s", gate, args["code"])
		} else {
			args["shell_session"] = fmt.Sprint("shell", n)
			args["command"] = fmt.Sprintf("until [ -e './%s' ]; do sleep 0.01; done; %s", gate, args["command"])
			delete(args, "tty")
		}
		calls = append(calls, calling{p.callThere(tool, args), f})
	}
	for _, c := range calls {
		p.startedThere(c.job, must.Get(c.Reply(p.ctx()))(t))
	}
	for n := range allocations {
		p.await(p.now[n], "running")
	}
	open("sent")
	nodes := make(map[int]string) // by the number of the allocation
	on := make(map[string]int)    // how many allocations a node has
	for n := range allocations {
		r := p.await(p.now[n+20*allocations], "running")
		_, node, _ := strings.Cut(strings.TrimSuffix(r.Header("Place"), ")"), "node ")
		nodes[n] = node
		on[node]++
	}
	if on[slurmtest.Node1] != allocations/2 || on[slurmtest.Node2] != allocations/2 {
		t.Fatalf("the allocations are on %v", on)
	}
	for i, f := range p.now {
		if nodes[i%allocations] == slurmtest.Node2 {
			f.may = "failed (node n2 lost: Slurm NODE_FAIL"
		}
	}
	for _, engine := range p.far.engines() {
		if node, _, _ := procfs.LookupEnv(engine, "SLURMD_NODENAME"); node == slurmtest.Node2 {
			p.leaveFiles(engine)
		}
	}
	p.cluster.Lose(t, slurmtest.Node2)
	open("lost")
	polltest.Until(t, "slurmctld to see that the node is lost", func() bool {
		return strings.HasPrefix(p.cluster.Must(t, "sinfo", "--noheader", "--nodes=n2", "--format=%t"), "down")
	})
	p.cluster.Run(t, slurmtest.Node2) // jobs that were not sent yet can have another allocation
	for _, f := range p.now {
		p.follow(f)
	}
	if n := p.counts.failed; n < 100 || n > count/2 {
		t.Errorf("%d jobs have lost their node", n)
	}
	p.end()
}

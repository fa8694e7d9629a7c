package place

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A cluster allocates machines, whose engines are real ones of this process.
type cluster struct {
	t     *testing.T
	tools linktest.Runners

	mu       sync.Mutex
	late     bool          // a command that was ended has done its work
	pends    bool          // new allocations wait
	slow     time.Duration // how long each command takes
	down     error         // why no command is answered
	machines map[string]*machine
	states   map[string]allocation.State
	names    map[string]string
	asked    atomic.Int64 // questions about states
	released atomic.Int64 // calls of Release
}

func (c *cluster) command(ctx context.Context) error {
	c.mu.Lock()
	slow, down := c.slow, c.down
	c.mu.Unlock()
	select {
	case <-time.After(slow):
		return down
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *cluster) Allocate(ctx context.Context, name string, e allocation.Engine) (string, error) {
	err := c.command(ctx)
	if err != nil && !c.late {
		return "", err
	}
	if e.Idle != 10*time.Minute || e.Args[0] != "placed" || e.Workspace != "/w" {
		c.t.Errorf("%+v", e)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := fmt.Sprint(len(c.machines) + 1)
	m := &machine{t: c.t, name: "node-" + id, tools: c.tools}
	c.machines[id], c.names[id] = m, name
	c.states[id] = allocation.State{Phase: allocation.Pending, Text: "job " + id + ", Priority"}
	if !c.pends {
		c.begin(id)
	}
	if err != nil {
		id = ""
	}
	return id, err
}

// begin makes an allocation run. The caller holds c.mu.
func (c *cluster) begin(id string) {
	c.states[id] = allocation.State{Phase: allocation.Running, Text: "job " + id + ", node n" + id, Deadline: time.Now().Add(time.Hour)}
}

func (c *cluster) States(ctx context.Context, ids []string) (map[string]allocation.State, error) {
	if err := c.command(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked.Add(1)
	all := make(map[string]allocation.State)
	for _, id := range ids {
		if s, ok := c.states[id]; ok {
			all[id] = s
		}
	}
	return all, nil
}

func (c *cluster) Carrier(id string) []string { return []string{"carrier", id} }

func (c *cluster) Release(ctx context.Context, id, name string) error {
	c.released.Add(1)
	if err := c.command(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	var ends []*machine
	for other, n := range c.names {
		if n == name && (id == "" || other == id) && c.states[other].Phase <= allocation.Cut {
			c.states[other] = allocation.State{Phase: allocation.Ended, End: "CANCELLED"}
			ends = append(ends, c.machines[other])
		}
	}
	c.mu.Unlock()
	for _, m := range ends {
		m.end()
	}
	return nil
}

// end is the end of the machine's allocation.
func (m *machine) end() {
	m.set(func() { m.fails = errors.New("srun: nothing") })
	if e := m.running(); e != nil {
		e.kill()
	}
}

// ends ends an allocation as its scheduler reports it.
func (c *cluster) ends(id string, s allocation.State) {
	c.mu.Lock()
	m := c.machines[id]
	c.states[id] = s
	c.mu.Unlock()
	m.end()
}

func (c *cluster) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// held returns the allocations that have not ended.
func (c *cluster) held() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.states {
		if s.Phase <= allocation.Cut {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (c *cluster) join(ctx context.Context, spec carry.Spec) (net.Conn, far.Greeting, error) {
	if !slices.Contains(spec.Command, "-join") {
		c.t.Errorf("%q", spec.Command)
	}
	c.mu.Lock()
	m := c.machines[spec.Argv[1]]
	c.mu.Unlock()
	return m.join(ctx, spec)
}

// newCluster starts a server with a place that allocates.
func newCluster(t *testing.T, tools linktest.Runners) (*stage, *cluster) {
	c := ofCluster(t, tools)
	return c.serve(nil), c
}

func ofCluster(t *testing.T, tools linktest.Runners) *cluster {
	c := &cluster{t: t, tools: tools, machines: make(map[string]*machine), states: make(map[string]allocation.State), names: make(map[string]string)}
	t.Cleanup(func() {
		for _, m := range c.machines {
			m.off()
		}
	})
	return c
}

func (c *cluster) serve(file *keyfile.File) *stage {
	s := &stage{t: c.t, here: jobstest.Registry(c.t), file: file}
	conf := config.Place{Name: "gpu", Kind: config.Slurm, Workspace: "/w", Linger: time.Hour, Idle: 10 * time.Minute, Max: 3}
	s.ps = must.Get(New(Config{Places: []config.Place{conf}, Jobs: s.here, Key: "key", File: file, Version: "9"}))(c.t)
	s.ps.join = c.join
	s.ps.places["gpu"].allocator = c
	c.t.Cleanup(s.close)
	return s
}

func inSession(tool, name string) server.Start {
	return server.Start{Tool: tool, Kind: jobs.Python, Session: name}
}

// holds waits until these allocations are held.
func (c *cluster) holds(ids ...string) {
	c.t.Helper()
	for end := time.Now().Add(time.Hour); !slices.Equal(c.held(), ids); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("the allocations %q are held, want %q", c.held(), ids)
		}
	}
}

// A session has an allocation, and so has a shell job, which gives it back at its end.
func TestAllocations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"hello": prints("hello\n"), "wait": waits})
		for range 2 {
			r := jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
			if r.Where != "job 1, node n1" {
				t.Errorf("%+v", r)
			}
		}
		c.holds("1")
		jobstest.EndsAs(t, s.start("hello"), "completed")
		c.holds("1")
		j := s.start("wait")
		runs(t, j)
		if l := j.Live().Link(); l.Where != "job 3, node n3" || l.Queued != "" {
			t.Errorf("%+v", l)
		}
		o := s.ps.List(t.Context())[0]
		if !o.Reachable || o.Version != "9" {
			t.Errorf("%+v", o)
		}
		want := []overview.Allocation{
			{Where: "job 3, node n3", TimeLeft: time.Hour, Holds: "job " + j.ID()}, {Where: "job 1, node n1", TimeLeft: time.Hour, Back: 10 * time.Minute},
		}
		minutes := cmp.Transformer("minutes", func(d time.Duration) float64 { return d.Round(time.Minute).Minutes() })
		if d := cmp.Diff(want, o.Allocations, minutes); d != "" {
			t.Error(d)
		}
		time.Sleep(20 * time.Minute)
		c.holds("3") // the session was not used for long
		if at := s.ps.Of(jobs.Python, "a"); at != "" {
			t.Errorf("it lives at %q", at)
		}
		s.close()
		c.holds()
	})
}

// A session that continues with the variables of another one is in its allocation. It stays
// there when the other one is deleted.
func TestBranchIsInTheAllocationOfItsParent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"hello": prints("hello\n")})
		in := func(name, from string) {
			t.Helper()
			start := inSession("hello", name)
			start.From = from
			if r := jobstest.EndsAs(t, s.startAs(start), "completed"); r.Where != "job 1, node n1" {
				t.Errorf("session %s is in %q", name, r.Where)
			}
		}
		in("a", "")
		in("b", "a") // with from_job
		if _, isError, err := s.ps.Call(t.Context(), "gpu", "create_session", []byte(`{"name":"c","from_session":"b"}`)); err != nil || isError {
			t.Errorf("%t, %v", isError, err)
		}
		in("c", "")
		if _, isError, err := s.ps.Call(t.Context(), "gpu", "delete_session", []byte(`{"session":"a"}`)); err != nil || isError {
			t.Errorf("%t, %v", isError, err)
		}
		in("d", "a") // a checkpoint outlives its session
		in("b", "")
		c.holds("1")
	})
}

// A call that waits too long for an allocation says what that waits for. The allocation stays asked for, and a later
// call has it.
func TestCallWhileAnAllocationWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, nil)
		c.set(func() { c.pends = true })
		create := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, _, err := s.ps.Call(ctx, "gpu", "create_session", []byte(`{"name":"a"}`))
			return err
		}
		for range 2 {
			const want = "gpu has not answered yet: job 1, Priority; nothing was done there: call again later"
			if err := create(); err == nil || err.Error() != want {
				t.Errorf("the call says %v, want %s", err, want)
			}
		}
		c.holds("1")
		c.set(func() { c.begin("1") })
		time.Sleep(time.Minute)
		if err := create(); err != nil || s.ps.Of(jobs.Python, "a") != "gpu" {
			t.Errorf("once it runs the call says %v, and the session is at %q", err, s.ps.Of(jobs.Python, "a"))
		}
		c.holds("1")
	})
}

// A job whose allocation waits is queued, in the words of the scheduler. Its cancel ends it, and gives the allocation
// back.
func TestPendingAllocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"hello": prints("hello\n")})
		c.set(func() { c.pends, c.slow = true, 9*time.Second })
		j := s.startAs(inSession("hello", "a"))
		becomes(t, j, "ask for one", func(_ jobs.Record, l jobs.Link) bool {
			return l.Queued == "an allocation was asked for 3s ago"
		})
		becomes(t, j, "wait", func(r jobs.Record, l jobs.Link) bool {
			return r.Status == jobs.Queued && l.Queued == "job 1, Priority" && l.Where == "" && l.Lost.IsZero()
		})
		began, asked := time.Now(), c.asked.Load()
		time.Sleep(10 * time.Minute)
		if n := c.asked.Load() - asked; n < 20 || n > 61 {
			t.Errorf("it was asked %d times in %v", n, time.Since(began))
		}
		began = time.Now()
		j.Stop(jobs.Stop{By: jobs.Agent})
		jobstest.EndsAs(t, j, "cancelled (before it ran)")
		if d := time.Since(began); d > 0 {
			t.Errorf("the cancel took %v", d)
		}
		// The next job of the session waits until it is given back, and has another one.
		c.set(func() { c.pends = false })
		synctest.Wait()
		jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
		c.holds("2")
	})
}

// A cancel while the allocation is asked for leaves none.
func TestCancelWhileAllocating(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"hello": prints("hello\n")})
		c.set(func() { c.slow = 9 * time.Second })
		j := s.start("hello")
		time.Sleep(5 * time.Second)
		j.Stop(jobs.Stop{By: jobs.Agent})
		jobstest.EndsAs(t, j, "cancelled (before it ran)")
		time.Sleep(time.Minute)
		c.holds()
		if len(s.ps.places["gpu"].all()) != 0 || s.ps.InUse() {
			t.Error("it is still there")
		}
	})
}

// If the name of an allocation is not known, all that bear our name for it are given back, but not the next one.
func TestAllocationOfUnknownName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"hello": prints("hello\n")})
		c.late = true
		c.set(func() { c.slow = 9 * time.Second })
		j := s.startAs(inSession("hello", "a"))
		time.Sleep(5 * time.Second)
		j.Stop(jobs.Stop{By: jobs.Agent})
		jobstest.EndsAs(t, j, "cancelled (before it ran)")
		synctest.Wait()
		c.set(func() { c.slow = time.Second })
		jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
		time.Sleep(time.Minute)
		c.holds("2")
	})
}

// A scheduler that does not answer while an allocation waits is no end of it.
func TestSchedulerDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"hello": prints("hello\n"), "wait": waits})
		c.set(func() { c.pends = true })
		j := s.startAs(inSession("wait", "a"))
		becomes(t, j, "wait", func(_ jobs.Record, l jobs.Link) bool { return l.Queued == "job 1, Priority" })
		c.set(func() { c.down, c.slow = errors.New("no slurmctld"), 9*time.Second })
		time.Sleep(time.Hour)
		if r := j.Record(); r.Status != jobs.Queued {
			t.Fatalf("%+v", r)
		}
		c.set(func() { c.down, c.slow = nil, 0; c.begin("1") })
		runs(t, j)
		// An allocation that runs can be reached although the scheduler does not answer.
		time.Sleep(time.Minute)
		c.set(func() { c.down, c.slow = errors.New("no slurmctld"), 9*time.Second })
		c.machines["1"].wire().Close()
		lost(t, j)
		becomes(t, j, "come back", func(_ jobs.Record, l jobs.Link) bool { return l.Lost.IsZero() })
		// No other one is given.
		jobstest.EndsAs(t, s.start("hello"), "failed (could not start: gpu is out of reach: no slurmctld)")
	})
}

// An allocation that was refused is not given back.
func TestRefusedAllocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"hello": prints("hello\n")})
		c.set(func() { c.down = allocation.Refuse(errors.New("no right")) })
		jobstest.EndsAs(t, s.start("hello"), "failed (could not start: gpu is out of reach: no right)")
		time.Sleep(time.Minute)
		if n := c.released.Load(); n != 0 {
			t.Errorf("it was given back %d times", n)
		}
		c.set(func() { c.down = nil })
		jobstest.EndsAs(t, s.start("hello"), "completed")
	})
}

// The end of an allocation is the end of its jobs, in the words of the scheduler.
func TestEndOfAnAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		end    allocation.State
		status string
	}{
		"node lost": {allocation.State{Phase: allocation.Ended, Text: "job 1, node n1", End: "node n1 lost: Slurm NODE_FAIL"}, "failed (node n1 lost: Slurm NODE_FAIL; variables lost)"},
		"kept":      {allocation.State{Phase: allocation.Ended, Text: "pod x", End: "pod x ended: OOMKilled", Remains: true}, "failed (pod x ended: OOMKilled; variables lost)"},
		"forgotten": {allocation.State{Phase: allocation.Unknown, Text: "job 1", End: "Slurm no longer knows job 1; how it ended is unknown"}, "failed (Slurm no longer knows job 1; how it ended is unknown; variables lost)"},
	} {
		for _, pending := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", pending: ", pending), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s, cl := newCluster(t, linktest.Runners{"wait": waits, "hello": prints("hello\n")})
					cl.set(func() { cl.pends = pending })
					j := s.startAs(inSession("wait", "a"))
					if !pending {
						runs(t, j)
					} else {
						becomes(t, j, "wait", func(_ jobs.Record, l jobs.Link) bool { return l.Queued != "" && l.Queued[:3] == "job" })
					}
					cl.set(func() { cl.pends = false })
					cl.ends("1", c.end)
					jobstest.EndsAs(t, j, c.status)
					if where := j.Record().Where; !pending && where != c.end.Text {
						t.Errorf("it was at %q", where)
					}
					if at := s.ps.Of(jobs.Python, "a"); at != "" {
						t.Errorf("it lives at %q", at)
					}
					if left := s.ps.Left(jobs.Python, "a"); left != "gpu" {
						t.Errorf("it was at %q", left)
					}
					jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
					cl.holds("2")
					synctest.Wait()
					if n := cl.released.Load(); (n > 0) != c.end.Remains {
						t.Errorf("what the scheduler keeps of it was removed %d times", n)
					}
				})
			})
		}
	}
}

// A scheduler that ends an allocation gives its engine time to end its jobs. That is no request of this server.
func TestAllocationThatEndsItsJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"wait": waits, "hello": prints("hello\n")})
		j := s.startAs(inSession("wait", "a"))
		runs(t, j)
		c.machines["1"].running().end(false)
		c.machines["1"].set(func() { c.machines["1"].fails = errors.New("kubectl: container not found") })
		time.Sleep(3 * time.Second) // the scheduler does not know of it yet
		if r := j.Record(); r.Status != jobs.Running {
			t.Errorf("%+v", r)
		}
		c.ends("1", allocation.State{Phase: allocation.Ended, End: "pod x ended: deleted"})
		jobstest.EndsAs(t, j, "failed (pod x ended: deleted; variables lost)")
		jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
		c.holds("2")
	})
}

// A scheduler lets the engine end its jobs itself before it kills it. They say why all the same.
func TestEngineIsTerminatedByTheScheduler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"wait": waits})
		j := s.startAs(inSession("wait", "a"))
		runs(t, j)
		c.set(func() { c.states["1"] = allocation.State{Phase: allocation.Cut, Text: "job 1, COMPLETING"} })
		m := c.machines["1"]
		e := m.running()
		m.set(func() { m.fails = errors.New("srun: nothing") })
		e.end(false)
		time.Sleep(30 * time.Second)
		if r := j.Record(); r.Status != jobs.Running {
			t.Errorf("%+v", r)
		}
		c.ends("1", allocation.State{Phase: allocation.Ended, End: "allocation's time limit"})
		jobstest.EndsAs(t, j, "failed (allocation's time limit; variables lost)")
	})
}

// A carrier that does not get into an allocation which runs is no end of a job that waits for it, and neither is one
// that breaks. What fails there each time is.
func TestCarrierOfANewAllocationFails(t *testing.T) {
	for _, c := range []struct {
		step  carry.Step
		lasts time.Duration
		want  string
	}{
		{carry.Reach, time.Hour, "completed"},
		{carry.Start, time.Second, "completed"},
		{carry.Start, time.Hour, "failed (could not start: gpu is out of reach: starting async-repl there: nothing; see)"},
	} {
		t.Run(fmt.Sprint(c.step, " for ", c.lasts), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, cl := newCluster(t, linktest.Runners{"hello": prints("hello\n")})
				cl.set(func() { cl.pends = true })
				j := s.start("hello")
				becomes(t, j, "wait", func(_ jobs.Record, l jobs.Link) bool { return l.Queued == "job 1, Priority" })
				m := cl.machines["1"]
				m.set(func() { m.fails = &carry.Error{Step: c.step, Text: "nothing", Cure: "see"} })
				cl.set(func() { cl.begin("1") })
				l := lost(t, j)
				if want := c.step.String() + ": nothing; see"; j.Record().Status != jobs.Queued || l.Why != want || l.Unknown {
					t.Errorf("%s: %+v", j.Record().Status, l)
				}
				time.Sleep(c.lasts)
				m.set(func() { m.fails = nil })
				jobstest.EndsAs(t, j, c.want)
			})
		})
	}
}

// A node that does not answer is out of reach, and no end.
func TestCutNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"wait": waits})
		j := s.startAs(inSession("wait", "a"))
		runs(t, j)
		c.set(func() { c.states["1"] = allocation.State{Phase: allocation.Cut, Text: "node n1 is NotReady"} })
		c.machines["1"].wire().Close()
		time.Sleep(time.Hour)
		if l := lost(t, j); l.Why != "node n1 is NotReady" || j.Record().Status != jobs.Running {
			t.Errorf("%+v", l)
		}
		c.set(func() { c.begin("1") })
		becomes(t, j, "come back", func(_ jobs.Record, l jobs.Link) bool { return l.Lost.IsZero() })
	})
}

// A link says more about a node than its scheduler does, which is asked about all nodes while one job waits.
func TestCutNodeThatAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"wait": waits})
		j := s.startAs(inSession("wait", "a"))
		runs(t, j)
		c.set(func() {
			c.states["1"] = allocation.State{Phase: allocation.Cut, Text: "job 1, node n1, which is NotReady"}
		})
		runs(t, s.startAs(inSession("wait", "b")))
		if l := j.Live().Link(); l.Where != "job 1, node n1" {
			t.Errorf("%+v", l)
		}
		c.machines["1"].wire().Close()
		if l := lost(t, j); l.Where != "job 1, node n1, which is NotReady" {
			t.Errorf("%+v", l)
		}
	})
}

// An allocation that is out of reach before it was reached, such as one that Slurm suspends or takes back, is waited for.
func TestCutBeforeItIsReached(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprint("cancelled: ", cancelled), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, c := newCluster(t, linktest.Runners{"hello": prints("hello\n")})
				c.set(func() { c.pends = true })
				j := s.startAs(inSession("hello", "a"))
				becomes(t, j, "wait", func(_ jobs.Record, l jobs.Link) bool { return l.Queued == "job 1, Priority" })
				c.set(func() { c.states["1"] = allocation.State{Phase: allocation.Cut, Text: "job 1, COMPLETING"} })
				becomes(t, j, "wait", func(_ jobs.Record, l jobs.Link) bool { return l.Queued == "job 1, COMPLETING" && l.Where == "" })
				time.Sleep(time.Hour)
				if cancelled {
					c.ends("1", allocation.State{Phase: allocation.Ended, End: "Slurm: CANCELLED"})
					jobstest.EndsAs(t, j, "failed (Slurm: CANCELLED; variables lost)")
					return
				}
				c.set(func() { c.begin("1") })
				jobstest.EndsAs(t, j, "completed")
			})
		})
	}
}

// One allocation more than the most is refused.
func TestMostAllocations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"wait": waits, "hello": prints("hello\n")})
		var all []*jobs.Job
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, s.startAs(inSession("wait", name)))
		}
		for _, j := range all {
			runs(t, j)
		}
		j := s.startAs(inSession("hello", "d"))
		if r := jobstest.End(t, j); !strings.Contains(r.Receipt.Detail, "gpu has 3 allocations, the most allowed") {
			t.Errorf("%+v", r.Receipt)
		}
		if at := s.ps.Of(jobs.Python, "d"); at != "" {
			t.Errorf("the session that was refused lives at %q", at)
		}
		all[0].Stop(jobs.Stop{By: jobs.Agent})
		jobstest.End(t, all[0])
		time.Sleep(15 * time.Minute)
		jobstest.EndsAs(t, s.startAs(inSession("hello", "d")), "completed")
		if n := len(c.held()); n != 3 {
			t.Errorf("%d are held", n)
		}
	})
}

// The end of a server gives allocations back, but those with kept jobs, whether they are reached or not. A later
// server has them.
func TestCloseAndAllocations(t *testing.T) {
	for _, reached := range []bool{true, false} {
		t.Run(fmt.Sprint("reached: ", reached), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := ofCluster(t, linktest.Runners{"wait": waits})
				dir := t.TempDir()
				s := c.serve(must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t))
				kept := s.startAs(server.Start{Tool: "wait", Kind: jobs.Shell, Keep: true})
				runs(t, kept)
				not := s.startAs(inSession("wait", "a"))
				runs(t, not)
				c.set(func() { c.pends = true })
				pending := s.startAs(inSession("wait", "b"))
				becomes(t, pending, "wait", func(_ jobs.Record, l jobs.Link) bool { return l.Queued == "job 3, Priority" })
				if !reached {
					for _, id := range []string{"1", "2"} {
						m := c.machines[id]
						m.set(func() { m.fails = errors.New("no route") })
						m.wire().Close()
					}
					lost(t, kept)
					lost(t, not)
				}
				s.close()
				c.holds("1")
				jobstest.EndsAs(t, pending, "cancelled (before it ran by shutdown)")
				synctest.Wait()
				m := c.machines["1"]
				m.set(func() { m.fails = nil })

				later := c.serve(must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t))
				later.ps.Adopt(s.records())
				j := later.here.Lookup(kept.ID())
				becomes(t, j, "be where it was", func(r jobs.Record, l jobs.Link) bool {
					return r.Status == jobs.Running && l.Lost.IsZero() && l.Where == "job 1, node n1"
				})
				j.Stop(jobs.Stop{By: jobs.Agent})
				jobstest.EndsAs(t, j, "cancelled (before it ran)")
				time.Sleep(time.Second) // no longer: it was for that job
				if held := c.held(); len(held) > 0 {
					t.Errorf("%q are held", held)
				}
			})
		})
	}
}

// An allocation that a later server has inherited, and that has ended meanwhile, is the end of its jobs.
func TestInheritedAllocationThatHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := ofCluster(t, linktest.Runners{"wait": waits, "hello": prints("hello\n")})
		dir := t.TempDir()
		s := c.serve(must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t))
		start := inSession("wait", "a")
		start.Keep = true
		kept := s.startAs(start)
		runs(t, kept)
		s.close()
		c.ends("1", allocation.State{Phase: allocation.Ended, End: "allocation's time limit"})
		later := c.serve(must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t))
		if at := later.ps.Of(jobs.Python, "a"); at != "gpu" {
			t.Errorf("it lives at %q", at)
		}
		later.ps.Adopt(s.records())
		jobstest.EndsAs(t, later.here.Lookup(kept.ID()), "failed (allocation's time limit; variables lost)")
		jobstest.EndsAs(t, later.startAs(inSession("hello", "a")), "completed")
		c.holds("2")
	})
}

// What holds each allocation is shown, and each session names its allocation.
func TestAllocationsAreDescribed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"wait": waits, "hello": prints("hello\n")})
		runs(t, s.startAs(inSession("wait", "a/b")))
		jobstest.EndsAs(t, s.startAs(inSession("hello", "c")), "completed")
		python := func(id, name string, variables int) {
			m := c.machines[id]
			m.set(func() {
				m.holds, m.python = true, []overview.Session{{Name: name, Variables: variables, Where: "a lie"}}
			})
		}
		python("1", "a/b", 5)
		python("2", "c", 2)
		c.set(func() { c.pends = true })
		j := s.startAs(inSession("hello", "d"))
		becomes(t, j, "wait", func(_ jobs.Record, l jobs.Link) bool { return l.Queued == "job 3, Priority" })
		check := func(want ...string) {
			t.Helper()
			var got []string
			o := s.ps.List(t.Context())[0]
			for _, a := range o.Allocations {
				a.TimeLeft = a.TimeLeft.Round(time.Hour)
				got = append(got, a.String())
			}
			for _, one := range o.Sessions {
				got = append(got, one.Name+": "+one.Where)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		}
		check("job 1, node n1, 1h0m left, held by session a/b", "job 2, node n2, 1h0m left, held by 2 variables of session c",
			"job 3, Priority, held by session d", "a/b: job 1, node n1", "c: job 2, node n2")
		python("2", "c", 0)
		c.machines["2"].set(func() { c.machines["2"].python[0].Made = true })
		check("job 1, node n1, 1h0m left, held by session a/b", "job 2, node n2, 1h0m left, held by session c",
			"job 3, Priority, held by session d", "a/b: job 1, node n1", "c: job 2, node n2")
		python("2", "c", 0)
		m := c.machines["1"]
		m.set(func() { m.fails = errors.New("no route") })
		m.wire().Close()
		time.Sleep(time.Minute)
		check("job 1, node n1, 1h0m left, held by session a/b, out of reach: no route", "job 2, node n2, 1h0m left, held by a process that a job has left",
			"job 3, Priority, held by session d", "c: job 2, node n2")
	})
}

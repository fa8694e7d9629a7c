package place

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// If a server stays for what is kept, the rest ends at the places. What is kept continues, and so does the engine
// there: a client that comes back starts jobs in it.
func TestEndUnkept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits, "ask": asks, "hello": prints("hello\n")})
		kept := s.startAs(server.Start{Tool: "ask", Kind: jobs.Python, Session: "a", Keep: true})
		jobstest.Asks(t, kept)
		not := s.start("wait")
		runs(t, not)
		e := s.m.running()
		s.ps.EndUnkept(jobs.ClientGone)
		r := jobstest.EndsAs(t, not, "cancelled (before it ran by client gone)")
		if r.Receipt.Detail != "client gone terminate" {
			t.Errorf("%+v", r.Receipt)
		}
		e.trimmed(jobs.ClientGone)
		time.Sleep(time.Hour)
		jobstest.EndsAs(t, s.start("hello"), "completed")
		jobstest.Send(t, kept, jobs.Input{Text: "end"})
		jobstest.EndsAs(t, kept, "completed")
		if s.m.running() != e {
			t.Error("the engine there has ended")
		}
		e.trimmed(jobs.ClientGone) // no second time
	})
}

// A place that is out of reach gets it when it is back, also if no job needs the link, unless a client has used the
// place before that.
func TestEndUnkeptWhileLost(t *testing.T) {
	for name, uses := range map[string]bool{"not used": false, "used": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStage(t, linktest.Runners{"hello": prints("hello\n")})
				s.m.set(func() { s.m.holds = true })
				jobstest.EndsAs(t, s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: "a"}), "completed")
				e := s.m.running()
				s.m.set(func() { s.m.fails = errors.New("no route") })
				s.m.wire().Close()
				synctest.Wait()
				s.ps.EndUnkept(jobs.Shutdown)
				time.Sleep(time.Minute)
				e.trimmed()
				if uses {
					j := s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: "a"})
					lost(t, j)
					s.m.set(func() { s.m.fails = nil })
					time.Sleep(mostWait) // the next attempt can be as late
					jobstest.EndsAs(t, j, "completed")
					time.Sleep(time.Hour)
					e.trimmed()
					return
				}
				s.m.set(func() { s.m.fails = nil })
				e.trimmed(jobs.Shutdown)
				jobstest.EndsAs(t, s.start("hello"), "completed")
			})
		})
	}
}

// A job that comes while the rest is ended is not ended with it.
func TestJobDuringATrim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t, linktest.Runners{"wait": waits, "hello": prints("hello\n")})
		began, may := make(chan struct{}), make(chan struct{})
		m.wrap = on("/link/trim", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			close(began)
			<-may
			next.ServeHTTP(w, r)
		})
		s := serve(t, m, nil)
		old := s.start("wait")
		runs(t, old)
		s.ps.EndUnkept(jobs.Shutdown)
		<-began
		j := s.start("hello")
		synctest.Wait()
		if r := j.Record(); r.Status != jobs.Queued {
			t.Errorf("%+v", r)
		}
		close(may)
		jobstest.EndsAs(t, j, "completed")
		jobstest.EndsAs(t, old, "cancelled (before it ran by shutdown)")
	})
}

// Allocations that hold nothing which is kept go back at once, and the others as soon as they hold nothing.
func TestEndUnkeptGivesAllocationsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"wait": waits, "hello": prints("hello\n"), "ask": asks})
		jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
		start := inSession("ask", "b")
		start.Keep = true
		kept := s.startAs(start)
		jobstest.Asks(t, kept)
		c.holds("1", "2")
		began := time.Now()
		s.ps.EndUnkept(jobs.Shutdown)
		c.holds("2")
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %v", d)
		}
		time.Sleep(time.Hour)
		jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
		c.holds("2", "3")
		jobstest.Send(t, kept, jobs.Input{Text: "end"})
		jobstest.EndsAs(t, kept, "completed")
		time.Sleep(time.Minute)
		c.holds("3") // a client uses it
	})
}

// The allocation of a session that is deleted goes back at once, unless something else holds it or uses it again.
func TestDeletedSessionGivesItsAllocationBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newCluster(t, linktest.Runners{"hello": prints("hello\n")})
		remove := func() {
			t.Helper()
			if text, isError, err := s.ps.Call(t.Context(), "gpu", "delete_session", []byte(`{"session":"a"}`)); err != nil || isError {
				t.Fatalf("%q, %v", text, err)
			}
		}
		jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
		c.holds("1")
		began := time.Now()
		remove()
		c.holds()
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %v", d)
		}
		jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
		c.holds("2")
		m := c.machines["2"]
		m.set(func() { m.holds = true }) // a process that a job has left
		remove()
		time.Sleep(30 * time.Minute)
		c.holds("2")
		m.set(func() { m.holds = false })
		began = time.Now()
		c.holds()
		if d := time.Since(began); d > unusedTime {
			t.Errorf("it took %v", d)
		}
		jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
		remove()
		jobstest.EndsAs(t, s.startAs(inSession("hello", "a")), "completed")
		time.Sleep(5 * time.Minute)
		if n := len(c.held()); n != 1 {
			t.Errorf("%d allocations", n)
		}
		must.Get(s.ps.Runner("gpu", inSession("hello", "a")))(t)
	})
}

// leftWhileLost returns a cluster in which a server has left a session, and the directory of its key file. It has ended
// while it could not reach the allocation.
func leftWhileLost(t *testing.T, keep bool) (*cluster, string) {
	c := ofCluster(t, linktest.Runners{"hello": prints("hello\n")})
	dir := t.TempDir()
	s := c.serve(must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t))
	start := inSession("hello", "a")
	start.Keep = keep
	jobstest.EndsAs(t, s.startAs(start), "completed")
	m := c.machines["1"]
	m.set(func() { m.fails = errors.New("no route") })
	m.wire().Close()
	synctest.Wait()
	s.close()
	return c, dir
}

// The end of a server does not take the variables of a kept session away because it can't ask for them.
func TestCloseWhileAKeptSessionIsLost(t *testing.T) {
	for _, keep := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			c, dir := leftWhileLost(t, keep)
			if !keep {
				c.holds()
				return
			}
			c.holds("1")
			c.serve(must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t)).close() // a later server, which does not reach it either
			c.holds("1")
			m := c.machines["1"]
			m.set(func() { m.fails = nil })
			later := c.serve(must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t))
			if all := later.ps.List(t.Context())[0].Allocations; len(all) != 1 || all[0].String() != "an allocation of an earlier server, held by session a" {
				t.Errorf("%q", all)
			}
			jobstest.EndsAs(t, later.startAs(inSession("hello", "a")), "completed")
			later.close()
			c.holds()
		})
	}
}

// A kept session that was made again after its allocation was lost is kept like a first one.
func TestCloseWhileASessionThatWasMadeAgainIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := ofCluster(t, linktest.Runners{"hello": prints("hello\n")})
		s := c.serve(must.Get(keyfile.TakeOver(t.TempDir(), "/w", "/places"))(t))
		start := inSession("hello", "a")
		start.Keep = true
		jobstest.EndsAs(t, s.startAs(start), "completed")
		c.ends("1", allocation.State{Phase: allocation.Ended, End: "Slurm: CANCELLED"})
		synctest.Wait()
		jobstest.EndsAs(t, s.startAs(start), "completed")
		m := c.machines["2"]
		m.set(func() { m.fails = errors.New("no route") })
		m.wire().Close()
		synctest.Wait()
		s.close()
		c.holds("2")
	})
}

// A goodbye asks the engine that an earlier server has left, also if no call has needed it. It keeps nothing, so its
// allocation goes back.
func TestCloseOfWhatNoCallHasUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, dir := leftWhileLost(t, true)
		m := c.machines["1"]
		m.set(func() { m.fails = nil })
		c.serve(must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t)).close()
		if held := c.held(); len(held) > 0 {
			t.Errorf("%q are held", held)
		}
	})
}

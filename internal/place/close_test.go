package place

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/output"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// withFile starts a server with a key file in a directory, which it takes over if an earlier one has left it.
func withFile(t *testing.T, m *machine, dir string) *stage {
	t.Helper()
	return serve(t, m, must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t))
}

// records returns the records of jobs as a later server finds them.
func (s *stage) records() (list []jobs.Past) {
	logs := output.NewStore(output.Config{})
	for r := range s.here.All(jobs.Filter{}) {
		p := jobs.Past{Saved: jobs.Saved{Record: r}, Log: logs.NewLog(r.ID)}
		p.Record.Status, p.Record.Receipt = jobs.Failed, jobs.Receipt{End: jobs.LeftThere}
		p.Log.Write(output.Stdout, []byte(jobstest.Output(s.here.Lookup(r.ID))))
		list = append(list, p)
	}
	return list
}

// The end of a server ends what is not kept, and waits for it. A later server follows the rest.
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		m := newMachine(t, linktest.Runners{"wait": waits, "ask": asks})
		s := withFile(t, m, dir)
		kept := s.startAs(server.Start{Tool: "ask", Kind: jobs.Python, Session: "a", Keep: true})
		not := s.start("wait")
		jobstest.Asks(t, kept)
		runs(t, not)
		began := time.Now()
		s.close()
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %v", d)
		}
		r := jobstest.EndsAs(t, not, "cancelled (before it ran by shutdown)") // as waits says
		if r.Receipt.Detail != "shutdown terminate" {
			t.Errorf("%+v", r.Receipt)
		}
		r = jobstest.End(t, kept)
		if r.Receipt.End != jobs.LeftThere {
			t.Errorf("%+v", r.Receipt)
		}
		if _, err := s.ps.Runner("gpu", server.Start{Tool: "wait", Kind: jobs.Shell}); err != nil {
			t.Error(err)
		}
		jobstest.EndsAs(t, s.start("wait"), "cancelled (before it ran by shutdown)")

		later := withFile(t, m, dir)
		if at := later.ps.Of(jobs.Python, "a"); at != "gpu" || !later.ps.InUse() {
			t.Errorf("the session lives at %q", at)
		}
		if ids := later.file.Engines()["gpu"].Jobs; !slices.Equal(ids, []string{kept.ID()}) {
			t.Errorf("the file has the jobs %q", ids)
		}
		m.set(func() { m.fails = errors.New("no route") })
		later.ps.Adopt(s.records())
		if later.here.Lookup(not.ID()) == nil {
			t.Fatal("the other job is not asked for")
		}
		j := later.here.Lookup(kept.ID())
		if l := lost(t, j); !l.AsOf.IsZero() || l.Unknown {
			t.Errorf("%+v", l)
		}
		m.set(func() { m.fails = nil })
		jobstest.Asks(t, j)
		jobstest.Send(t, j, jobs.Input{Text: "end"})
		jobstest.EndsAs(t, j, "completed")
		jobstest.EndsAs(t, later.here.Lookup(not.ID()), "cancelled (before it ran by shutdown)")
		later.close()
		if m.engines != 1 || m.running() != nil {
			t.Errorf("%d engines", m.engines)
		}
		third := must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t)
		if third.Key() == s.file.Key() || len(third.Engines()) != 0 {
			t.Errorf("a file was left: %v", third.Engines())
		}
		third.Close(true)
	})
}

// The end of a server does not wait for a place that is out of reach.
func TestCloseWhileLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		m := newMachine(t, linktest.Runners{"wait": waits})
		s := withFile(t, m, dir)
		j := s.start("wait")
		runs(t, j)
		time.Sleep(time.Minute)
		m.set(func() { m.fails = errors.New("no route") })
		m.wire().Close()
		lost(t, j)
		began := time.Now()
		s.close()
		if d := time.Since(began); d > 0 {
			t.Errorf("it took %v", d)
		}
		jobstest.End(t, j)
		later := withFile(t, m, dir)
		later.ps.Adopt(s.records())
		m.set(func() { m.fails = nil })
		runs(t, later.here.Lookup(j.ID()))
	})
}

// A paused link delays the end of a server for the time that it gives, and no more.
func TestCloseWhilePaused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		j := s.start("wait")
		runs(t, j)
		s.m.wire().pause()
		began := time.Now()
		s.close()
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("it took %v", d)
		}
		jobstest.End(t, j)
	})
}

// A job that was never sent is not left anywhere.
func TestCloseWhileOpening(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		s.m.set(func() { s.m.slow = time.Minute })
		j := s.start("wait")
		synctest.Wait()
		s.close()
		jobstest.EndsAs(t, j, "cancelled (before it ran by shutdown)")
	})
}

// A later server whose engine is gone says so of the jobs.
func TestAdoptFromAnEngineThatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		m := newMachine(t, linktest.Runners{"wait": waits})
		s := withFile(t, m, dir)
		j := s.startAs(server.Start{Tool: "wait", Kind: jobs.Shell, Keep: true})
		runs(t, j)
		s.close()
		m.running().kill()
		later := withFile(t, m, dir)
		later.ps.Adopt(s.records())
		jobstest.EndsAs(t, later.here.Lookup(j.ID()), "failed (the engine on gpu is gone)")
		later.ps.Adopt(s.records()) // it is known
	})
}

// A job that was not seen to start, and that the place does not know, was never there. Its session has lost nothing.
func TestAdoptWhatWasNeverSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		m := newMachine(t, linktest.Runners{"wait": waits})
		s := withFile(t, m, dir)
		kept := s.startAs(server.Start{Tool: "wait", Kind: jobs.Python, Session: "a", Keep: true})
		runs(t, kept)
		s.close()
		unsent := s.records()[0]
		unsent.Record.ID, unsent.Record.Started = jobstest.ID(time.Now()), time.Time{}
		later := withFile(t, m, dir)
		later.ps.Adopt([]jobs.Past{unsent})
		jobstest.EndsAs(t, later.here.Lookup(unsent.Record.ID), "failed (could not start: its server ended before gpu had the job)")
	})
}

// A job that is unknown here is found at a place that is connected.
func TestFind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t, linktest.Runners{"wait": waits, "ask": asks})
		s, other := serve(t, m, nil), serve(t, m, nil)
		j := s.start("ask")
		jobstest.Asks(t, j)
		if other.ps.Find(t.Context(), j.ID()) != nil {
			t.Error("it was found at a place that is not connected")
		}
		running := other.start("wait")
		runs(t, running)
		if r := s.ps.Find(t.Context(), running.ID()).Record(); r.Status != jobs.Running {
			t.Errorf("a job that runs is %s at first", r.Status)
		}
		for range 2 {
			found := other.ps.Find(t.Context(), j.ID())
			if found == nil {
				t.Fatal("it was not found")
			}
			if q := jobstest.Asks(t, found); q.Prompt != "say: " || found.Record().Place != "gpu" || found.Record().Title != "ask" {
				t.Errorf("%+v", found.Record())
			}
		}
		if other.ps.Find(t.Context(), jobstest.ID(time.Now())) != nil {
			t.Error("a job that nobody has was found")
		}
		jobstest.Send(t, other.here.Lookup(j.ID()), jobs.Input{Text: "end"})
		jobstest.EndsAs(t, j, "completed")
		jobstest.EndsAs(t, other.here.Lookup(j.ID()), "completed")
	})
}

// A session lives in one place until it is deleted, or its engine is gone.
func TestSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"hello": prints("hello\n")})
		call := func(tool, args string) (string, bool) {
			t.Helper()
			text, isError, err := s.ps.Call(t.Context(), "gpu", tool, []byte(args))
			must.Do(t, err)
			return text, isError
		}
		lives := func(name, want string) {
			t.Helper()
			if at := s.ps.Of(jobs.Python, name); at != want {
				t.Errorf("%s lives at %q, want %q", name, at, want)
			}
		}
		if text, isError := call("create_session", `{"name":"a"}`); text != `called create_session {"name":"a"}` || isError {
			t.Errorf("%q", text)
		}
		lives("a", "gpu")
		if at := s.ps.Of(jobs.Shell, "a"); at != "" {
			t.Errorf("the shell session lives at %q", at)
		}
		call("create_session", `{"name":"bad"}`)
		lives("bad", "")
		call("delete_session", `{"session":"a"}`)
		lives("a", "")
		jobstest.End(t, s.startAs(server.Start{Tool: "hello", Kind: jobs.Package, Session: "b"}))
		lives("b", "gpu")
		s.m.running().kill()
		synctest.Wait()
		call("list_sessions", `{}`)
		lives("b", "")
	})
}

// A session whose engine was killed while nothing ran is made again by the next job or call for it: it lives there, and
// the job says so, once.
func TestSessionsAreMadeAgain(t *testing.T) {
	for _, tt := range []struct{ name, call string }{
		{"by a job", ""},
		{"by a call", "create_session"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				again := 0
				s := newStage(t, linktest.Runners{"hello": prints("hello\n")})
				lives := func() {
					t.Helper()
					if at := s.ps.Of(jobs.Python, "a"); at != "gpu" {
						t.Errorf("the session lives at %q", at)
					}
				}
				hello := func(notes ...string) {
					t.Helper()
					r := jobstest.EndsAs(t, s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: "a", MadeAgain: func() { again++ }}), "completed")
					if !slices.Equal(r.Receipt.Notes, notes) {
						t.Errorf("the job notes %q, want %q", r.Receipt.Notes, notes)
					}
					lives()
				}
				hello()
				if again != 0 {
					t.Errorf("a new session was made again %d times", again)
				}
				s.m.running().kill()
				synctest.Wait() // the link is lost, and the next call finds that the engine is gone
				want, note := 1, []string{"session a is new: the last one has ended (the engine on gpu is gone); variables lost"}
				if tt.call != "" {
					want, note = 0, nil // the reply to the call has said it
					if _, isError, err := s.ps.Call(t.Context(), "gpu", tt.call, []byte(`{"name":"a"}`)); err != nil || isError {
						t.Error(isError, err)
					}
					lives()
				}
				hello(note...)
				hello()
				if again != want {
					t.Errorf("it was made again by %d jobs, want %d", again, want)
				}
			})
		})
	}
}

// A call that does not make a session again after its engine was killed leaves it nowhere.
func TestSessionIsNotMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"hello": prints("hello\n")})
		for _, tool := range []string{"list_variables", "create_session"} {
			jobstest.End(t, s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: "bad"}))
			s.m.running().kill()
			synctest.Wait()
			if _, isError, err := s.ps.Call(t.Context(), "gpu", tool, []byte(`{"name":"bad","session":"bad"}`)); err != nil || !isError {
				t.Error(isError, err)
			}
			if at := s.ps.Of(jobs.Python, "bad"); at != "" {
				t.Errorf("after %s it lives at %q", tool, at)
			}
		}
	})
}

// A session whose place was never reached lives nowhere.
func TestSessionsOfAPlaceOutOfReach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.m.set(func() { s.m.fails = errors.New("no route") })
		jobstest.End(t, s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: "a"}))
		if _, _, err := s.ps.Call(t.Context(), "gpu", "create_session", []byte(`{"name":"b"}`)); err == nil {
			t.Error("it was made")
		}
		for _, name := range []string{"a", "b"} {
			if at := s.ps.Of(jobs.Python, name); at != "" {
				t.Errorf("%s lives at %q", name, at)
			}
		}
	})
}

// A call whose answer was lost says that it may have been done.
func TestCallThatIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		runs(t, s.start("wait"))
		s.m.wire().pause()
		if _, _, err := s.ps.Call(t.Context(), "gpu", "restart", nil); err == nil || !strings.HasSuffix(err.Error(), "whether restart was done there is unknown") {
			t.Error(err)
		}
		if _, _, err := s.ps.Call(t.Context(), "cpu", "restart", nil); err == nil || err.Error() != `there is no place "cpu": the places are gpu` {
			t.Error(err)
		}
	})
}

// Until its place answers, an adopted job is as it was known: running, with the output that had come. The rest
// follows that.
func TestAdoptedJobIsAsItWasKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir, more := t.TempDir(), make(chan struct{})
		m := newMachine(t, linktest.Runners{"print": func(ctx context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			p.Write(output.Stdout, []byte("early\n"))
			select {
			case <-more:
			case <-ctx.Done():
			}
			p.Write(output.Stderr, []byte("late\n"))
			return returned
		}})
		s := withFile(t, m, dir)
		kept := s.startAs(server.Start{Tool: "print", Kind: jobs.Shell, Keep: true})
		await(t, "the start of the job", func() bool { return jobstest.Output(kept) == "early\n" && !kept.Record().Started.IsZero() })
		s.close()
		later := withFile(t, m, dir)
		m.set(func() { m.fails = errors.New("no route") })
		later.ps.Adopt(s.records())
		j := later.here.Lookup(kept.ID())
		if r := j.Record(); r.Status != jobs.Running {
			t.Errorf("at first it is %s", r.Status)
		}
		lost(t, j)
		synctest.Wait() // its output is restored later
		if r := j.Record(); r.Status != jobs.Running || r.Started.IsZero() || jobstest.Output(j) != "early\n" {
			t.Errorf("%+v, %q", r, jobstest.Output(j))
		}
		mirrors := slices.Collect(maps.Keys(later.host().mirrors))
		m.set(func() { m.fails = nil })
		close(more)
		jobstest.EndsAs(t, j, "completed")
		if len(mirrors) != 1 || mirrors[0].past != nil {
			t.Error("what the earlier server knew stays in memory")
		}
		if out := jobstest.Output(j); out != "early\nlate\n" {
			t.Errorf("%q", out)
		}
	})
}

// A session that a refused create_session names stays where it lives.
func TestRefusedSessionStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, linktest.Runners{"wait": waits})
		runs(t, s.startAs(server.Start{Tool: "wait", Kind: jobs.Python, Session: "bad"}))
		for _, name := range []string{"bad", "bad-2"} {
			if _, isError, err := s.ps.Call(t.Context(), "gpu", "create_session", []byte(`{"name":"`+name+`"}`)); err != nil || !isError {
				t.Errorf("%t, %v", isError, err)
			}
		}
		if a, b := s.ps.Of(jobs.Python, "bad"), s.ps.Of(jobs.Python, "bad-2"); a != "gpu" || b != "" {
			t.Errorf("the sessions live at %q and %q", a, b)
		}
	})
}

// Two places on one machine have an engine each.
func TestEngineOfEachPlace(t *testing.T) {
	ps := Named(nil)
	ps.Key = "key"
	if a, b := ps.keyOf("gpu"), ps.keyOf("gpu2"); a == b || a != ps.keyOf("gpu") {
		t.Errorf("%s, %s", a, b)
	}
}

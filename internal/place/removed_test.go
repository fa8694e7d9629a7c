package place

import (
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A place that is removed from the file while its jobs run is out of reach: no end is shown for what has none. A later
// server that has the place again follows them.
func TestRemovedPlace(t *testing.T) {
	for name, serves := range map[string]func(t *testing.T) (with func(file *keyfile.File) *stage){
		"one engine": func(t *testing.T) func(file *keyfile.File) *stage {
			m := newMachine(t, linktest.Runners{"ask": asks})
			return func(file *keyfile.File) *stage { return serve(t, m, file) }
		},
		"allocations": func(t *testing.T) func(file *keyfile.File) *stage {
			return ofCluster(t, linktest.Runners{"ask": asks}).serve
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				dir := t.TempDir()
				file := func() *keyfile.File { return must.Get(keyfile.TakeOver(dir, "/w", "/places"))(t) }
				with := serves(t)
				first := with(file())
				start := inSession("ask", "a")
				start.Keep = true
				kept := first.startAs(start)
				jobstest.Asks(t, kept)
				first.close()

				s := &stage{t: t, here: jobstest.Registry(t), file: file()}
				s.ps = must.Get(New(Config{Places: []config.Place{{Name: "cpu", SSH: []string{"host"}}}, Jobs: s.here, File: s.file}))(t)
				t.Cleanup(s.close)
				s.ps.Adopt(first.records())
				j := s.here.Lookup(kept.ID())
				time.Sleep(time.Hour)
				const why = "the file of places does not have it any more; put it back"
				if l := lost(t, j); !strings.Contains(l.Why, why) || j.Record().Status != jobs.Running {
					t.Errorf("%+v, %+v", j.Record(), l)
				}
				list := s.ps.List(t.Context())
				if len(list) != 2 || list[1].Name != "gpu" || list[1].Reachable || !strings.Contains(list[1].Why, why) {
					t.Errorf("%+v", list)
				}
				if at := s.ps.Of(jobs.Python, "a"); at != "gpu" || len(s.ps.Names()) != 1 || s.ps.InUse() {
					t.Errorf("session a lives at %q, the places are %q", at, s.ps.Names())
				}
				other := s.startAs(inSession("ask", "a"))
				if r := other.Record(); r.Status.Final() && !strings.Contains(r.Receipt.Detail, why) {
					t.Errorf("%+v", r)
				}
				other.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
				jobstest.EndsAs(t, other, "cancelled (before it ran)")
				s.close()
				if r := jobstest.End(t, j); r.Receipt.End != jobs.LeftThere {
					t.Errorf("%+v", r)
				}

				last := with(file())
				last.ps.Adopt(first.records())
				j = last.here.Lookup(kept.ID())
				jobstest.Asks(t, j)
				jobstest.Send(t, j, jobs.Input{Text: "end"})
				jobstest.EndsAs(t, j, "completed")
			})
		})
	}
}

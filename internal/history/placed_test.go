package history

import (
	"context"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// far runs a job that is mirrored from another place. It is not over when its engine ends.
type far chan *jobs.Port

func (f far) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	f <- p
	<-ctx.Done()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.LeftThere, Stop: p.Stop()}, Continues: true}
}

// A job at another place does not end with its engine, whether that was killed or has ended: it has no end, and was
// running if it was seen to. Nobody is told that it was lost.
func TestJobAtAPlaceOutlivesItsEngine(t *testing.T) {
	for name, end := range map[string]func(*testing.T, engine){"killed": func(t *testing.T, e engine) { e.kill(t) }, "ended": func(_ *testing.T, e engine) { e.end() }} {
		t.Run(name, func(t *testing.T) {
			c := newConfig(t)
			first := newEngine(c)
			spec := jobs.Spec{Kind: jobs.Python, Session: "gpu", Place: "gpu"}
			run := make(far)
			runs := must.Get(first.Start(spec, run))(t)
			port := <-run
			must.Do(t, port.Mirror(jobs.Record{Status: jobs.Running, Created: runs.Record().Created, Started: runs.Record().Created}))
			waits := must.Get(first.Start(spec, run))(t)
			<-run
			t.Cleanup(func() { // a killed engine stops nothing
				for _, j := range []*jobs.Job{runs, waits} {
					j.Stop(jobs.Stop{From: jobs.Kill})
					<-j.Done()
				}
			})
			end(t, first)

			second := newEngine(c)
			defer second.end()
			seen := map[string]jobs.Record{}
			for _, r := range second.List(jobs.Filter{}) {
				if _, twice := seen[r.ID]; twice {
					t.Errorf("%s is listed twice", r.ID)
				}
				seen[r.ID] = r
				if r.Status != jobs.Failed || r.Receipt.End != jobs.LeftThere || r.Receipt.State != "" || !r.Ended.IsZero() {
					t.Errorf("%+v", r)
				}
			}
			if len(seen) != 2 || seen[runs.ID()].Started.IsZero() || !seen[waits.ID()].Started.IsZero() {
				t.Errorf("%+v", seen)
			}
			killed, _ := second.Settle()
			for _, k := range killed {
				if len(k.Jobs)+len(k.Variables) > 0 {
					t.Errorf("lost: %+v", k)
				}
			}
			// A later engine that follows a job has the newer record of it.
			j := must.Get(second.StartAs(runs.ID(), spec, run))(t)
			<-run
			if list := second.List(jobs.Filter{}); len(list) != 2 || j.Record().Status != jobs.Queued {
				t.Errorf("%+v", list)
			}
		})
	}
}

package report

import (
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A cancel is announced until an answer with it has been queued, whenever the cancel came.
func TestCancelledCallIsAnnouncedOnce(t *testing.T) {
	r := jobstest.Registry(t)
	asks := make(chan struct{})
	j := jobstest.Start(t, r, jobs.Spec{Kind: jobs.Shell}, script{hangs: true, write: func(p *jobs.Port) {
		p.SetWaiting(jobs.Question{Kind: "line"})
		close(asks)
	}})
	<-asks
	for name, steps := range map[string]func(c *CallNotices){
		"before the call was about it": func(c *CallNotices) { c.Cancel(); c.Watch(j) },
		"after":                        func(c *CallNotices) { c.Watch(j); c.Cancel() },
		"after its reply was made":     func(c *CallNotices) { c.Watch(j); c.Shows(j.Info()); c.Cancel(); c.Settle(false) },
	} {
		var n Notices
		first := n.Call() // so that its question is known
		first.Watch(j)
		first.Shows(j.Info())
		first.Settle(true)
		steps(n.Call())
		for i, want := range []string{"job " + j.ID() + " still waits for input; its call was cancelled", "job " + j.ID() + " still waits for input; its call was cancelled", ""} {
			c := n.Call()
			if got := strings.Join(c.Also(), ", "); got != want {
				t.Errorf("%s: answer %d: %q, want %q", name, i, got, want)
			}
			c.Settle(i > 0) // the first answer is dropped
		}
	}
}

// The answers of two calls about a job that has ended are queued or dropped, in either order.
func TestJobIsWatchedUntilItsEndIsDelivered(t *testing.T) {
	j := ended(t, script{write: func(p *jobs.Port) { out(p, "x") }})
	info := j.Info()
	for name, queued := range map[string][]bool{"both": {true, true}, "first": {true, false}, "second": {false, true}, "none": {false, false}} {
		var n Notices
		calls := []*CallNotices{n.Call(), n.Call()}
		for _, c := range calls {
			c.Watch(j)
			c.Shows(info)
		}
		for i, c := range calls {
			c.Settle(queued[i])
		}
		last := n.Call()
		announced := last.Also()
		last.Settle(true)
		if want := name == "none"; (len(announced) == 1) != want || len(n.watched) > 0 {
			t.Errorf("%s queued: %d announced, %d watched", name, len(announced), len(n.watched))
		}
	}
}

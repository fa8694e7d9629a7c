package report

import (
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// reply makes a call about a job, whose answer shows record and is queued or dropped.
func (n *Notices) reply(j *jobs.Job, record jobs.Record, queued bool) {
	c := n.Call()
	c.Watch(j)
	c.Shows(record)
	c.Settle(queued)
}

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
		"after its reply was made":     func(c *CallNotices) { c.Watch(j); c.Shows(j.Record()); c.Cancel(); c.Settle(false) },
	} {
		var n Notices
		n.reply(j, j.Record(), true) // so that its question is known
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
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Shell}, script{write: func(p *jobs.Port) { out(p, "x") }})
	record := jobstest.End(t, j)
	for name, queued := range map[string][]bool{"both": {true, true}, "first": {true, false}, "second": {false, true}, "none": {false, false}} {
		var n Notices
		calls := []*CallNotices{n.Call(), n.Call()}
		for _, c := range calls {
			c.Watch(j)
			c.Shows(record)
		}
		for i, c := range calls {
			c.Settle(queued[i])
		}
		last := n.Call()
		announced := last.Also()
		last.Settle(true)
		if name == "none" && len(announced) == 0 || name == "both" && len(announced) > 0 || len(n.watched) > 0 {
			t.Errorf("%s queued: %d announced, %d watched", name, len(announced), len(n.watched))
		}
	}
}

// A refused call does not make its connection watch a job, and does not end the watch of one.
func TestRefusedCallChangesNoAnnouncement(t *testing.T) {
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Shell}, script{write: func(p *jobs.Port) { out(p, "x") }})
	record := jobstest.End(t, j)
	for name, tt := range map[string]struct {
		before func(n *Notices)
		want   int // announcements
	}{
		"no call before":                     {func(*Notices) {}, 0},
		"its end is delivered":               {func(n *Notices) { n.reply(j, record, true) }, 0},
		"the answer with its end is dropped": {func(n *Notices) { n.reply(j, record, false) }, 1},
	} {
		var n Notices
		tt.before(&n)
		refused := n.Call()
		refused.Watch(j)
		refused.Settle(true)
		next := n.Call()
		got := next.Also()
		next.Settle(true)
		if len(got) != tt.want || len(n.watched) > 0 {
			t.Errorf("%s: announced %q, %d watched, want %d announcements", name, got, len(n.watched), tt.want)
		}
	}
}

// Late output of a session's job is announced until an answer with it is queued, and again only if
// there is more. A reply about the job counts as well.
func TestLateOutputIsAnnouncedOnce(t *testing.T) {
	var port *jobs.Port
	j := ended(t, script{write: func(p *jobs.Port) { port = p; out(p, "x") }})
	var n Notices
	about := func() { n.reply(j, j.Record(), true) }
	also := func(queued bool) string {
		c := n.Call()
		defer c.Settle(queued)
		return strings.Join(c.Also(), ", ")
	}
	out(port, "before the reply")
	about()
	steps := []struct{ write, want string }{
		{"", ""}, {"1234567890", "wrote 10 bytes more"}, {"", ""}, {"x", "wrote 1 byte more"}, {strings.Repeat("x", 1234), "wrote 1,234 bytes more"}, {"", ""},
	}
	for i, step := range steps {
		about()
		if step.write != "" {
			out(port, step.write)
		}
		want := step.want
		if want != "" {
			want = "job " + j.ID() + " " + want
			if got := also(false); got != want {
				t.Errorf("step %d: a dropped answer had %q, want %q", i, got, want)
			}
		}
		if got := also(true); got != want {
			t.Errorf("step %d: %q, want %q", i, got, want)
		}
	}
	about()
	out(port, "announced")
	also(true)
	out(port, "and no reply has shown it")
	if got := also(true); got != "" {
		t.Errorf("more late output is announced: %q", got)
	}
	out(port, "shown")
	about()
	if got := also(true); got != "" {
		t.Errorf("what was shown is announced: %q", got)
	}
}

// A connection watches a bounded number of ended jobs.
func TestLateOutputOfTheNewestJobs(t *testing.T) {
	r := jobstest.Registry(t)
	var n Notices
	var ports []*jobs.Port
	for range lateMax + 10 {
		j := jobstest.Start(t, r, jobs.Spec{Kind: jobs.Python}, script{write: func(p *jobs.Port) { ports = append(ports, p) }})
		n.reply(j, jobstest.End(t, j), true)
	}
	for _, p := range ports {
		out(p, "x")
	}
	c := n.Call()
	if got := len(c.Also()); got != lateMax || len(n.watched) != lateMax {
		t.Errorf("%d jobs announced, %d watched, want %d", got, len(n.watched), lateMax)
	}
	c.Settle(true)
}

// A loss is announced until an answer with it has been queued.
func TestLossIsAnnouncedUntilItIsDelivered(t *testing.T) {
	var n Notices
	for i, step := range []struct {
		end  func(c *CallNotices)
		want bool
	}{
		{func(c *CallNotices) { c.Settle(false) }, true},
		{func(c *CallNotices) { c.Cancel(); c.Settle(false) }, true},
		{func(c *CallNotices) { c.Settle(true) }, true},
		{func(c *CallNotices) { c.Settle(false) }, false},
		{func(c *CallNotices) { c.Settle(true) }, false},
	} {
		c := n.Call()
		if got := c.Once("lab 01A"); got != step.want {
			t.Errorf("answer %d: announced %t, want %t", i, got, step.want)
		}
		step.end(c)
	}
	if c := n.Call(); !c.Once("lab 01B") {
		t.Error("another loss is not announced")
	}
	late := n.Call()
	late.Cancel()
	if late.Once("lab 01C") {
		t.Error("a cancelled call announces a loss")
	}
}

// The next connection announces what the one before it has not, and nothing twice. Answers of the one before
// that are still under way change nothing.
func TestNoticesOfTheNextConnection(t *testing.T) {
	r := jobstest.Registry(t)
	said := jobstest.Start(t, r, jobs.Spec{Kind: jobs.Shell}, script{write: func(*jobs.Port) {}})
	ends := make(chan struct{})
	unsaid := jobstest.Start(t, r, jobs.Spec{Kind: jobs.Shell}, script{write: func(*jobs.Port) { <-ends }})
	var n Notices
	n.reply(said, jobstest.End(t, said), true)
	n.reply(unsaid, unsaid.Record(), true)
	lost := n.Call()
	lost.Watch(unsaid)
	close(ends)
	lost.Shows(jobstest.End(t, unsaid))
	once := n.Call()
	once.Once("a loss")
	once.Settle(true)

	next := n.Next()
	c := next.Call()
	if got, want := strings.Join(c.Also(), ", "), "job "+unsaid.ID()+" completed"; got != want {
		t.Errorf("the next connection says %q, want %q", got, want)
	}
	lost.Settle(true)
	if c.Once("a loss") {
		t.Error("a loss is said again")
	}
	c.Settle(true)
	c = next.Call()
	if got := c.Also(); got != nil {
		t.Errorf("said again: %q", got)
	}
}

// What an earlier server has not said is said once, also if an answer with it was dropped.
func TestNewsOfAnEarlierServer(t *testing.T) {
	var n Notices
	n.Earlier([]string{"job 01A completed", "job 01B failed (exit 1)"})
	for i, want := range []string{"job 01A completed, job 01B failed (exit 1)", "job 01A completed, job 01B failed (exit 1)", ""} {
		c := n.Call()
		if got := strings.Join(c.Also(), ", "); got != want {
			t.Errorf("answer %d: %q, want %q", i, got, want)
		}
		c.Settle(i > 0) // the first answer is dropped
	}
}

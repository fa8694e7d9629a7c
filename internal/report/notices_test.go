package report

import (
	"testing"

	"asyncrepl/jobs"
)

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

package waits

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/search"
	"asyncrepl/jobs"
)

// Conditions say what ends a wait for jobs, apart from questions and ends of the jobs.
type Conditions struct {
	Pattern *search.Pattern // a matching line meets the conditions; nil if no line does
	Stop    *search.Pattern // a matching line ends the wait for all jobs, as failed; or nil
	From    int64           // the cursor at which the first line to search begins
	Quiet   time.Duration   // so long a silence meets the conditions; 0 if silence doesn't count
	Every   bool            // each job must meet the conditions, not just one
}

// An event is why the wait for one job is over.
type event int

const (
	nothing event = iota // the job has not ended the wait
	matched              // a line has matched Pattern
	stopped              // a line has matched Stop
	quiet                // the job has been silent for Quiet
	ended
	asks // the job asks for input, or probably does
)

// An Outcome is what a wait has found out about one job.
type Outcome struct {
	record  jobs.Record // the state of the job when the wait was over
	event   event
	match   *match
	next    int64          // the cursor from which to continue; -1 if the output was not searched
	dropped []output.Range // the bytes that could not be searched
}

// Record returns the state of the job when the wait was over.
func (o *Outcome) Record() jobs.Record { return o.record }

// probably reports whether the job has ended the wait because one of its programs has begun to take
// input, although that waits for other things as well.
func (o *Outcome) probably() bool { return o.event == asks && o.record.Accepts != (jobs.Reader{}) }

// firstScan bounds the first scan of the output if the wait is shorter. Without it, a wait of zero
// seconds would not find what the job has already printed.
const firstScan = time.Second

// errOver cancels the waits for the other jobs when one job has ended the wait.
var errOver = errors.New("the wait is over")

// Wait waits until one of the jobs, or each, meets the conditions, until one prints a line that
// matches Stop or asks for input, or until d is over. A program that takes input and waits for
// other things as well counts as asking if it began to take input during the wait and nothing has
// changed for [jobs.ReaderTime] since. Earlier output is searched in any case. With a pattern, the
// end of a job without a match ends the wait too, because the conditions can't be met any more.
func Wait(ctx context.Context, all []*jobs.Job, c Conditions, d time.Duration) []Outcome {
	outcomes := make([]Outcome, len(all))
	started := time.Now()
	searching, cancel := context.WithTimeout(ctx, max(d, firstScan))
	defer cancel()
	waits, searching := errgroup.WithContext(searching)
	for i, j := range all {
		waits.Go(func() error { // owned by this call, which waits for it; ends with the wait
			waiting, cancel := context.WithDeadline(searching, started.Add(d))
			defer cancel()
			outcomes[i] = newWatch(j, &c, started).run(searching, waiting)
			if c.over(outcomes[i].event) {
				return errOver
			}
			return nil
		})
	}
	_ = waits.Wait() // the outcomes say why
	for i := range outcomes {
		outcomes[i].record = all[i].Record()
	}
	return outcomes
}

// over reports whether an event of one job ends the wait for all.
func (c *Conditions) over(e event) bool {
	switch e {
	case nothing:
		return false
	case stopped, asks:
		return true
	case ended:
		return !c.Every || c.Pattern != nil
	}
	return !c.Every
}

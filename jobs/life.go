package jobs

import (
	"fmt"
	"slices"
	"time"
)

// What moves a job through its life. Each event is one method, and every change
// of status goes through to.

// to moves the job to status s and reports whether it did: a move that is not
// in the table is a defect. The caller holds j.mu, and notifies.
func (j *Job) to(s Status) bool {
	if !j.info.Status.mayBecome(s) {
		j.bug(fmt.Sprintf("invalid move from %s to %s", j.info.Status, s))
		return false
	}
	now := time.Now()
	if j.info.Status == Running {
		j.ran += now.Sub(j.since)
		if j.limit != nil {
			j.limit.Stop()
		}
	}
	j.info.Status, j.info.Question, j.info.Accepts = s, nil, false
	j.generation++
	switch {
	case s == WaitingInput:
		j.info.Asked++
	case s == Running:
		j.since = now
		if j.info.Started.IsZero() {
			j.info.Started = now
		}
		j.startLimit()
	case s.Final():
		j.info.Ended, j.info.Cancelling, j.info.Probe, j.accept = now, "", nil, nil
	}
	return true
}

// asks makes q the open question and reports whether it is. The caller holds j.mu.
func (j *Job) asks(q Question) bool {
	switch {
	case j.info.Status.Final():
		return false
	case j.info.Status != WaitingInput:
		if !j.to(WaitingInput) {
			return false
		}
	case *j.info.Question == q:
		return true
	}
	j.info.Question = &q
	j.notify()
	return true
}

// notify wakes those who wait for a change. The caller holds j.mu.
func (j *Job) notify() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// bug tells of a defect and makes the job fail for it, unless it has ended: a
// final status stands. The caller holds j.mu.
func (j *Job) bug(msg string) {
	msg = fmt.Sprintf("jobs: %s: %s", j.info.ID, msg)
	if j.keep.bug == nil {
		panic(msg)
	}
	j.keep.bug(msg)
	if j.broken == "" {
		j.broken = msg
	}
	// The runner still holds processes and files: it is asked to let go of them,
	// and the job fails when it has.
	j.stopLocked(Stop{By: Unknown, From: Kill, Reason: "internal error"})
}

// stopLocked is Stop for a caller that holds j.mu.
func (j *Job) stopLocked(st Stop) {
	st = st.withDefaults()
	switch {
	case j.info.Status.Final():
		return
	case j.stop == nil:
		j.stop = &st
		j.info.Cancelling = st.From
		j.cancel(j.stop)
	case st.From.Above(j.stop.From):
		st = j.stop.raised(st)
		j.stop = &st
	default:
		return
	}
	if j.raised != nil {
		close(j.raised)
		j.raised = nil
	}
	j.notify()
}

// startLimit makes the timeout count from now on. The caller holds j.mu.
func (j *Job) startLimit() {
	if j.info.Timeout <= 0 {
		return
	}
	left := max(0, j.info.Timeout-j.ran)
	if j.limit == nil {
		j.limit = time.AfterFunc(left, j.atLimit)
	} else {
		j.limit.Reset(left)
	}
}

// atLimit stops the job if it has run for as long as it may. A timer that fired
// just when the job moved on comes too early by this reckoning, and does nothing.
func (j *Job) atLimit() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.info.Status == Running && j.ran+time.Since(j.since) >= j.info.Timeout {
		j.stopLocked(Stop{By: Limit})
	}
}

// end makes the job final with what its runner handed back, and saves it. By then
// the runner has drained; what is written from now on is late output. It wakes
// nobody: who is told of the end may rely on its record.
func (j *Job) end(out Outcome) {
	j.log.Finish()
	j.conclude(out)
	j.save()
}

// release wakes those who wait for the end.
func (j *Job) release() {
	close(j.done)
	j.cancel(nil) // the runner has returned: this only lets go of the context
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notify()
}

// conclude is the part of end that changes what Info tells.
func (j *Job) conclude(out Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := &out.Receipt
	if j.broken == "" && !j.info.Status.mayBecome(r.Status()) {
		j.bug(fmt.Sprintf("runner ended it as %q while %s", r.Text(), j.info.Status))
	}
	if j.broken != "" {
		// What became of the variables and of other processes is true all the same.
		r.End, r.Detail, r.Code, r.Signal = Internal, j.broken, 0, ""
		r.Stop, r.By = nil, ""
		out.Result, out.HasResult = "", false
	}
	r.settle(j.info.Timeout)
	r.Lost = j.log.Stat().Loss
	j.to(r.Status())
	j.info.Receipt, j.info.Result, j.info.HasResult = *r, out.Result, out.HasResult
}

// amend lets f change the receipt of the ended job.
func (j *Job) amend(f func(*Receipt)) {
	if j.amended(f) {
		j.save()
	}
}

func (j *Job) amended(f func(*Receipt)) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.info.Status.Final() {
		j.bug("late news of a job that has not ended")
		return false
	}
	r := j.info.Receipt
	// Snapshots that were handed out share these slices with the receipt.
	for _, s := range []*[]Process{&r.HungUp, &r.Left, &r.Survivors, &r.Unclaimed} {
		*s = slices.Clone(*s)
	}
	r.Rungs, r.Rest, r.Notes = slices.Clone(r.Rungs), slices.Clone(r.Rest), slices.Clone(r.Notes)
	f(&r)
	if r.Status() != j.info.Status {
		j.bug(fmt.Sprintf("late news of %q for a job that is %s", r.Text(), j.info.Status))
		return false
	}
	j.info.Receipt = r
	j.notify()
	return true
}

// save hands the present state to the store.
func (j *Job) save() {
	j.saving.Lock()
	defer j.saving.Unlock()
	if err := j.keep.store.Save(j.Info()); err != nil {
		j.keep.log.Warn("saving job", "job", j.ID(), "err", err)
	}
}

// remains reports whether the job may still have to end what it left running.
func (j *Job) remains() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.leaves != nil
}

package jobs

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/output"
)

// The moves of a job through its life. Each event is one method, and every change of status goes
// through moveTo.

// moveTo changes the status to s and reports whether it did: a move that is not in the table is a
// defect. The caller holds j.mu, and notifies.
func (j *Job) moveTo(s Status) bool {
	if !j.record.Status.mayBecome(s) {
		j.defect(fmt.Sprintf("invalid move from %s to %s", j.record.Status, s))
		return false
	}
	now := time.Now()
	if j.record.Status == Running {
		j.ran += now.Sub(j.since)
		if j.limit != nil {
			j.limit.Stop()
		}
	}
	j.record.Status, j.record.Question, j.record.Accepts, j.record.Stopped = s, nil, Reader{}, ""
	switch {
	case s == WaitingInput:
		j.record.Asked++
	case s == Running:
		j.since = now
		if j.record.Started.IsZero() {
			j.record.Started = now
		}
		j.startLimit()
	case s.Final():
		j.record.Ended, j.record.Cancelling, j.record.Listening = now, "", nil
		j.live, j.takeInput = Live{}, nil
	}
	return true
}

// notify wakes the callers that wait for a change. The caller holds j.mu.
func (j *Job) notify() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
	j.shared.list.announce(j)
}

// defect reports a defect of this program and makes the job fail for it. If the job has ended, its
// status stands. The caller holds j.mu.
func (j *Job) defect(msg string) {
	msg = fmt.Sprintf("jobs: %s: %s", j.record.ID, msg)
	if j.shared.bug == nil {
		panic(msg)
	}
	j.shared.bug(msg)
	if j.broken == "" {
		j.broken = msg
	}
	// The runner still holds processes and files. It is asked to release them, and the job fails
	// once it has.
	j.stopLocked(Stop{By: Unknown, From: Kill, Reason: "internal error"})
}

// stopLocked is Stop for a caller that holds j.mu.
func (j *Job) stopLocked(st Stop) {
	st = st.withDefaults()
	switch {
	case j.record.Status.Final():
		return
	case j.stop == nil:
		j.stop = &st
		j.record.Cancelling = st.From
		j.cancel(j.stop)
	case j.stop.raises(st):
		st = j.stop.raised(st)
		j.stop = &st
	case (st.By == Agent || st.By == Person) && st.Spare && j.stop.Spare:
		st = *j.stop
		st.again++
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

// startLimit starts the timer for the rest of the timeout. The caller holds j.mu.
func (j *Job) startLimit() {
	if j.record.Timeout <= 0 || j.away() {
		return
	}
	left := max(0, j.record.Timeout-j.ran)
	if j.limit == nil {
		j.limit = time.AfterFunc(left, j.atLimit)
	} else {
		j.limit.Reset(left)
	}
}

// atLimit stops the job if it has run for its timeout. It does nothing if the timer fired just as
// the job left Running.
func (j *Job) atLimit() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.record.Status == Running && j.ran+time.Since(j.since) >= j.record.Timeout {
		j.stopLocked(Stop{By: Limit, Spare: j.record.Spare})
	}
}

// end makes the job final with the outcome of its runner, and saves it. The runner has drained by
// then: the result ends the log, and bytes written from now on are late output. It wakes no caller,
// so that a caller that is woken by the end finds it saved.
func (j *Job) end(out Outcome) {
	if out.Far == nil {
		j.write(output.Result, []byte(out.Result))
	}
	j.log.Finish()
	j.saving.Lock() // Record waits for it
	defer j.saving.Unlock()
	if out.Far != nil {
		j.clearTo(out.Far.Cleared)
	}
	j.conclude(out)
	if !out.Continues {
		j.save(j.shared.store.End)
	}
}

// release wakes the callers that wait for the end.
func (j *Job) release() {
	close(j.done)
	j.cancel(nil) // the runner has returned: this only frees the context
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notify()
}

// conclude is the part of end that changes the record.
func (j *Job) conclude(out Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	asked, timeout := j.stop, j.record.Timeout
	j.record.Where = out.Where
	if out.Far != nil { // its engine has completed the receipt
		out, asked, timeout = j.farOutcome(out.Far), nil, 0
	}
	r := &out.Receipt
	if j.broken == "" && !j.record.Status.mayBecome(r.Status()) {
		j.defect(fmt.Sprintf("runner ended it as %q while %s", r.Text(), j.record.Status))
	}
	if j.broken != "" {
		// The rest of the receipt, about variables and other processes, is still true.
		r.End, r.Detail, r.Code, r.Signal, r.Cause = Internal, j.broken, 0, "", ""
		r.Stop, r.By = nil, ""
		out.Result, out.HasResult = "", false
	}
	r.complete(asked, timeout)
	r.LostOutput = j.log.Stat().Loss
	j.moveTo(r.Status())
	j.record.Receipt, j.record.HasResult = *r, out.HasResult
	j.record.Result, j.record.ResultChars = beginning(out.Result)
	if out.Far != nil {
		j.endAs(out.Far)
	}
}

// resultKept bounds the result in a record, in characters, because ended jobs are kept for long.
const resultKept = 32_000

// beginning returns at most resultKept characters of a result and, if these are not all, the number
// of all its characters.
func beginning(result string) (kept string, all int) {
	n := 0
	for i := range result {
		if n++; n > resultKept {
			return strings.Clone(result[:i]), utf8.RuneCountInString(result)
		}
	}
	return result, 0
}

// amend lets f change the receipt of the ended job.
func (j *Job) amend(f func(*Receipt)) {
	j.saving.Lock()
	defer j.saving.Unlock()
	if j.amendRecord(f) {
		j.save(j.shared.store.Amend)
	}
}

// amendRecord is the part of amend that changes the record; it reports whether it did.
func (j *Job) amendRecord(f func(*Receipt)) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.record.Status.Final() {
		j.defect("late news of a job that has not ended")
		return false
	}
	r := j.record.Receipt
	// Earlier snapshots share these slices with the receipt.
	for _, s := range []*[]Process{&r.HungUp, &r.Left, &r.Survivors, &r.Unclaimed} {
		*s = slices.Clone(*s)
	}
	r.Rungs, r.Rest, r.Notes = slices.Clone(r.Rungs), slices.Clone(r.Rest), slices.Clone(r.Notes)
	f(&r)
	if j.away() {
		r.LostOutput = j.record.Receipt.LostOutput
	}
	if r.Status() != j.record.Status {
		if j.away() { // the place has sent what can't be true, which is no defect of this program
			return false
		}
		j.defect(fmt.Sprintf("late news of %q for a job that is %s", r.Text(), j.record.Status))
		return false
	}
	j.record.Receipt = r
	j.notify()
	return true
}

// needsCleanup reports whether the job may have left processes running.
func (j *Job) needsCleanup() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cleanup != nil
}

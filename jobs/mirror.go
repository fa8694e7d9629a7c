package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
)

// A job that runs at another place, in another engine, is mirrored here: its runner passes on what that engine
// reports of it. All of that is input from outside. What can't be true is an error and changes nothing, or makes
// the job fail at its end; it is never a defect of this program. The runner has escaped what becomes a line, and
// has moved the times to the clock of this machine.

// A Link says what is known of the way to the place of a job. It is computed when asked; it never waits.
type Link struct {
	Where   string    // more about the place: "Slurm job 812, node n2"; empty: nothing
	Lost    time.Time // since when the place has been out of reach; zero: it is connected
	Why     string    // the reason for that, one line
	AsOf    time.Time // when the record of the job was last true; zero: never
	Unknown bool      // the start was sent, and it is not known whether the job has started
	Queued  string    // why the job waits, in the scheduler's words; empty: it waits for no allocation
	Behind  int64     // the job has ended there, and that many bytes of its output are still to come
	Input   string    // what is known of the last input if the link was lost on its way: "not delivered"
}

// SetLink makes f say what is known of the way to the place of the running job.
func (p *Port) SetLink(f func() Link) { p.unlessEnded(func(j *Job) { j.live.Link = f }) }

// Changed wakes the callers that wait for a change: the link has changed.
func (p *Port) Changed() {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	p.j.notify()
}

// The limits of what a place reports of a job. Records of ended jobs are kept.
const (
	mirroredMost = 1 << 20   // bytes of a record's JSON, without code and result; an exception has most of them
	sideMost     = 1<<16 - 1 // rows or columns of a terminal, as the kernel has them
	cursorMost   = 1 << 62

	// Of the displays the last ones are kept. An engine keeps fewer, but which it has replaced can be known
	// here later.
	displaysMost  = 1000
	displayedMost = 64 << 20 // bytes
)

// away reports whether the job runs at another place. A job that does takes no slot, and its timeout runs there.
func (j *Job) away() bool { return j.record.Place != "" } // never changes, so it needs no lock

// Mirror makes the record of a job at another place what far says, except its ID, its Spec and its Output. The
// status moves along the table, by more than one move if need be. A record that can't follow the present one is an
// error, and changes nothing. So is that of the job's end, which [Outcome].Far takes. The error is [ErrEnded] if
// the job has ended.
func (p *Port) Mirror(far Record) error {
	cleared := p.j.clearedTo()
	if far.Cleared < cleared {
		return fmt.Errorf("the output is cleared up to %d, after %d", far.Cleared, cleared)
	}
	resized, begun, err := p.j.mirror(&far)
	if begun { // the next server knows then that it ran
		p.j.begin()
	}
	if err == nil && far.Cleared > cleared {
		p.j.clearTo(far.Cleared)
		p.Changed()
	}
	if resized {
		p.j.saveSize()
	}
	return err
}

func (j *Job) mirror(far *Record) (resized, begun bool, err error) {
	switch {
	case !j.away():
		return false, false, errors.New("the job runs here")
	case far.Status.Final() && slices.Contains(Statuses, far.Status):
		return false, false, fmt.Errorf("the job is %s: that is not how it runs", far.Status)
	}
	if err := far.possible(); err != nil {
		return false, false, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	moves, ok := j.record.Status.movesTo(far.Status)
	switch {
	case j.record.Status.Final():
		return false, false, ErrEnded
	case !ok:
		return false, false, fmt.Errorf("a job that is %s is reported to be %s", j.record.Status, far.Status)
	case far.Asked < j.record.Asked:
		return false, false, fmt.Errorf("the job is reported to have asked %d times, after %d", far.Asked, j.record.Asked)
	}
	before := j.record
	for _, s := range moves {
		j.moveTo(s)
	}
	r := &j.record
	begun = before.Status == Queued && r.Status != Queued
	if r.Status != Queued {
		j.shared.slots.take(j)
	}
	now := time.Now()
	r.Created = steady(before.Created, within(far.Created, j.issued(), now, before.Created))
	r.Started = steady(before.Started, within(far.Started, r.Created, now, r.Started))
	resized = j.learn(far, now)
	r.Question = far.Question
	if r.Status == Running {
		r.Accepts, r.Stopped = far.Accepts, far.Stopped
		r.Accepts.Since = steady(before.Accepts.Since, within(far.Accepts.Since, r.Created, now, time.Time{}))
	}
	if r.Cancelling = far.Cancelling; r.Cancelling == "" && j.stop != nil {
		r.Cancelling = j.stop.From // that place does not know of it yet
	}
	if !slices.Equal(r.Listening, far.Listening) {
		r.Listening, j.listenSince = far.Listening, now
	}
	if resized || !reflect.DeepEqual(before, j.record) {
		j.notify()
	}
	return resized, begun, nil
}

// movesTo returns the moves by which a job in s gets to t, and whether it can.
func (s Status) movesTo(t Status) (moves []Status, ok bool) {
	switch {
	case s == t:
		return nil, true
	case s.mayBecome(t):
		return []Status{t}, true
	case s.mayBecome(Running) && Running.mayBecome(t):
		return []Status{Running, t}, true
	}
	return nil, false
}

// possible returns why no job can have a record, or nil.
func (r *Record) possible() error {
	switch {
	case !slices.Contains(Statuses, r.Status):
		return fmt.Errorf("no job is %q", r.Status)
	case (r.Status == WaitingInput) != (r.Question != nil):
		return fmt.Errorf("a job that is %s has an open question, or one that asks has none", r.Status)
	case r.Cancelling != "" && !r.Cancelling.Above(""):
		return fmt.Errorf("there is no rung %q", r.Cancelling)
	case r.Terminal != nil && !r.Terminal.possible():
		return fmt.Errorf("no terminal has %d rows and %d columns", r.Terminal.Rows, r.Terminal.Cols)
	case r.Asked < 0 || r.PID < 0 || r.Cleared < 0 || r.Cleared > r.Output.End || r.Output.End > cursorMost:
		return errors.New("a number is out of range")
	case r.Status.Final() && r.Receipt.Status() != r.Status:
		return fmt.Errorf("a job is %s, and its receipt says %q", r.Status, r.Receipt.Text())
	}
	measured := *r
	measured.Spec, measured.Result, measured.Output, measured.Unknown = Spec{}, "", output.Stat{}, nil
	b, err := json.Marshal(measured)
	if err == nil && len(b) > mirroredMost {
		err = fmt.Errorf("a record of %d bytes is too long", len(b))
	}
	return err
}

func (s Size) possible() bool { return min(s.Rows, s.Cols) >= 0 && max(s.Rows, s.Cols) <= sideMost }

// issued returns the time at which the id of the job was issued, by the clock of this machine.
func (j *Job) issued() time.Time { return ulid.Time(ulid.MustParse(j.record.ID).Time()) }

// within returns the time from..to that is nearest to t, or unknown for the zero time.
func within(t, from, to, unknown time.Time) time.Time {
	switch {
	case t.IsZero():
		return unknown
	case t.Before(from):
		return from
	case t.After(to):
		return to
	}
	return t.Local()
}

// steady returns now, or before if the two are nearly the same: the difference of two clocks is never known
// exactly, and a job in which nothing has changed must wake no caller.
func steady(before, now time.Time) time.Time {
	if d := now.Sub(before); !before.IsZero() && -time.Second < d && d < time.Second {
		return before
	}
	return now
}

// latest returns the later one of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// learn takes what a record of the running job says, and the last one as well. It reports whether the size of the
// terminal has changed. The caller holds j.mu.
func (j *Job) learn(far *Record, now time.Time) (resized bool) {
	r := &j.record
	r.Asked, r.Denied, r.PID = far.Asked, far.Denied, far.PID
	r.Answered = latest(r.Answered, steady(r.Answered, within(far.Answered, r.Created, now, r.Answered)))
	if far.Terminal == nil {
		return false
	}
	size := *far.Terminal
	if resized = j.terminal == nil; !resized {
		rows, cols := j.terminal()
		resized = size != Size{rows, cols}
	}
	j.terminal = func() (rows, cols int) { return size.Rows, size.Cols }
	return resized
}

// farOutcome returns the outcome of a job at another place, and makes the moves that come before its end. The caller
// holds j.mu.
func (j *Job) farOutcome(far *Record) Outcome {
	err := far.possible()
	moves, ok := j.record.Status.movesTo(far.Status)
	switch {
	case err != nil:
	case !far.Status.Final():
		err = fmt.Errorf("a job that has ended is %s", far.Status)
	case !ok:
		err = fmt.Errorf("a job that is %s is reported to be %s", j.record.Status, far.Status)
	default:
		for _, s := range moves[:len(moves)-1] { // the last one is the caller's
			j.moveTo(s)
		}
		return Outcome{Receipt: far.Receipt, Result: far.Result, HasResult: far.HasResult, Far: far}
	}
	return Outcome{Receipt: Receipt{End: Misreported, Detail: err.Error()}}
}

// endAs makes the times of the ended job those of far, and keeps what else only far knows. The caller holds j.mu.
func (j *Job) endAs(far *Record) {
	r, now := &j.record, j.record.Ended
	r.Created = within(far.Created, j.issued(), now, r.Created)
	r.Started = within(far.Started, r.Created, now, r.Started)
	r.Ended = within(far.Ended, latest(r.Created, r.Started), now, now)
	j.learn(far, now)
	r.Receipt.Unknown = nil
	r.ResultChars = max(r.ResultChars, far.ResultChars)
}

// MirrorDisplay adds a display of a job at another place. Its number and its line are those that it has there, and
// the line follows in the output. The bytes of its forms must not change any more.
func (p *Port) MirrorDisplay(d Display, data [][]byte) error {
	j := p.j
	if err := p.mirrorDisplay(d, data); err != nil {
		return err
	}
	p.announceLate()
	select {
	case <-j.done:
		j.saving.Lock()
		defer j.saving.Unlock()
		j.save(j.shared.store.Amend)
	default:
	}
	return nil
}

func (p *Port) mirrorDisplay(d Display, data [][]byte) error {
	j := p.j
	j.displaying.Lock()
	defer j.displaying.Unlock()
	j.settle()
	var after, size int64
	if n := len(j.displays); n > 0 {
		after = j.displays[n-1].Line.To
	}
	for _, b := range data {
		size += int64(len(b))
	}
	badType := slices.IndexFunc(d.Forms, func(f Form) bool { return !ValidType(f.MIME) })
	switch {
	case !j.away():
		return errors.New("the job runs here")
	case d.Number <= j.numbered:
		return fmt.Errorf("display %d follows display %d", d.Number, j.numbered)
	case d.Line.From < after || d.Line.To < d.Line.From || d.Line.To > cursorMost:
		return fmt.Errorf("display %d has no place in the output", d.Number)
	case len(d.Forms) == 0 || len(d.Forms) != len(data):
		return fmt.Errorf("display %d has %d forms, and data for %d", d.Number, len(d.Forms), len(data))
	case badType >= 0:
		return fmt.Errorf("display %d has a form of the type %.100q", d.Number, d.Forms[badType].MIME)
	case d.Picture && !slices.Contains(pictureTypes, d.Forms[0].MIME):
		return fmt.Errorf("display %d is no picture: its type is %q", d.Number, d.Forms[0].MIME)
	case size > displayedMost:
		return fmt.Errorf("display %d has %d bytes", d.Number, size)
	}
	j.numbered = d.Number
	if d.Line.From < j.clearAt {
		return nil // it was replaced while it was on its way
	}
	d.Forms = slices.Clone(d.Forms)
	for i, b := range data {
		d.Forms[i].Size, d.Forms[i].Attachment = len(b), j.log.Attach(b)
	}
	j.displays = append(j.displays, d)
	for _, other := range j.displays {
		size += other.size()
	}
	drop := 0
	for size -= d.size(); len(j.displays)-drop > displaysMost || size > displayedMost; drop++ {
		size -= j.displays[drop].size()
	}
	j.dropDisplays(drop)
	return nil
}

// size returns how many bytes the forms of d have.
func (d Display) size() (sum int64) {
	for _, f := range d.Forms {
		sum += int64(f.Size)
	}
	return sum
}

// arrived returns the displays whose lines are in the output. The caller holds j.displaying.
func (j *Job) arrived() []Display {
	end := j.log.Stat().End
	if n := slices.IndexFunc(j.displays, func(d Display) bool { return d.Line.To > end }); n >= 0 {
		return j.displays[:n]
	}
	return j.displays
}

// clearedTo returns the cursor of the last Clear, even if the output up to there has not come yet.
func (j *Job) clearedTo() int64 {
	j.displaying.Lock()
	defer j.displaying.Unlock()
	j.settle()
	if j.clearing {
		return j.clearAt
	}
	return j.cleared
}

// clearTo records that a job at another place has replaced its output up to a cursor.
func (j *Job) clearTo(cursor int64) {
	j.displaying.Lock()
	defer j.displaying.Unlock()
	j.settle()
	if cursor > j.cleared {
		j.clearing, j.clearAt = true, cursor
		j.errors.Restart()
		j.settle()
	}
}

// Skip records that the output up to cursor to was dropped at the job's place, and why.
func (p *Port) Skip(to int64, why output.Loss) error {
	if end := p.j.log.Stat().End; to <= end || to > cursorMost {
		return fmt.Errorf("the output can't continue at %d after %d", to, end)
	}
	p.j.log.Skip(to, why)
	p.announceLate()
	return nil
}

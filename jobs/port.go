package jobs

import (
	"context"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/callstack"
)

// A Runner does the work of one job. Run calls [Port.Admit] and [Port.Begin] when its turn has come,
// writes output as it comes, and returns when the job has ended and everything written up to then is
// in the log. When the job is asked to end, which can be before Run is called, ctx is cancelled with
// a *[Stop] as its cause. Once the job has ended, ctx is cancelled without that cause.
type Runner interface {
	Run(ctx context.Context, p *Port) Outcome
}

// A Queuer is a [Runner] whose jobs run in the order in which they were started. Queue is called
// once, before Start returns and before Run; it must not block.
type Queuer interface {
	Queue(p *Port)
}

// An Outcome is the result of a runner.
type Outcome struct {
	Receipt   Receipt
	Result    string // repr of the last expression; it becomes the end of the output
	HasResult bool

	// Far is the last record of a job that ran at another place, as [Port.Mirror] takes it. If it is set,
	// the job ends as it says, and the fields above count for nothing: the result is in the output already.
	Far *Record
	// Where says more about the place where the job has run, for its record; empty: nothing.
	Where string
	// Continues means that the job continues at another place after the end of this registry: no end
	// is saved, so that a later registry can follow it.
	Continues bool
}

// A Port is a runner's side of its job. It stays usable after Run has returned: output is then late
// output, AmendReceipt changes the receipt, and news about waiting, rungs and pids is dropped.
type Port struct{ j *Job }

// ID returns the job's ULID.
func (p *Port) ID() string { return p.j.ID() }

// Write appends to the job's output, and returns the cursor of the first byte. After the end of the
// job it is late output, which Job.Changed announces.
func (p *Port) Write(s output.Stream, b []byte) (at int64) {
	at = p.j.write(s, b)
	p.announceLate()
	return at
}

// announceLate wakes the callers that wait for late output, if the job has ended.
func (p *Port) announceLate() {
	select {
	case <-p.j.done:
		p.j.mu.Lock()
		defer p.j.mu.Unlock()
		p.j.notify()
	default:
	}
}

// Complete returns r as the job's end will record it, for a runner that keeps it, too. It fills in
// the fields that follow from the stop that was asked for and from the job's timeout.
func (p *Port) Complete(r Receipt) Receipt {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	r.complete(p.j.stop, p.j.record.Timeout)
	return r
}

// Tail returns at most n of the newest bytes of the output.
func (p *Port) Tail(n int) []byte { return output.Tail(p.j.log, n) }

// Output returns the job's output.
func (p *Port) Output() output.Reader { return p.j.log }

// Admit waits until one more job of the registry may run. A runner calls it when nothing else keeps
// the job queued and before it starts anything: a job that waits for its session must not keep
// another one from running, and a job that runs must never wait for what a queued one holds. A
// second Admit returns at once. The error is the cause of ctx, and means that the job had to wait.
func (p *Port) Admit(ctx context.Context) error { return p.j.shared.slots.await(ctx, p.j) }

// Begin makes the queued job run. A runner that hands the job on to another runner can call it
// first: a second Begin does nothing.
func (p *Port) Begin() {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.record.Status != Running && j.moveTo(Running) {
		j.shared.slots.take(j) // a job that was not admitted counts all the same
		j.notify()
	}
}

// SetWaiting makes q the open question: a program of the job waits for input.
func (p *Port) SetWaiting(q Question) {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.record.Status.Final():
		return
	case j.record.Status == WaitingInput && *j.record.Question == q:
		return
	case j.record.Status != WaitingInput && !j.moveTo(WaitingInput):
		return
	}
	j.record.Question = &q
	j.notify()
}

// SetRunning closes the open question: no program of the job waits for input any more.
func (p *Port) SetRunning() {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.record.Status == WaitingInput && j.moveTo(Running) {
		j.notify()
	}
}

// SetAccepts records which program of the running job would take input although it waits for other
// things as well. It ignores r.Since, and sets it if anything else has changed.
func (p *Port) SetAccepts(r Reader) {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Since = j.record.Accepts.Since
	if j.record.Status != Running || j.record.Accepts == r {
		return
	}
	if r.Since = (time.Time{}); r != (Reader{}) {
		r.Since = time.Now()
	}
	j.record.Accepts = r
	j.notify()
}

// SetStopped names the program of the running job that was stopped because it read the terminal in
// the background; empty: none.
func (p *Port) SetStopped(program string) {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.record.Status == Running && j.record.Stopped != program {
		j.record.Stopped = program
		j.notify()
	}
}

// SetListening records the addresses on which processes of the job listen. The caller must not
// change ls afterwards.
func (p *Port) SetListening(ls []Listener) {
	p.unlessEnded(func(j *Job) {
		j.record.Listening, j.listenSince = ls, time.Now()
		j.notify()
	})
}

// unlessEnded runs f with the job's lock held, unless the job is final.
func (p *Port) unlessEnded(f func(j *Job)) {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	if !p.j.record.Status.Final() {
		f(p.j)
	}
}

// SetPID records the process in the foreground.
func (p *Port) SetPID(pid int) { p.unlessEnded(func(j *Job) { j.record.PID = pid }) }

// SetProbe makes probe measure the processes of the running job.
func (p *Port) SetProbe(probe Probe) { p.unlessEnded(func(j *Job) { j.live.Probe = probe }) }

// A TerminalSize returns the rows and columns of a terminal, and after its end the last ones.
type TerminalSize func() (rows, cols int)

// SetTerminal records that the job has its own terminal, on which all of its output was drawn.
func (p *Port) SetTerminal(size TerminalSize) {
	p.j.mu.Lock()
	p.j.terminal = size
	p.j.mu.Unlock()
	p.j.saveSize()
}

// SetLooker makes l show where the code of the running job is.
func (p *Port) SetLooker(l callstack.Looker) { p.unlessEnded(func(j *Job) { j.live.Looker = l }) }

// SetOnLoop makes f return the addresses that an event loop serves while the code awaits.
func (p *Port) SetOnLoop(f func() []string) { p.unlessEnded(func(j *Job) { j.live.OnLoop = f }) }

// SetHolder makes f say why the running job has not ended although it was asked to.
func (p *Port) SetHolder(f Holder) { p.unlessEnded(func(j *Job) { j.live.Hold = f }) }

// SetInput makes f take the input that clients send; nil makes the job refuse input.
func (p *Port) SetInput(f InputFunc) { p.unlessEnded(func(j *Job) { j.takeInput = f }) }

// Waits reports whether the job waits for input.
func (p *Port) Waits() bool {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	return p.j.record.Status == WaitingInput
}

// Asked returns how often the job has begun to wait for input.
func (p *Port) Asked() int {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	return p.j.record.Asked
}

// Cancel asks the job to end, as [Job.Stop] does.
func (p *Port) Cancel(st Stop) { p.j.Stop(st) }

// Stop returns the stop that was asked for, as it was last raised, or nil.
func (p *Port) Stop() *Stop {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	return p.j.stop
}

// Wanted returns the rung at which the job's stop starts, as it was last raised, and a channel that
// is closed when that changes. The rung is empty if no stop was asked for. Code that climbs the
// ladder for the job takes the Port as an interface of Wanted and [Port.Trying].
func (p *Port) Wanted() (Rung, <-chan struct{}) {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.raised == nil {
		j.raised = make(chan struct{})
	}
	if j.stop == nil {
		return "", j.raised
	}
	return j.stop.From, j.raised
}

// Trying records that a rung of the ladder is about to be tried.
func (p *Port) Trying(r Rung) {
	p.unlessEnded(func(j *Job) {
		if j.record.Cancelling != r {
			j.record.Cancelling = r
			j.notify()
		}
	})
}

// A CleanupFunc ends processes that a job has left running. It starts at the rung of st. If ctx is
// done first, it returns and continues by itself.
type CleanupFunc func(ctx context.Context, st Stop) Remains

// Remains is the result of a cleanup.
type Remains struct {
	Ended, Survivors []Process
	Pending          bool  // the cleanup continues: the context was done first
	Err              error // the processes could not be checked: whether any survives is unknown
}

// SetCleanup makes f end the processes that the job leaves running, for [Job.Cleanup]; nil means
// that none is left. A job that left any is not forgotten.
func (p *Port) SetCleanup(f CleanupFunc) {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	p.j.cleanup = f
}

// Ended is closed when the job is final: AmendReceipt can be called from then on.
func (p *Port) Ended() <-chan struct{} { return p.j.Done() }

// AmendReceipt changes the receipt of the ended job, for example when a process that it left has
// ended. The receipt must still amount to the same status.
func (p *Port) AmendReceipt(f func(r *Receipt)) { p.j.amend(f) }

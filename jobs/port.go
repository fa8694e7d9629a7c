package jobs

import "context"

// A Runner does the work of one job. Run calls [Port.Begin] when its turn has
// come, writes output as it comes, and returns when the job has ended and all
// that was written up to then is in the log. ctx is cancelled, with a *[Stop] as
// its cause, when the job is asked to end, which may be before Run is called, and
// without that cause once it has ended.
type Runner interface {
	Run(ctx context.Context, p *Port) Outcome
}

// A Queuer is a [Runner] whose jobs run in the order in which they were started.
// Queue is called once, before Start returns and before Run; it must not block.
type Queuer interface {
	Queue(p *Port)
}

// An Outcome is what a runner hands back.
type Outcome struct {
	Receipt   Receipt
	Result    string // repr of the last expression
	HasResult bool
}

// A Port is a runner's side of its job. It stays usable after Run has returned:
// output is late output then, Late amends the receipt, and news about waiting,
// rungs and pids is dropped.
type Port struct{ j *Job }

// ID returns the job's ULID.
func (p *Port) ID() string { return p.j.ID() }

// Write appends to the job's output.
func (p *Port) Write(s Stream, b []byte) { p.j.log.Write(s, b) }

// Tail returns at most n of the newest bytes of the output.
func (p *Port) Tail(n int) []byte { return p.j.log.tail(n) }

// Begin tells that the job's turn has come. A runner that leaves the rest to
// another may begin first: a second Begin is nothing.
func (p *Port) Begin() {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.info.Status != Running && j.to(Running) {
		j.notify()
	}
}

// Generation names this moment in the life of the job. Take it before looking
// for what WaitsAsOf is to tell.
func (p *Port) Generation() uint64 {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	return p.j.generation
}

// Waits tells that a program of the job waits for input.
func (p *Port) Waits(q Question) {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	p.j.asks(q)
}

// WaitsAsOf tells that a program of the job was waiting at that generation. If
// the job has moved on or was given input since, that is late news: it is
// dropped, and the answer is false. Who wants to know then looks again.
func (p *Port) WaitsAsOf(generation uint64, q Question) bool {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	return generation == p.j.generation && p.j.asks(q)
}

// Runs tells that nothing of the job waits for input any more.
func (p *Port) Runs() {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.info.Status == WaitingInput && j.to(Running) {
		j.notify()
	}
}

// Accepts tells whether a program of the running job takes input, among other
// things that it waits for.
func (p *Port) Accepts(input bool) {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.info.Status == Running && j.info.Accepts != input {
		j.info.Accepts = input
		j.notify()
	}
}

// Climbs tells which rung of the ladder is being tried.
func (p *Port) Climbs(r Rung) {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.info.Status.Final() && j.info.Cancelling != r {
		j.info.Cancelling = r
		j.notify()
	}
}

// Shows tells the pid of the process in front.
func (p *Port) Shows(pid int) {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	if !p.j.info.Status.Final() {
		p.j.info.PID = pid
	}
}

// Accept tells who takes input from now on; nil: nobody.
func (p *Port) Accept(f InputFunc) {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	if !p.j.info.Status.Final() {
		p.j.accept = f
	}
}

// Cancel asks for the job's end as [Job.Stop] does.
func (p *Port) Cancel(st Stop) { p.j.Stop(st) }

// Stop returns the stop that was asked for, nil if none was, and a channel that
// is closed when one is asked for or the one there is raised.
func (p *Port) Stop() (*Stop, <-chan struct{}) {
	j := p.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.raised == nil {
		j.raised = make(chan struct{})
	}
	return j.stop, j.raised
}

// Leaves tells how to end what the job leaves running, for [Job.EndRemains]; nil
// when nothing is left. A job that leaves something is not forgotten.
func (p *Port) Leaves(end func(ctx context.Context, st Stop) (ended, survivors []Process)) {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	p.j.leaves = end
}

// Ended is closed when the job is final: Late may be called from then on.
func (p *Port) Ended() <-chan struct{} { return p.j.Done() }

// Late amends the receipt of the ended job: a process it left may have ended.
// The status that the receipt amounts to must stay what it is.
func (p *Port) Late(f func(r *Receipt)) { p.j.amend(f) }

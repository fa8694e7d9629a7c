package jobs

import "context"

// A Runner does the work of one job.
type Runner interface {
	Run(ctx context.Context, p *Port) Outcome
}

// A Port is a runner's side of its job.
type Port struct{}

// ID returns the job's ULID.
func (p *Port) ID() string { panic("skeleton") }

// Write appends to the job's output.
func (p *Port) Write(s Stream, b []byte) { panic("skeleton") }

// Tail returns the newest n bytes of the output.
func (p *Port) Tail(n int) []byte { panic("skeleton") }

// Begin tells that the job's turn has come.
func (p *Port) Begin() { panic("skeleton") }

// Waits tells that a program of the job waits for input.
func (p *Port) Waits(q Question) { panic("skeleton") }

// Generation names the present moment in the job's life, for WaitsAsOf.
func (p *Port) Generation() uint64 { panic("skeleton") }

// WaitsAsOf is Waits for news gathered when the generation was gen; it is
// dropped if the job has moved or was given input since.
func (p *Port) WaitsAsOf(gen uint64, q Question) { panic("skeleton") }

// Runs tells that nothing of the job waits for input any more.
func (p *Port) Runs() { panic("skeleton") }

// Climbs tells which rung of the ladder is being tried.
func (p *Port) Climbs(r Rung) { panic("skeleton") }

// Shows tells the pid of the process in front.
func (p *Port) Shows(pid int) { panic("skeleton") }

// Accept tells who takes input.
func (p *Port) Accept(f InputFunc) { panic("skeleton") }

// Stop returns the stop that was asked for, if any, and a channel that is
// closed when one is asked for or raised.
func (p *Port) Stop() (*Stop, <-chan struct{}) { panic("skeleton") }

// Leaves tells how to end what the job leaves running; nil when nothing is left.
func (p *Port) Leaves(end func(ctx context.Context, st Stop) (ended, survivors []Process)) {
	panic("skeleton")
}

// Late amends the receipt after the end.
func (p *Port) Late(f func(r *Receipt)) { panic("skeleton") }

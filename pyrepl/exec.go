package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"asyncrepl/internal/runner"
	"asyncrepl/internal/waiting"
	"asyncrepl/jobs"
)

// eofGrace is how long a worker whose channel has ended can take to die. After that user code has
// closed the channel, and the worker is killed.
const eofGrace = 200 * time.Millisecond

// Reasons why a worker is of no more use.
var (
	errDied          = errors.New("the worker died")
	errAlive         = errors.New("the worker could not be ended")
	errChannelClosed = errors.New("the code closed the session's channel")
)

// Exec returns the runner of one piece of code. It waits for its turn in the session.
func (s *Session) Exec(code string) jobs.Runner { return &exec{s: s, code: code} }

type exec struct {
	s    *Session
	code string
	turn *ticket
}

// Queue takes the job's place behind those that were started before it.
func (e *exec) Queue(p *jobs.Port) { e.turn = e.s.enqueue(p) }

// Run waits for the job's turn, runs the code and reports how it ended.
func (e *exec) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	if err := e.s.await(ctx, e.turn); err != nil {
		return notRun(ctx, err)
	}
	p.Begin()
	out, w := e.attempt(ctx, p, true)
	if out.Receipt.State != jobs.Lost {
		e.s.release(e.turn, "")
		return out
	}
	by := "job " + p.ID()
	rec := &out.Receipt
	if names := e.s.lastNames(); len(names) > 0 {
		rec.Notes = append(rec.Notes, lostText(names))
	}
	result := e.s.discard(w)
	rec.Survivors = runner.Processes(result.Survivors)
	rec.Rest = slices.DeleteFunc(result.Escalated, func(r jobs.Rung) bool {
		return slices.Contains(rec.Rungs, r) // it was tried on all of the tree
	})
	if result.Err != nil {
		rec.Notes = append(rec.Notes, result.Err.Error())
	}
	e.s.setNote("a new worker was started: variables were lost in " + by)
	e.s.release(e.turn, by)
	return out
}

// attempt runs the code on the session's worker. If that has died between jobs, and so has not
// begun with this one, attempt tries again on a new worker if again is true.
func (e *exec) attempt(ctx context.Context, p *jobs.Port, again bool) (jobs.Outcome, *worker) {
	w, note, err := e.s.worker(ctx, p)
	if err != nil {
		return notStarted(ctx, err), nil
	}
	p.SetPID(w.handle.PID())
	p.SetProbe(runner.Probe(w.handle))
	r := newRun(e.s, w, p)
	out := r.exec(ctx, e.code)
	if again && r.untouched && ctx.Err() == nil {
		return e.attempt(ctx, p, false) // the session sees that it is dead, and says so in a note
	}
	if note != "" {
		out.Receipt.Notes = append(out.Receipt.Notes, note)
	}
	return out, w
}

// A run is one job's turn on a worker.
type run struct {
	s *Session
	w *worker
	p *jobs.Port

	watcher   *waiting.Watcher
	earlier   map[processKey]bool // descendants of the worker when the job began
	over      chan struct{}       // closed when the code has ended or the worker is dead
	unkilled  chan struct{}       // closed when the worker could not be killed
	stopping  sync.WaitGroup      // the goroutines of a stop
	rungs     []jobs.Rung         // that the stop needed; set before stopping is done
	heard     bool                // the worker has sent an event about the job
	untouched bool                // the worker died before it had begun with the job

	// Guarded by mu.
	mu        sync.Mutex
	signalled bool            // the worker was asked for an interrupt: a sync is due
	raised    bool            // the interrupt was raised
	questions []questionEvent // that are open, the oldest first
	sent      sentAnswer      // to the question that was answered last
	reading   bool            // a program reads the terminal, and may wait for other things as well
	eofNext   bool            // the next question gets the end of file
}

func newRun(s *Session, w *worker, p *jobs.Port) *run {
	r := &run{s: s, w: w, p: p, over: make(chan struct{}), unkilled: make(chan struct{})}
	r.watcher = runner.NewWatcher(w.pty, w.handle, w.screen.Last, r.onTerminal)
	return r
}

// exec runs code until it has ended, or the worker has.
func (r *run) exec(ctx context.Context, code string) jobs.Outcome {
	r.earlier = r.w.descendants()
	pipes, err := r.w.takePipes()
	if err != nil {
		return jobs.Outcome{Receipt: jobs.Receipt{
			End: jobs.NotStarted, Detail: runner.Scarce(err).Error(), By: jobs.Unknown, State: jobs.Kept}}
	}
	r.w.serve(r.p, r.watcher.Kick)
	defer r.w.serve(r.p, func() {})
	r.w.ports.Follow(runner.ReportPorts(r.p), r.w.sockets || len(r.earlier) > 0)
	defer r.w.ports.Rest()
	if err := r.send(code, pipes); err != nil { // a command that has not arrived whole is not begun with
		pipes.close()
		r.untouched = true
		return jobs.Outcome{Receipt: r.lostReceipt(err)}
	}
	r.w.read(r.p, pipes)
	r.p.SetInput(r.input)
	stopWatcher := r.watcher.Start()
	r.w.makePipes() // while the worker is busy
	done, err := r.follow(ctx)
	close(r.over)
	stopWatcher()
	r.stopping.Wait()
	if err == nil && r.signalled {
		if err = r.w.sync(); err != nil {
			err = fmt.Errorf("after the interrupt: %w", err)
		}
	}
	r.w.drain()
	if err != nil {
		return jobs.Outcome{Receipt: r.lostReceipt(err)}
	}
	r.s.remember(r.p.ID(), done.Names)
	return r.outcome(done)
}

// send sends the worker the job, with the write ends of its pipes.
func (r *run) send(code string, pipes *jobPipes) error {
	cmd := execCommand{ID: r.p.ID(), Code: code, Fds: 2}
	defer pipes.closeWriters()
	return r.w.ch.send(cmd, pipes.out.w, pipes.errs.w)
}

// follow takes the worker's events until the job is done. An error means that the worker is dead or
// of no more use.
func (r *run) follow(ctx context.Context) (doneEvent, error) {
	stopAsked := ctx.Done()
	for {
		select {
		case ev := <-r.w.events:
			if done, ok := r.take(ev); ok {
				return done, nil
			}
		case <-stopAsked:
			stopAsked = nil
			r.stopping.Go(r.stop) // owned by exec, which waits for it; ends when the run is over, at the latest
		case <-r.w.handle.Done():
			return r.lastWords()
		case <-r.unkilled:
			return doneEvent{}, errAlive
		case <-r.w.eof:
			if r.w.awaitDeath() {
				return r.lastWords()
			}
			return doneEvent{}, errChannelClosed
		}
	}
}

// take acts on one event and reports whether it was the job's last.
func (r *run) take(ev event) (done doneEvent, ok bool) {
	if about, ok := ev.(interface{ job() string }); !ok || about.job() != r.p.ID() {
		return doneEvent{}, false // it is late: about a job that is over
	}
	r.heard = true
	switch ev := ev.(type) {
	case raisedEvent:
		r.setRaised()
	case questionEvent:
		r.ask(ev)
	case takenEvent:
		r.settle(ev.N, nil)
	case resumedEvent:
		r.resume(ev.N)
	case doneEvent:
		r.w.sockets = ev.Sockets
		return ev, true
	}
	return doneEvent{}, false
}

// lastWords takes the events that a dead worker had sent: the job can be done. The worker had not
// begun with the job if it died without having read the command, which the channel reports. Nothing
// but that command is sent until the worker has sent an event about the job. A process that the job
// left can hold the channel open.
func (r *run) lastWords() (doneEvent, error) {
	timer := time.NewTimer(eofGrace)
	defer timer.Stop()
	for {
		select {
		case ev := <-r.w.events:
			if done, ok := r.take(ev); ok {
				return done, nil
			}
		case <-r.w.eof:
			r.untouched = r.w.unread && !r.heard
			return doneEvent{}, errDied
		case <-timer.C:
			return doneEvent{}, errDied
		}
	}
}

package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/waiting"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// wordsGrace bounds the wait for what a dead worker had said.
const wordsGrace = 200 * time.Millisecond

// errAlive is the reason why a worker that can't be killed is of no more use.
var errAlive = errors.New("the worker could not be ended")

// Exec returns the runner of one piece of code. It waits for its turn in the session.
func (s *Session) Exec(code string) jobs.Runner {
	return &exec{s: s, work: worker.Work{Code: code}}
}

type exec struct {
	s        *Session
	work     worker.Work
	patience time.Duration // of a request, see Ask
	replay   *Replay       // nil: nothing runs again first
	turn     *ticket

	checkpoint bool // leave one
	begun      bool // with the work, after what runs again first
	had        int  // variables of the session before the job, also hidden ones, as last reported
}

// Queue takes the job's place behind those that were started before it.
func (e *exec) Queue(p *jobs.Port) { e.turn = e.s.enqueue(p) }

// Run waits for the job's turn, runs the code and reports how it ended.
func (e *exec) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	out := e.run(ctx, p)
	e.abandon(ctx, &out.Receipt)
	return out
}

func (e *exec) run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	if err := e.await(ctx); err != nil {
		return notRun(ctx, err)
	}
	p.Begin()
	began := time.Now()
	out, w := e.attempt(ctx, p, true)
	e.s.count(began)
	e.s.record(func(h *history) { h.end(p.Complete(out.Receipt)) })
	if e.checkpoint && !e.begun {
		out.Receipt.Checkpoint = "not kept: the code has not run"
	} else if e.checkpoint {
		out.Receipt.Checkpoint = e.s.keepCheckpoint(ctx, out.Receipt, e.turn)
	}
	rec := &out.Receipt
	alive := rec.State != jobs.Lost
	if alive && len(rec.Rungs) > 0 && e.s.resetWaits() {
		rec.State, rec.Names, rec.PendingTasks = jobs.Lost, jobs.NameChange{}, 0
	}
	if names := e.s.lastNames(); rec.State == jobs.Lost && len(names) > 0 {
		rec.Notes = append(rec.Notes, lostText(names))
	}
	if alive {
		e.s.release(e.turn, "")
		return out
	}
	by := "job " + p.ID()
	how := "could not be ended in " + by
	if w.Ended() {
		how = w.ExitText() + " in " + by
	}
	result := e.s.discard(w, how)
	rec.Survivors = runner.Processes(result.Survivors)
	rec.Rest = slices.DeleteFunc(result.Escalated, func(r jobs.Rung) bool {
		return slices.Contains(rec.Rungs, r) // it was tried on all of the tree
	})
	if result.Err != nil {
		rec.Notes = append(rec.Notes, result.Err.Error())
	}
	e.s.SetNote("a new worker was started: variables were lost in " + by)
	e.s.release(e.turn, lostIn(by))
	return out
}

// attempt runs the code on the session's worker. If that has died between jobs, and so has not
// begun with this one, attempt tries again on a new worker if again is true.
func (e *exec) attempt(ctx context.Context, p *jobs.Port, again bool) (jobs.Outcome, *worker.Worker) {
	w, note, err := e.s.worker(ctx, p)
	if err != nil {
		return notStarted(ctx, err), nil
	}
	e.had = e.s.holds()
	p.SetPID(w.Process().PID())
	p.SetProbe(runner.Probe(w.Process()))
	watch := runner.Begin()
	before, ok := e.repeat(ctx, p, w)
	if !ok {
		return before, w
	}
	e.begun = true
	r := e.newRun(w, p)
	r.mute = e.work.Request != nil
	out := r.exec(ctx, e.work)
	if r.mute && r.asked {
		out = askedForInput(out.Receipt.State)
	}
	if again && r.untouched && ctx.Err() == nil && e.replay == nil {
		return e.attempt(ctx, p, false) // the session sees that it is dead, and says so in a note
	}
	if note != "" {
		before.Receipt.Notes = append(before.Receipt.Notes, note)
	}
	out.Receipt.Notes = append(out.Receipt.Notes, before.Receipt.Notes...)
	if st := p.Stop(); e.work.Request == nil && (st == nil || st.By != jobs.Shutdown) {
		out.Receipt.Files = watch.Files(runner.Dir(w.Process(), e.s.cfg.Dir))
	}
	return out, w
}

// A run is one job's turn on a worker.
type run struct {
	s *Session
	w *worker.Worker
	p *jobs.Port

	id       string // of the job; of the earlier one, if that runs again
	had      int    // see exec
	mute     bool   // input is refused: an earlier job runs again, or something is asked of the namespace
	watcher  *waiting.Watcher
	looker   *worker.Looker
	over     chan struct{}  // closed when the code has ended or the worker is dead
	unkilled chan struct{}  // closed when the worker could not be killed
	stopping sync.WaitGroup // the goroutines of a stop

	// Set before stopping is done.
	rungs       []jobs.Rung // that the stop needed
	handlesTerm bool        // user code handles SIGTERM, which otherwise kills the worker

	heard     bool // the worker has sent an event about the job
	untouched bool // the worker died before it had begun with the job
	killed    int  // processes that the kernel killed for want of memory since the job before

	// Guarded by mu.
	mu         sync.Mutex
	signalled  bool                   // the worker was asked for an interrupt: a sync is due
	reached    bool                   // the code has had the interrupt
	ownHandler bool                   // by a handler of its own
	raises     int                    // how often it was raised since it was asked for
	raisedAt   time.Time              // the last time
	repeated   bool                   // the request for it was repeated
	spot       uint64                 // where the code was then; 0: unknown
	questions  []worker.QuestionEvent // the open ones, oldest first
	sent       sentAnswer             // to the question that was answered last
	reading    bool                   // a program reads the terminal, and may wait for other things as well
	eofNext    bool                   // the next question gets the end of file
	asked      bool                   // for input, which was refused
}

func (e *exec) newRun(w *worker.Worker, p *jobs.Port) *run {
	r := &run{s: e.s, w: w, p: p, had: e.had, id: p.ID(), over: make(chan struct{}), unkilled: make(chan struct{})}
	r.watcher = w.NewWatcher(r.onTerminal)
	return r
}

// exec does a job's work until that has ended, or the worker has.
func (r *run) exec(ctx context.Context, work worker.Work) jobs.Outcome {
	if err := r.w.Prepare(); err != nil {
		return jobs.Outcome{Receipt: jobs.Receipt{
			End: jobs.NotStarted, Detail: runner.Scarce(err).Error(), By: jobs.Unknown, State: jobs.Kept}}
	}
	if work.Changes() {
		r.s.record(func(h *history) { h.begin(r.id, work) })
	}
	r.killed = r.w.Killed()
	r.w.Begin(r.p, r.watcher.Kick)
	defer r.w.Rest()
	if err := r.w.Exec(r.id, work); err != nil {
		r.untouched = true
		return jobs.Outcome{Receipt: r.lostReceipt(err)}
	}
	r.p.SetInput(r.input)
	r.looker = r.w.Looker(r.s.code)
	r.p.SetLooker(r.looker)
	r.p.SetHolder(r.hold)
	stopWatcher := r.watcher.Start()
	r.w.Prepare() // for the next job while the worker is busy; an error: the next job tries again
	done, err := r.follow(ctx)
	close(r.over)
	stopWatcher()
	r.stopping.Wait()
	if err == nil && r.signalled {
		if err = r.w.Sync(); err != nil {
			err = fmt.Errorf("after the interrupt: %w", err)
		}
	}
	r.w.Drain()
	if err != nil {
		return jobs.Outcome{Receipt: r.lostReceipt(err)}
	}
	r.s.remember(r.p.ID(), done)
	out := r.outcome(done)
	if q := work.Request; q != nil && (q.Do == "set" || q.Do == "delete") {
		out.Receipt.Names = jobs.NameChange{} // the answer says so
	}
	return out
}

// follow takes the worker's events until the job is done. An error means that the worker is dead or
// of no more use.
func (r *run) follow(ctx context.Context) (worker.DoneEvent, error) {
	stopAsked := ctx.Done()
	for {
		select {
		case ev := <-r.w.Events():
			if done, ok := r.take(ev); ok {
				return done, nil
			}
		case <-stopAsked:
			stopAsked = nil
			r.stopping.Go(r.stop) // owned by exec, which waits for it; ends when the run is over, at the latest
		case <-r.w.Process().Done():
			return r.lastWords()
		case <-r.unkilled:
			return worker.DoneEvent{}, errAlive
		case <-r.w.Closed():
			if r.w.AwaitDeath() {
				return r.lastWords()
			}
			return worker.DoneEvent{}, worker.ErrChannelClosed
		}
	}
}

// take acts on one event and reports whether it was the job's last.
func (r *run) take(ev worker.Event) (done worker.DoneEvent, ok bool) {
	if about, ok := ev.(interface{ Job() string }); !ok || about.Job() != r.id {
		return worker.DoneEvent{}, false // it is late: about a job that is over
	}
	r.heard = true
	switch ev := ev.(type) {
	case worker.RaisedEvent:
		r.setRaised(ev)
	case worker.QuestionEvent:
		r.ask(ev)
	case worker.TakenEvent:
		r.settle(ev.N, nil)
	case worker.ResumedEvent:
		r.resume(ev.N)
	case worker.DoneEvent:
		return ev, true
	}
	return worker.DoneEvent{}, false
}

// lastWords takes the events that a dead worker had sent: the job can be done. The worker had not
// begun with the job if it died without having read the command, which the channel reports. Nothing
// but that command is sent until the worker has sent an event about the job. A process that the job
// left can hold the channel open.
func (r *run) lastWords() (worker.DoneEvent, error) {
	timer := time.NewTimer(wordsGrace)
	defer timer.Stop()
	for {
		select {
		case ev := <-r.w.Events():
			if done, ok := r.take(ev); ok {
				return done, nil
			}
		case <-r.w.Closed():
			r.untouched = r.w.Unread() && !r.heard
			return worker.DoneEvent{}, worker.ErrDied
		case <-timer.C:
			return worker.DoneEvent{}, worker.ErrDied
		}
	}
}

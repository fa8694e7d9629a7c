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

// lastEventsGrace bounds the wait for events that a worker sent before it died.
const lastEventsGrace = 200 * time.Millisecond

// errAlive means that the worker survived SIGKILL. The session stops using it.
var errAlive = errors.New("the worker could not be ended")

// Exec returns the runner of one piece of code. It waits for its turn in the session.
func (s *Session) Exec(code string) jobs.Runner {
	return &exec{s: s, work: worker.Work{Code: code}}
}

// An exec is the runner of one piece of code, of a file or of a request.
type exec struct {
	s        *Session
	work     worker.Work
	patience time.Duration // bounds a request's wait for its turn, see Ask
	replay   *Replay       // nil: nothing runs again first
	turn     *ticket

	checkpoint bool // leave a checkpoint after the job
	begun      bool // everything that runs again first has run, and then the work has begun
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
	if err := e.await(ctx, p); err != nil {
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
		rec.State, rec.Names, rec.PendingTasks, rec.LoopServers = jobs.Lost, jobs.NameChange{}, 0, nil
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
	result := e.s.discard(w, p.ID(), how)
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

// attempt runs the code on the session's worker. If the worker died before it began with this job,
// and again is true, attempt tries again on a new worker.
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
		// The caller of a request expects no question, and a job that waits for an answer would hold
		// the session.
		out = jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Raised, By: jobs.Program, State: out.Receipt.State,
			Detail: "it asked for input", Cause: jobs.NoQuestions}}
	}
	if again && r.untouched && ctx.Err() == nil && e.replay == nil {
		return e.attempt(ctx, p, false) // the session sees the dead worker, and a note says so
	}
	if note != "" {
		before.Receipt.Notes = append(before.Receipt.Notes, note)
	}
	out.Receipt.Notes = append(out.Receipt.Notes, before.Receipt.Notes...)
	if st := p.Stop(); e.work.Request == nil && (st == nil || !st.By.EndsServer()) {
		out.Receipt.Files = watch.Files(runner.Dir(w.Process(), e.s.cfg.Dir))
	}
	return out, w
}

// A run is one job's turn on a worker.
type run struct {
	s *Session
	w *worker.Worker
	p *jobs.Port

	id       string // the job's id; if an earlier job runs again, that job's id
	had      int    // see exec
	mute     bool   // refuse input, because an earlier job runs again or a request is answered
	watcher  *waiting.Watcher
	looker   *worker.Looker
	over     chan struct{}  // closed when the code has ended or the worker is dead
	unkilled chan struct{}  // closed when the worker could not be killed
	stopping sync.WaitGroup // the goroutines of a stop

	// Set before stopping is done.
	rungs       []jobs.Rung // the rungs that the stop needed
	handlesTerm bool        // user code handles SIGTERM, which otherwise kills the worker

	heard     bool // the worker has sent an event about the job
	untouched bool // the worker died before it had begun with the job
	killed    int  // processes that the kernel killed, out of memory, since the job before

	// Guarded by mu.
	mu         sync.Mutex
	signalled  bool                   // the worker was asked for an interrupt: a sync is due
	reached    bool                   // the code has had the interrupt
	reported   int64                  // interrupts that were reported before the last request
	ownHandler bool                   // the code's own SIGINT handler took the interrupt
	raises     int                    // KeyboardInterrupts since the last request for one
	raisedAt   time.Time              // the time of the last KeyboardInterrupt
	repeated   bool                   // the request for the interrupt was repeated
	spot       uint64                 // the instruction of the code at that repetition; 0: unknown
	questions  []worker.QuestionEvent // the open ones, oldest first
	sent       sentAnswer             // the last answer that was sent
	reading    bool                   // a program reads the terminal, and may wait for more
	eofNext    bool                   // the next question gets the end of file
	asked      bool                   // the code asked for input and was refused
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
	r.looker = r.w.Looker(work.File(), r.s.code)
	r.p.SetLooker(r.looker)
	r.p.SetHolder(r.hold)
	r.p.SetOnLoop(r.w.OnLoop)
	stopWatcher := r.watcher.Start()
	// The next job's pipes are opened while the worker is busy. After an error that job tries again.
	r.w.Prepare()
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
			return r.lastEvents()
		case <-r.unkilled:
			return worker.DoneEvent{}, errAlive
		case <-r.w.Closed():
			if r.w.AwaitDeath() {
				return r.lastEvents()
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

// lastEvents takes the events that the worker sent before it died. One of them can say that the job
// is done. If the worker died before it read the command, it has not begun with the job: the
// channel reports unread commands, and until the worker's first event about a job Go sends only the
// job's command. A process that the job left can hold the channel open, so the wait is bounded.
func (r *run) lastEvents() (worker.DoneEvent, error) {
	timer := time.NewTimer(lastEventsGrace)
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

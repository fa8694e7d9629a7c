package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/waiting"
	"asyncrepl/jobs"
)

// eofTime is how long a worker whose channel has ended may take to die before
// it is ended: user code closed the channel, and the process lives on.
const eofTime = 200 * time.Millisecond

// errChannelClosed says that user code closed the descriptor of the channel.
var errChannelClosed = errors.New("the code closed the session's channel")

// Exec returns the runner of one piece of code. It waits for its turn in the
// session.
func (s *Session) Exec(code string) jobs.Runner { return &exec{s: s, code: code} }

type exec struct {
	s    *Session
	code string
	turn *ticket
}

// Queue takes the job's place behind those that were started before it.
func (e *exec) Queue(p *jobs.Port) { e.turn = e.s.enqueue(p) }

// Run waits for the job's turn, runs the code and says how it ended.
func (e *exec) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	t := e.turn
	if err := e.s.await(ctx, t); err != nil {
		return notRun(ctx, err)
	}
	p.Begin()
	out, w := e.attempt(ctx, p, true)
	if out.Receipt.State != jobs.Lost {
		e.s.release(t, "")
		return out
	}
	lost := "job " + p.ID()
	result := e.s.bury(w)
	out.Receipt.Survivors = runner.Processes(result.Survivors)
	out.Receipt.Rest = slices.DeleteFunc(result.Escalated, func(r jobs.Rung) bool {
		return slices.Contains(out.Receipt.Rungs, r) // it was tried on all of them
	})
	if result.Err != nil {
		out.Receipt.Notes = append(out.Receipt.Notes, result.Err.Error())
	}
	e.s.tell("a new worker was started: variables were lost in " + lost)
	e.s.release(t, lost)
	return out
}

// attempt runs the code on the session's worker. One that turns out to be dead
// before it has begun with the job, because it died between jobs, is replaced if
// again is true.
func (e *exec) attempt(ctx context.Context, p *jobs.Port, again bool) (jobs.Outcome, *worker) {
	w, note, err := e.s.worker(ctx, p)
	if err != nil {
		return notStarted(ctx, err), nil
	}
	p.SetPID(w.handle.PID())
	p.SetProbe(runner.Probe(w.handle))
	r := newRun(e.s, w, p)
	rec, result := r.exec(ctx, e.code)
	if again && r.untouched && ctx.Err() == nil {
		return e.attempt(ctx, p, false) // the next look finds it dead and says so
	}
	if note != "" {
		rec.Notes = append(rec.Notes, note)
	}
	out := jobs.Outcome{Receipt: rec}
	if result != nil {
		out.Result, out.HasResult = *result, true
	}
	return out, w
}

// tell keeps what the next job is to be told.
func (s *Session) tell(news string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = news
}

// notRun is the outcome of a job whose turn did not come.
func notRun(ctx context.Context, err error) jobs.Outcome {
	rec := jobs.Receipt{End: jobs.NotRun, By: jobs.Unknown, Detail: err.Error()}
	var st *jobs.Stop
	if lost := (*lostError)(nil); errors.As(err, &lost) {
		rec.Detail = strings.TrimPrefix(rec.Detail, "not run: ")
	} else if errors.As(context.Cause(ctx), &st) {
		rec.Stop, rec.By, rec.Detail = st, st.By, ""
	}
	return jobs.Outcome{Receipt: rec}
}

// notStarted is the outcome of a job that found no worker.
func notStarted(ctx context.Context, err error) jobs.Outcome {
	rec := jobs.Receipt{End: jobs.NotStarted, By: jobs.Unknown, Detail: err.Error()}
	var st *jobs.Stop
	if errors.As(context.Cause(ctx), &st) {
		rec.Stop, rec.By = st, st.By
	}
	return jobs.Outcome{Receipt: rec}
}

// A run is one job's turn on a worker.
type run struct {
	s *Session
	w *worker
	p *jobs.Port

	over    chan struct{} // closed when the code has ended or the worker is dead
	stuck   chan struct{} // closed when the ladder has been climbed in vain
	earlier map[procKey]bool
	watcher *waiting.Watcher
	nudging sync.WaitGroup

	heard     bool // the worker has said something about the job
	untouched bool // the worker died before it had begun with the job

	// Guarded by mu. What the job waits for is changed in one place, ask.
	mu        sync.Mutex
	signalled bool            // an interrupt was sent: a sync is due
	raised    bool            // and it was raised
	questions []questionEvent // that are open over the channel, the oldest first
	atTTY     bool            // a program reads the terminal
	eofNext   bool            // the answer said that nothing follows it
}

func newRun(s *Session, w *worker, p *jobs.Port) *run {
	r := &run{s: s, w: w, p: p, over: make(chan struct{}), stuck: make(chan struct{})}
	r.watcher = runner.NewWatcher(w.pty, w.handle, w.screen.Last, r.onTerminal)
	return r
}

// exec runs code to its end, whichever that is.
func (r *run) exec(ctx context.Context, code string) (rec jobs.Receipt, result *string) {
	descendants, _ := r.w.handle.Descendants() // an error: an interrupt may reach a child of an earlier job
	r.earlier = keys(descendants)
	out, errs, err := r.w.pipes(r.p)
	if err != nil {
		return jobs.Receipt{End: jobs.NotStarted, Detail: runner.Scarce(err).Error(), By: jobs.Unknown, State: jobs.Kept}, nil
	}
	r.w.serve(r.p, r.watcher.Kick)
	defer r.w.serve(r.p, func() {})
	fresh, paths := r.s.refreshed()
	err = r.w.ch.send(execCommand{ID: r.p.ID(), Code: code, Fds: 2, Fresh: fresh, Paths: paths}, out, errs)
	out.Close()
	errs.Close()
	if err != nil { // what did not reach it whole was not begun with
		r.untouched = true
		return r.death(err, nil), nil
	}
	r.p.SetInput(r.input)
	stopWatcher := r.watcher.Start()
	ladder := r.startLadder(ctx)
	done, err := r.follow()
	close(r.over)
	stopWatcher()
	rungs := ladder()
	r.nudging.Wait()
	if err == nil && r.signalled {
		if err = r.w.sync(); err != nil {
			err = fmt.Errorf("after the interrupt: %w", err)
		}
	}
	r.w.drain()
	if err != nil {
		return r.death(err, rungs), nil
	}
	rec = r.receipt(done, rungs)
	r.s.remember(r.p.ID(), done.Names)
	return rec, resultText(done)
}

// resultText is the result of a job with what the worker left out of it.
func resultText(done doneEvent) *string {
	if done.Result == nil || done.ResultCut == 0 {
		return done.Result
	}
	text := fmt.Sprintf("%s… (%d more characters)", *done.Result, done.ResultCut)
	return &text
}

// follow takes the worker's events until the job is done. An error means that
// the worker is dead or of no more use.
func (r *run) follow() (doneEvent, error) {
	for {
		select {
		case ev := <-r.w.events:
			if done, ok := r.take(ev); ok {
				return done, nil
			}
		case <-r.w.handle.Done():
			return r.lastWords()
		case <-r.stuck:
			return doneEvent{}, errAlive
		case <-r.w.eof:
			timer := time.NewTimer(eofTime)
			defer timer.Stop()
			select {
			case <-r.w.handle.Done():
				return r.lastWords()
			case <-timer.C:
				return doneEvent{}, errChannelClosed
			}
		}
	}
}

// take acts on one event and reports whether it was the job's last.
func (r *run) take(ev event) (done doneEvent, ok bool) {
	if about, ok := ev.(interface{ job() string }); !ok || about.job() != r.p.ID() {
		return doneEvent{}, false // late news of a job that is over
	}
	r.heard = true
	switch ev := ev.(type) {
	case raisedEvent:
		r.noteRaised()
	case questionEvent:
		r.ask(ev)
	case resumedEvent:
		r.resume(ev.N)
	case doneEvent:
		return ev, true
	}
	return doneEvent{}, false
}

// lastWords takes the events that a dead worker had sent: the job may be done. The worker had not
// begun with the job if it died without having read the command, which the channel reports. Until
// the worker has said something about the job, nothing but that command is sent. A process that the
// job left may hold the channel open.
func (r *run) lastWords() (doneEvent, error) {
	timer := time.NewTimer(eofTime)
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

var (
	errDied  = errors.New("the worker died")
	errAlive = errors.New("the worker could not be ended")
)

// receipt says how code that ran to an end of its own ended.
func (r *run) receipt(done doneEvent, rungs []jobs.Rung) jobs.Receipt {
	rec := jobs.Receipt{State: jobs.Kept, By: jobs.Program, Rungs: rungs, PendingTasks: done.Pending}
	switch done.End {
	case "exit":
		rec.End, rec.Code, rec.Detail = jobs.Exited, done.Code, jobs.SysExit
	case "raised":
		rec.End, rec.Detail = jobs.Raised, done.Error
		if detail, ok := strings.CutPrefix(done.Error, "MemoryError"); ok && (detail == "" || detail[0] == ':') {
			rec.End, rec.Detail = jobs.OutOfMemory, strings.TrimPrefix(detail, ": ")
		}
	default:
		rec.End = jobs.Returned
	}
	if st := r.p.Stop(); st != nil && done.Interrupted {
		rec.Stop, rec.By = st, st.By
	}
	return rec
}

// death says how the worker ended, having been ended if need be.
func (r *run) death(cause error, rungs []jobs.Rung) jobs.Receipt {
	rec := jobs.Receipt{State: jobs.Lost, Rungs: rungs}
	if cause != errAlive && !runner.Ended(r.w.handle) {
		r.w.handle.Stop(process.Ladder{From: jobs.Kill})
		rec.Notes = append(rec.Notes, cause.Error()+"; its worker was ended")
	}
	r.w.drain()
	exit := runner.ExitReceipt(r.w.handle)
	rec.End, rec.Code, rec.Signal, rec.By = exit.End, exit.Code, exit.Signal, exit.By
	if rec.End == jobs.Alive {
		if rec.Stop = r.p.Stop(); rec.Stop != nil {
			rec.By = rec.Stop.By
		}
		return rec
	}
	if errors.Is(cause, errChannelClosed) {
		rec.By = jobs.Program
	}
	if st := r.p.Stop(); st != nil && len(rungs) > 0 {
		rec.Stop, rec.By = st, st.By
	}
	return rec
}

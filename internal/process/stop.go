//go:build unix

package process

import (
	"cmp"
	"context"
	"slices"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/process/procset"
)

var rungs = []ladder.Rung{ladder.Interrupt, ladder.Terminate, ladder.Kill}

// A Ladder configures how Stop escalates.
type Ladder struct {
	Over      <-chan struct{} // closed when the code or program to stop has ended; nil: Handle.Done
	Exit      time.Duration   // how long a leader that was asked to exit has before the first rung
	From      ladder.Rung     // the first rung; empty: Interrupt
	Step      time.Duration   // the time between two rungs; 0: 5 s
	Interrupt func() error    // nil: Handle.Interrupt
	Keep      bool            // spare the rest of the tree if Over is closed before Kill is tried
	Requests  Requests        // nil: none

	// Hold reports whether no higher rung than the present one may be tried without a caller that
	// wants it. Stop asks it when a step is over and whenever Requests change. Nil: never.
	Hold func() bool
}

// Requests are the wishes of the callers that want a stop: they say which rung is wanted, and are
// notified of each rung that is tried.
type Requests interface {
	// Wanted returns the lowest rung that is wanted now, and a channel that is closed when that
	// changes.
	Wanted() (ladder.Rung, <-chan struct{})

	// Trying is called before each rung is tried.
	Trying(ladder.Rung)
}

// noRequests are the Requests of a Ladder without any.
type noRequests struct{}

func (noRequests) Wanted() (ladder.Rung, <-chan struct{}) { return "", nil }
func (noRequests) Trying(ladder.Rung)                     {}

const (
	defaultStep    = 5 * time.Second
	remainingGrace = time.Second // the time between terminate and kill if the leader has ended
)

// A StopResult is the outcome of a stop.
type StopResult struct {
	Needed    []ladder.Rung    // the rungs tried until Over was closed, from the mildest
	Escalated []ladder.Rung    // the further rungs tried to end the rest of the tree
	Survivors []procfs.Process // processes that could not be ended
	Err       error            // the tree could not be checked: there can be more survivors
}

// Stop ends h. If Ladder.Exit is set, it first waits that long for the leader to exit, and
// terminates only the rest of the tree. Then it interrupts the leader, terminates the tree after a
// step, and kills the tree after another. When Over is closed, it terminates the rest of the tree,
// and kills it after a second. The kill takes two seconds at most. Stop returns when no process of
// the tree is left, or with the survivors, and says which rungs were needed.
func (h *Handle) Stop(l Ladder) (result StopResult) {
	if l.Over == nil {
		l.Over = h.done
	}
	if l.Step == 0 {
		l.Step = defaultStep
	}
	if l.Interrupt == nil {
		l.Interrupt = h.Interrupt
	}
	if l.Requests == nil {
		l.Requests = noRequests{}
	}
	if !l.Keep {
		reaper.mu.Lock()
		h.stopping = true
		reaper.mu.Unlock()
	}
	if l.Exit > 0 {
		h.awaitExit(l.Exit)
	}
	wanted, _ := l.Requests.Wanted()
	// An empty rung has the index -1.
	rung := max(slices.Index(rungs, l.From), slices.Index(rungs, wanted), 0)
	for ; !over(l.Over); rung = h.nextRung(&l, rung) {
		result.Needed = append(result.Needed, rungs[rung])
		l.Requests.Trying(rungs[rung])
		switch rungs[rung] {
		case ladder.Interrupt:
			l.Interrupt() // an error: it is over, or the next rung will show
		case ladder.Terminate:
			es, _ := h.scan() // an error: the next rung finds the others
			procset.Terminate(es)
		case ladder.Kill:
			result.Survivors, result.Err = h.kill()
			return result
		}
	}
	if !l.Keep {
		h.stopRemaining(&result, rungs[rung], l.Requests.Trying)
	}
	return result
}

// awaitExit waits until the leader has exited, but no longer than limit. If the leader has not
// exited after aloneFor, awaitExit terminates the rest of the tree.
func (h *Handle) awaitExit(limit time.Duration) {
	alone := aloneFor(limit)
	select {
	case <-h.done:
		return
	case <-time.After(alone):
	}
	es, _ := sparing(h.scan, h).Scan() // an error: the first rung finds the others
	procset.Terminate(es)
	select {
	case <-h.done:
	case <-time.After(limit - alone):
	}
}

// aloneFor returns how long a leader that has limit to exit keeps its children. The leader can end
// them in its own way, and a child that is killed earlier can leave a lock that the leader needs.
func aloneFor(limit time.Duration) time.Duration { return min(limit/3, 300*time.Millisecond) }

// sparing returns the set that scan finds, without the leaders of hs.
func sparing(scan func() ([]procfs.Stat, error), hs ...*Handle) procset.Set {
	leaders := make(map[int]bool, len(hs))
	for _, h := range hs {
		leaders[h.self.PID] = true
	}
	return reaper.set(scan).Sparing(leaders)
}

// stopRemaining ends the remaining processes of the tree, beginning with from or Terminate,
// whichever is higher. First it gives processes that can still die of the signals sent so far a
// moment to do so, because they need no higher rung then.
func (h *Handle) stopRemaining(result *StopResult, from ladder.Rung, report func(ladder.Rung)) {
	if h.awaitDying(result.Needed) {
		return
	}
	try := func(r ladder.Rung) {
		if !slices.Contains(result.Needed, r) {
			result.Escalated = append(result.Escalated, r)
			report(r)
		}
	}
	if from == ladder.Kill {
		try(ladder.Kill)
		result.Survivors, result.Err = h.kill()
		return
	}
	result.Survivors, result.Err = h.remaining().TerminateThenKill(h.owner.remaining, try)
}

// kill ends the complete tree of h.
func (h *Handle) kill() (survivors []procfs.Process, err error) {
	h.killedByUs.Store(true)
	survivors, err = h.remaining().Kill()
	if len(survivors) == 0 && err == nil {
		<-h.done // it has been reaped
	}
	return survivors, err
}

// awaitDying waits for the processes of the tree that can still die of the rungs tried or of the
// hangup at the leader's end: up to 50 ms, and longer for processes that surely will. It reports
// whether no process of the tree is left.
func (h *Handle) awaitDying(tried []ladder.Rung) bool {
	dying := func(e procfs.Stat) bool {
		switch {
		case h.undecided(e):
			return true
		case slices.Contains(tried, ladder.Terminate): // it went to the whole tree
			return procset.DiesOf(e.PID, syscall.SIGTERM)
		// The interrupt usually went to the leader's group.
		case slices.Contains(tried, ladder.Interrupt) && e.Group == h.self.PID:
			return procset.DiesOf(e.PID, syscall.SIGINT)
		}
		return false
	}
	begin := time.Now()
	for p := procset.Pause(0); !h.remaining().Empty(); p.Sleep() {
		es, err := h.members()
		if h.worthWaiting(es, dying, begin) || err != nil && time.Since(begin) <= h.owner.settle {
			continue
		}
		return false
	}
	return true
}

// nextRung waits until Over or until the next rung is due, and returns that rung. The caller checks
// Over.
func (h *Handle) nextRung(l *Ladder, rung int) int {
	timer := time.NewTimer(l.Step)
	defer timer.Stop()
	due := false
	var again procset.Reminder // never due
	if rungs[rung] == ladder.Terminate {
		again = procset.NewReminder()
	}
	for {
		r, changed := l.Requests.Wanted()
		if i := slices.Index(rungs, r); i > rung {
			return i
		}
		if due && (l.Hold == nil || !l.Hold()) {
			return rung + 1
		}
		select {
		case <-l.Over:
			return rung
		case <-timer.C:
			due = true
		case <-again.Due():
			es, _ := h.scan()
			again.Remind(es)
		case <-changed:
		}
	}
}

func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const (
	// shutdownGrace is the time that processes have to end by themselves before Shutdown kills
	// them.
	shutdownGrace = 150 * time.Millisecond

	// shutdownLimit is the time after which Shutdown leaves the remaining processes to the guard.
	// It is less than the promised 350 ms because one more scan can follow, a long one with a
	// thousand processes.
	shutdownLimit = 310 * time.Millisecond

	// ExitGrace is how long Shutdown spares the leaders that have been asked to exit.
	ExitGrace = 250 * time.Millisecond
)

// LetExit makes Shutdown spare the leader, which is about to be asked to exit, for ExitGrace. The
// rest of the tree is ended meanwhile.
func (h *Handle) LetExit() { h.exiting.Store(true) }

// Shutdown ends the trees of all processes that o started, and refuses new starts. It returns when
// no process is left, within 350 ms. The guard, which ends last, kills any that remain then.
func (o *Owner) Shutdown() {
	reaper.steps.Lock() // a process that is being started is in the table before the first scan
	closed := o.closed.Swap(true)
	reaper.steps.Unlock()
	if closed {
		return
	}
	begin := time.Now()
	exiting, others := o.exiting()
	alone := slices.Clone(exiting)
	spare := sparing(o.scan, exiting...)
	es, _ := o.scanTrees(others) // an error: the scans below find the others
	end := func(es []procfs.Stat) { procset.SendGroups(es, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGCONT) }
	end(es)
	for p := procset.Pause(0); time.Since(begin) < o.grace && !spare.Empty(); p.Sleep() {
		late := time.Since(begin) >= aloneFor(o.exit)
		alone = slices.DeleteFunc(alone, func(h *Handle) bool {
			if !late && !over(h.done) {
				return false
			}
			es, _ := sparing(h.members, exiting...).Scan()
			end(es)
			return true
		})
	}
	for _, h := range o.handles() {
		h.killedByUs.Store(true)
	}
	if len(exiting) > 0 {
		late, cancel := context.WithDeadline(context.Background(), begin.Add(o.exit))
		defer cancel()
		spare.KillUntil(begin.Add(o.exit)) // survivors and errors: the next one finds them
		for _, h := range exiting {
			select {
			case <-h.done:
			case <-late.Done():
			}
		}
	}
	left, err := reaper.set(o.scan).KillUntil(begin.Add(o.limit))
	switch {
	case err != nil:
		o.config.Log.Warn("shutdown: the remaining processes could not be checked", "error", err)
	case len(left) > 0:
		o.config.Log.Warn("shutdown: processes remain", "processes", left)
	}
	o.guard.closeSparing(reaper, err == nil && len(left) == 0 && reaper.adopts)
	o.null.Close()
	reaper.leave()
}

// handles returns the handles of o with a tree that is not proven gone.
func (o *Owner) handles() []*Handle {
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	var hs []*Handle
	for h := range reaper.handles {
		if h.owner == o {
			hs = append(hs, h)
		}
	}
	return hs
}

// exiting returns the handles of o whose leaders Shutdown spares, and the others.
func (o *Owner) exiting() (exiting, others []*Handle) {
	for _, h := range o.handles() {
		if h.exiting.Load() {
			exiting = append(exiting, h)
		} else {
			others = append(others, h)
		}
	}
	return exiting, others
}

// scan returns the processes that o must end: the trees of its handles, and the unattributed
// orphans that no running job of another Owner is a candidate for.
func (o *Owner) scan() ([]procfs.Stat, error) { return o.scanTrees(o.handles()) }

// scanTrees is scan for the trees of hs alone.
func (o *Owner) scanTrees(hs []*Handle) ([]procfs.Stat, error) {
	err := reaper.scan()
	es, walkErr := walk(0, reaper.unattributed(func(p *orphan) bool { return !p.sparedBy(o) }))
	err = cmp.Or(err, walkErr)
	for _, h := range hs {
		tree, treeErr := h.members()
		es, err = append(es, tree...), cmp.Or(err, treeErr)
	}
	return es, err
}

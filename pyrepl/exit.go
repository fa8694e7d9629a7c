package pyrepl

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"

	"asyncrepl/internal/process"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// An idle worker is asked to exit as Python does: it runs its atexit handlers
// (https://docs.python.org/3/library/atexit.html) and flushes its open files. If it takes too long
// it is killed, and a note says so.

// exitNote says what a worker that was asked to exit may have left undone, or "" if it exited by
// itself. needed are the rungs that ended it.
func exitNote(w *worker.Worker, needed []jobs.Rung) string {
	how := ""
	switch {
	case len(needed) > 0:
		how = "did not exit within " + resetStep.String()
	case w.Process().Exit().Signal != 0:
		how = w.ExitText() + " while it exited"
	default:
		return ""
	}
	return "Python " + how + ": atexit handlers may not have run, and open files may lack what was written last"
}

// LetExit asks the workers of the idle sessions to exit, the ones used last first, while
// process.Owner.Shutdown ends everything else. It returns at once, and these sessions run no more
// jobs. The function it returns waits until the workers have exited or process.ExitGrace is over,
// and returns the names of the sessions whose exit was cut off.
func LetExit(sessions []*Session) (wait func() (cut []string)) {
	over, cancel := context.WithTimeout(context.Background(), process.ExitGrace)
	var idle []*exit
	for _, s := range sessions {
		if w := s.take(); w != nil {
			w.Process().LetExit()
			idle = append(idle, &exit{s.name, w, w.LastJob()})
		}
	}
	slices.SortFunc(idle, func(a, b *exit) int { return cmp.Compare(b.lastJob, a.lastJob) })
	next := make(chan *exit, len(idle))
	for _, e := range idle {
		next <- e
	}
	close(next)
	var asking sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) { // more at once would only slow each other down
		asking.Go(func() { // owned by wait; ends when the workers have exited or the grace is over
			for e := range next {
				e.run(over)
			}
		})
	}
	return func() (cut []string) {
		defer cancel()
		asking.Wait()
		for _, e := range idle {
			if !e.w.Ended() || e.w.Process().Exit().Signal != 0 {
				cut = append(cut, e.session)
			}
		}
		return cut
	}
}

// An exit is an idle worker that must exit.
type exit struct {
	session string
	w       *worker.Worker
	lastJob string // the id of the worker's last job; ids sort by time
}

// run asks the worker to exit and waits until it has, or until over is done.
func (e *exit) run(over context.Context) {
	if over.Err() != nil || !e.w.AskExit() {
		return
	}
	select {
	case <-e.w.Process().Done():
	case <-over.Done():
	}
}

// take takes the turn of an idle session for good and returns its worker. It returns nil if the
// session is busy or has no worker alive.
func (s *Session) take() *worker.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil || s.w == nil || s.w.Ended() {
		return nil
	}
	s.turn = &ticket{}
	return s.w
}

package place

import (
	"io"
	"slices"
	"sync"

	"asyncrepl/jobs"
)

// Threads and tasks of Python print after the end of their job, and nothing says when they are done. The engine
// names the jobs with such output, and their mirrors follow these again.

// lateMost is how many ended jobs of a host can be followed again: as many as the engine there remembers.
const lateMost = 1000

// lateJobs are the mirrors of the jobs of Python that have ended last at a host.
type lateJobs struct {
	mu      sync.Mutex
	mirrors []*mirror
}

// add adds the mirror of a job that has ended.
func (l *lateJobs) add(m *mirror) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mirrors = append(l.mirrors, m)
	if len(l.mirrors) > lateMost {
		l.mirrors = slices.Delete(l.mirrors, 0, 1)
	}
}

// find returns the mirror of an ended job, or nil.
func (l *lateJobs) find(id string) *mirror {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range slices.Backward(l.mirrors) {
		if m.port.ID() == id {
			return m
		}
	}
	return nil
}

// followLate follows the jobs that print after their end, until the link is lost.
func (h *host) followLate(l *link) {
	l.client.Late(h.ctx, func(id string, end int64) { // an error: the link is lost, or the engine lies
		if m := h.late.find(id); m != nil {
			m.followAgain(end)
		}
	})
}

// followAgain follows the ended job up to the end of its output, if that is not being done.
func (m *mirror) followAgain(end int64) {
	here := m.port.Output().Stat().End
	m.mu.Lock()
	m.lateEnd = max(m.lateEnd, end)
	follow := !m.resting && m.lateEnd > here
	m.resting = m.resting || follow
	m.mu.Unlock()
	if follow && !m.host.launch(m.followRest) {
		m.rested(false)
	}
}

// rested notes that the ended job is not followed any more. It reports false if it is still to be followed: with
// again, because there is more output by now.
func (m *mirror) rested(again bool) bool {
	here := m.port.Output().Stat().End
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resting = again && m.lateEnd > here
	return !m.resting
}

// followRest follows a job that has ended and left processes, until none is left.
func (m *mirror) followRest() {
	<-m.port.Ended() // it has no receipt before that
	for !m.rested(m.followRestOnce()) {
	}
}

// followRestOnce follows the ended job until its life is complete, which it reports.
func (m *mirror) followRestOnce() (complete bool) {
	defer m.port.SetCleanup(nil)
	amend := func(r *jobs.Record) {
		m.port.AmendReceipt(func(to *jobs.Receipt) {
			if r.Receipt.Status() == to.Status() {
				*to = r.Receipt
			}
		})
	}
	for m.host.ctx.Err() == nil {
		l, era, err := m.host.await(m.host.ctx, false, true)
		if err != nil {
			return false
		}
		if _, err = m.watch(l, era, amend); err == io.EOF {
			return true
		} else if isRefused(err) || isLie(err) || era.Err() != nil {
			return false
		}
		l.awaitRetry(m.host.ctx)
	}
	return false
}

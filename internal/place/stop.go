package place

import (
	"context"
	"time"

	"asyncrepl/jobs"
)

// stopTime bounds the time that a stop takes to be delivered, and killTime how long a job lives that was killed there:
// its engine reports an end earlier, also of a process that can't be killed.
const (
	stopTime = 3 * time.Second
	killTime = time.Minute
)

// forwardStops passes the stops of the job on to its engine, until the job has ended here.
func (m *mirror) forwardStops(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-m.run.Done():
		return
	}
	var delivered, last jobs.Stop
	var since time.Time // when the rung of last was raised
	pause := retryWait  // while the engine refuses it
	for {
		rung, raised := m.port.Wanted()
		st := m.port.Stop()
		if st == nil { // the job has ended
			return
		}
		if m.unsent() || st.By.EndsServer() && m.start.Keep { // it continues after the end of this server
			return
		}
		if *st != last {
			m.host.current() // it is a call for the place
			last, since, pause = *st, time.Now(), retryWait
		}
		connected := m.host.connected() != nil
		if *st != delivered {
			if m.deliver(*st) {
				delivered = *st
			} else if m.startLost() || rung == jobs.Kill && (!connected || time.Since(since) >= stopTime) {
				m.giveUp()
				return
			}
		}
		var again <-chan time.Time
		switch left := time.Until(since.Add(killTime)); {
		case *st != delivered && connected:
			again, pause = time.After(pause), min(2*pause, mostWait)
		case *st != delivered:
			again = time.After(retryWait)
		case rung == jobs.Kill && left > 0:
			again = time.After(left)
		case rung == jobs.Kill && !connected:
			m.giveUp()
			return
		case rung == jobs.Kill && !m.endedThere():
			m.end(errUnkilled)
			return
		}
		select {
		case <-raised:
		case <-again:
		case <-m.run.Done():
			return
		}
	}
}

// unsent ends a job that was not sent to its engine, and reports whether it did.
func (m *mirror) unsent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sent || m.known {
		return false
	}
	m.end(errNotRun)
	return true
}

// endedThere reports whether the job has ended there, and its output is still on the way.
func (m *mirror) endedThere() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.behind > 0
}

// startLost reports whether the answer to the start was lost with the link: it is not known whether the job has
// started.
func (m *mirror) startLost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent && !m.known && m.host.connected() == nil
}

// deliver asks the engine to stop the job, and reports whether it has answered.
func (m *mirror) deliver(st jobs.Stop) bool {
	l := m.host.connected()
	if l == nil {
		return false
	}
	if m.start.Kind == jobs.Python && st.By.EndsServer() && st.From != jobs.Kill {
		// The job's session can be kept there, with its variables. If it is not, host.goodbye or host.trim ends it.
		st.From, st.Spare = jobs.Interrupt, true
	}
	ctx, cancel := context.WithTimeout(m.run, stopTime)
	defer cancel()
	return l.client.Stop(ctx, m.port.ID(), st) == nil
}

// giveUp ends the job here. It is ended there when the place is back.
func (m *mirror) giveUp() {
	h := m.host
	h.mu.Lock()
	h.stops = append(h.stops, m)
	h.recheck()
	h.mu.Unlock()
	m.end(errGivenUp)
}

// amend makes the receipt of a job that was given up say what has become of it.
func (h *host) amend(m *mirror, fate string) {
	<-m.port.Ended() // it has no receipt before that
	m.port.AmendReceipt(func(r *jobs.Receipt) { r.Detail = givenUp(h.place.Name) + fate })
}

// givenUp returns the first words of the receipt of a job that was given up.
func givenUp(place string) string { return "given up while " + place + " was out of reach; " }

// deliverStops ends the jobs there that were given up here.
func (h *host) deliverStops(l *link) {
	for {
		h.mu.Lock()
		if len(h.stops) == 0 {
			h.mu.Unlock()
			return
		}
		next := h.stops[0]
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(h.ctx, stopTime)
		err := l.client.Stop(ctx, next.port.ID(), jobs.Stop{By: jobs.Agent, From: jobs.Kill})
		cancel()
		if err != nil && !isRefused(err) {
			return // the link is lost or slow: it is delivered later
		}
		fate := "ended there when it was back"
		if err != nil {
			fate = "it had not started there, or had ended"
		}
		h.amend(next, fate)
		h.mu.Lock()
		h.stops = h.stops[1:]
		h.mu.Unlock()
	}
}

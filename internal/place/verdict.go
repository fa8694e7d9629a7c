package place

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"asyncrepl/internal/place/far"
	"asyncrepl/jobs"
)

// verdict returns the receipt of a job that can't be followed any more because of err, or nil if the
// next link may have more.
func (m *mirror) verdict(l *link, err error) *jobs.Receipt {
	m.mu.Lock()
	known := m.known
	m.mu.Unlock()
	lost := m.engineLost()
	ended, _ := errors.AsType[*engineLost](err)
	cause := context.Cause(m.run)
	refused, _ := errors.AsType[*far.Refused](err)
	switch {
	case cause == errNotRun:
		return &jobs.Receipt{End: jobs.NotRun, Stop: m.port.Stop()}
	case cause == errGivenUp:
		return &jobs.Receipt{End: jobs.PlaceLost, Stop: m.port.Stop(), Detail: givenUp(m.host.place.Name) + "it may still run there"}
	case cause == errUnkilled:
		return &jobs.Receipt{End: jobs.PlaceLost, Stop: m.port.Stop(), Detail: fmt.Sprintf("given up: the engine on %s took a kill %s ago, and the job has not ended; it may still run there", m.host.place.Name, killTime)}
	case m.run.Err() != nil && !m.there(): // the server ends
		return &jobs.Receipt{End: jobs.NotRun, Stop: m.shutdown()}
	case m.run.Err() != nil:
		return &jobs.Receipt{End: jobs.LeftThere, Stop: m.shutdown()}
	case lost != nil && known && refused == nil && l != nil:
		return nil // the next engine may have the records of the lost one
	case lost != nil && known:
		return m.lost(lost.why)
	case lost != nil:
		return m.lost(lost.why + ", and whether the job had started is unknown")
	case ended != nil && ended.served:
		return nil // the next one gets it
	case ended != nil:
		return m.lost(ended.why)
	case l == nil: // there is no engine, and the way to one has failed
		return &jobs.Receipt{End: jobs.NotStarted, Detail: m.host.place.Name + " is out of reach: " + whyLine(err)}
	case isLie(err):
		return m.lost(fmt.Sprintf("the engine on %s sent what can't be true: %s", m.host.place.Name, line(err.Error())))
	case refused == nil:
		return nil // the link is lost
	case refused.Code == http.StatusNotFound && m.unseen:
		return &jobs.Receipt{End: jobs.NotStarted, Detail: "its server ended before " + m.host.place.Name + " had the job"}
	case refused.Code == http.StatusNotFound && known:
		return m.lost(m.host.place.Name + " no longer knows the job; how it ended is unknown")
	case refused.Code == http.StatusConflict:
		return nil // another engine: the next greeting says so
	case !known && m.port.Stop() != nil:
		return &jobs.Receipt{End: jobs.NotRun, Stop: m.port.Stop()}
	case known:
		return m.lost(fmt.Sprintf("the engine on %s refuses to show the job: %s", m.host.place.Name, line(refused.Text)))
	}
	return &jobs.Receipt{End: jobs.NotStarted, Detail: line(refused.Text)}
}

// engineLost says that the engine which the job was sent to has ended, or returns nil.
func (m *mirror) engineLost() *engineLost {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.era == nil {
		return nil
	}
	lost, _ := errors.AsType[*engineLost](context.Cause(m.era))
	return lost
}

// afterLoss makes the record of a job that has ended with its engine say how that was lost. Either a later engine has
// read the record from those of the lost one, or the lost one had time to end its jobs: its scheduler, or a person, has
// sent SIGTERM, which the engine takes for the end of the server.
func (m *mirror) afterLoss(record *jobs.Record, l *link, era context.Context) {
	lost := m.engineLost()
	receipt := &record.Receipt
	ended := receipt.Stop != nil && receipt.Stop.By == jobs.Shutdown && !m.host.place.closed()
	if asked := m.port.Stop(); asked != nil && asked.By.EndsServer() { // it comes before the goodbye
		ended = false
	}
	if ended && lost == nil {
		lost = m.awaitLoss(l, era)
	}
	if lost == nil || !ended && receipt.End != jobs.ServerEnded {
		return
	}
	receipt.End, receipt.Detail, receipt.Stop, receipt.By = jobs.PlaceLost, lost.why, nil, jobs.Unknown
	if m.start.Kind == jobs.Python {
		receipt.State = jobs.Lost
	}
	record.Status = receipt.Status()
}

const (
	// closeTime is longer than an engine lives after it has begun to end its jobs.
	closeTime = 6 * time.Second
	// verdictTime bounds how long the way in which an engine that has closed its link was lost is waited for.
	verdictTime = 15 * time.Second
	// seatVerdictTime is that of an engine in an allocation. Slurm waits for 30 s before it kills what is left.
	seatVerdictTime = time.Minute
)

// awaitLoss returns how the engine of a link was lost that has ended the job without being asked to. It returns nil if
// the engine lives: an earlier server has ended the job then.
func (m *mirror) awaitLoss(l *link, era context.Context) *engineLost {
	select {
	case <-l.lost:
	case <-m.run.Done():
	case <-time.After(closeTime):
		return nil
	}
	wait := verdictTime
	if m.host.seat != nil {
		wait = seatVerdictTime
	}
	select {
	case <-era.Done():
		return m.engineLost()
	case <-m.run.Done():
	case <-time.After(wait):
	}
	return &engineLost{why: "the engine on " + m.host.place.Name + " was ended there", served: true}
}

// lost returns the receipt of a job whose engine has ended.
func (m *mirror) lost(why string) *jobs.Receipt {
	r := &jobs.Receipt{End: jobs.PlaceLost, Detail: why, By: jobs.Unknown}
	if m.start.Kind == jobs.Python {
		r.State = jobs.Lost
	}
	return r
}

// there reports whether the job can be in an engine.
func (m *mirror) there() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent || m.known
}

// shutdown returns the stop of a job that ends here with the server.
func (m *mirror) shutdown() *jobs.Stop {
	if st := m.port.Stop(); st != nil {
		return st
	}
	return &jobs.Stop{By: jobs.Shutdown}
}

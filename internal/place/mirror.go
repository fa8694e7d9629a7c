package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A mirror runs a job in the engine of a host. It starts the job there, follows its life over one
// link after another, and records it here.
type mirror struct {
	host   *host
	start  server.Start // has no Tool if the job is there already
	port   *jobs.Port
	pos    stream.Position // the output and displays that have come
	past   *jobs.Past      // the job as an earlier server knew it; nil: this server starts it, or no record was kept
	unseen bool            // the earlier server did not see it start
	run    context.Context // done when the job is to end here, for the reason that is its cause
	end    context.CancelCauseFunc
	tasks  sync.WaitGroup // the goroutines of the mirror, see do
	turn   *turn          // nil: the job may be sent at once

	questions sync.Mutex // held while an answer or a record decides whether the job asks
	answered  int        // the number of the question that was answered last; guarded by questions

	// Guarded by mu.
	mu       sync.Mutex
	ended    bool            // Run waits for the tasks: no other is started
	era      context.Context // done when the engine that the job was sent to is lost; nil: the job was not sent
	sent     bool            // the start can have reached the engine
	known    bool            // the engine has the job
	behind   int64           // the job has ended there, and so many bytes are still to come
	unsure   string          // the id of an input that can have been delivered or not
	input    string          // says in words whether the last input was delivered
	resting  bool            // the ended job is followed, for what it has left
	lateEnd  int64           // the end of the output of the ended job, as far as the engine has named it
	asking   bool            // the engine has been asked about the running job, and has not answered
	live     *far.Live       // the engine's last answer about the running job
	lookedAt time.Time       // when live came
}

// The reasons for which a job ends here although it has not ended there.
var (
	errNotRun   = errors.New("cancelled before it was sent")
	errGivenUp  = errors.New("given up")
	errUnkilled = errors.New("not ended by a kill")
)

// retryWait is the pause before a job is asked for again over a link that has not been lost. It doubles up to mostWait.
const retryWait = 200 * time.Millisecond

// How long the engine waits for the end of a job before it reports that the job runs. Most jobs of one line take less,
// and are one message then. Through srun a second message costs 40 ms.
const (
	usualQuick = 3 * time.Millisecond
	seatQuick  = 20 * time.Millisecond
)

// Run runs the job.
func (m *mirror) Run(ctx context.Context, port *jobs.Port) jobs.Outcome {
	m.port = port
	if m.past != nil { // first: from then on it is shown as it was known
		m.restore()
		m.unseen = m.past.Record.Started.IsZero()
		m.past = nil // it has all output that had come
	}
	m.known = m.start.Tool == ""
	if m.pos.Quick = usualQuick; m.host.seat != nil {
		m.pos.Quick = seatQuick
	}
	release := m.host.use(m)
	if m.known {
		m.era = m.host.present()
	}
	m.run, m.end = context.WithCancelCause(m.host.ctx)
	port.SetLink(m.state)
	port.SetInput(m.takeInput)
	port.SetProbe(probe{m})
	port.SetHolder(m.hold)
	port.SetOnLoop(m.onLoop)
	if m.start.Kind == jobs.Python {
		port.SetLooker(looker{m})
	}
	m.do(func() { m.forwardStops(ctx) })
	out, rest := m.follow()
	out.Where = m.state().Where
	if lost := m.engineLost(); lost != nil { // the host can have the next allocation by now
		out.Where = cmp.Or(lost.where, out.Where)
	}
	m.end(nil)
	m.mu.Lock()
	m.ended, m.resting = true, rest
	m.mu.Unlock()
	m.tasks.Wait()
	m.start.Arguments = nil // it is remembered after its end, see lateJobs
	if m.start.Kind == jobs.Python {
		m.host.late.add(m)
	}
	following := rest && m.host.launch(func() {
		defer release()
		m.followRest()
	})
	if !following {
		release()
	}
	return out
}

// do runs f in a goroutine that ends with m.run. It does nothing if the job ends.
func (m *mirror) do(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.tasks.Go(f) // owned by Run, which waits for it; ends with m.run
	}
}

// restoredMost bounds the output that is taken over from an earlier server. More of it comes again over the link.
const restoredMost = 64 << 20

// restore makes the job what an earlier server knew of it: running, if it had begun, with the output that had come.
func (m *mirror) restore() {
	last := m.past.Record
	last.Status, last.Receipt, last.Ended, last.Question = jobs.Queued, jobs.Receipt{}, time.Time{}, nil
	if !last.Started.IsZero() {
		last.Status = jobs.Running
		m.port.Mirror(last) // an error: it is impossible, and the engine says more
	}
	if m.past.Log.Stat().End > restoredMost || len(m.past.Displays) > 0 {
		return
	}
	for {
		c := m.past.Log.Read(m.pos.Cursor, 256<<10)
		if c.Next <= m.pos.Cursor || c.From != m.pos.Cursor {
			return
		}
		for _, s := range c.Spans {
			m.port.Write(s.Stream, s.Data)
		}
		m.pos.Cursor = c.Next
	}
}

// follow returns the outcome of the job, and reports whether it has left processes there.
func (m *mirror) follow() (out jobs.Outcome, rest bool) {
	pause := retryWait
	for call := m.start.Tool != ""; ; call = false {
		began := time.Now()
		l, era, err := m.host.await(m.run, call, true)
		if err == nil {
			var record *jobs.Record
			if record, err = m.watch(l, era, nil); record != nil {
				m.afterLoss(record, l, era)
				if rest = len(record.Receipt.Left)+len(record.Receipt.Survivors) > 0; rest {
					m.port.SetCleanup(m.cleanup)
				}
				return jobs.Outcome{Far: record}, rest
			}
		}
		if receipt := m.verdict(l, err); receipt != nil {
			return jobs.Outcome{Receipt: *receipt, Continues: m.there() && context.Cause(m.run) == context.Canceled}, false
		}
		if time.Since(began) >= firstWait { // it was followed until then
			pause = retryWait
		}
		var broken <-chan struct{}
		if l != nil {
			broken = l.lost
		}
		select { // a lost link is replaced at once
		case <-broken:
		case <-time.After(pause):
			pause = min(2*pause, mostWait)
		case <-m.run.Done():
		}
	}
}

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
		return &jobs.Receipt{End: jobs.PlaceLost, Stop: m.port.Stop(), Detail: givenUp(m.host.place) + "it may still run there"}
	case cause == errUnkilled:
		return &jobs.Receipt{End: jobs.PlaceLost, Stop: m.port.Stop(), Detail: fmt.Sprintf("given up: the engine on %s took a kill %s ago, and the job has not ended; it may still run there", m.host.place, killTime)}
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
		return &jobs.Receipt{End: jobs.NotStarted, Detail: m.host.place + " is out of reach: " + whyLine(err)}
	case isLie(err):
		return m.lost(fmt.Sprintf("the engine on %s sent what can't be true: %s", m.host.place, line(err.Error())))
	case refused == nil:
		return nil // the link is lost
	case refused.Code == http.StatusNotFound && m.unseen:
		return &jobs.Receipt{End: jobs.NotStarted, Detail: "its server ended before " + m.host.place + " had the job"}
	case refused.Code == http.StatusNotFound && known:
		return m.lost(m.host.place + " no longer knows the job; how it ended is unknown")
	case refused.Code == http.StatusConflict:
		return nil // another engine: the next greeting says so
	case !known && m.port.Stop() != nil:
		return &jobs.Receipt{End: jobs.NotRun, Stop: m.port.Stop()}
	case known:
		return m.lost(fmt.Sprintf("the engine on %s refuses to show the job: %s", m.host.place, line(refused.Text)))
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
	ended := receipt.Stop != nil && receipt.Stop.By == jobs.Shutdown && !m.host.closes()
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
	return &engineLost{why: "the engine on " + m.host.place + " was ended there", served: true}
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

// watch follows the job over one link. It returns its record once the job has ended and all of its output is
// here. With amend it follows the ended job, and gives each record to amend; it returns at the end.
func (m *mirror) watch(l *link, era context.Context, amend func(*jobs.Record)) (*jobs.Record, error) {
	life, cancel := context.WithCancelCause(era)
	defer cancel(nil)
	parent := m.run
	if amend != nil {
		parent = m.host.ctx
	}
	defer context.AfterFunc(parent, func() { cancel(context.Cause(parent)) })()
	frames, body, err := m.open(life, l, era)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	for {
		f, err := frames.Next()
		if err != nil {
			return nil, err
		}
		switch {
		case f.Record != nil && amend != nil:
			m.move(f)
			amend(f.Record)
		case f.Record != nil:
			if record, err := m.apply(f); record != nil || err != nil {
				return record, err
			}
		case f.Display != nil:
			if err := m.port.MirrorDisplay(*f.Display, f.Forms); err != nil {
				return nil, &impossible{err}
			}
			m.pos.Displays = f.Display.Number
		case f.Skip != nil:
			if err := m.port.Skip(f.Skip.To, f.Skip.Why); err != nil {
				return nil, &impossible{err}
			}
			m.pos.Cursor = f.Skip.To
		case len(f.Data) > 0:
			m.port.Write(f.Stream, f.Data)
			m.pos.Cursor += int64(len(f.Data))
		}
	}
}

// open asks the engine for the life of the job from where it is here. The first time it starts the job, and then
// again as long as that is not answered, but only in the same engine: code must not run twice. The next engine can
// have the records of a lost one.
func (m *mirror) open(ctx context.Context, l *link, era context.Context) (*stream.Reader, io.Closer, error) {
	if err := m.turn.beforeIt(ctx); err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	known := m.known
	if !known && m.run.Err() != nil {
		m.mu.Unlock()
		return nil, nil, context.Cause(m.run)
	}
	if m.era == nil {
		m.era = era
	}
	m.sent = true
	follow := known || m.era != era
	m.mu.Unlock()
	var frames *stream.Reader
	var body io.Closer
	var err error
	if follow {
		frames, body, err = l.client.Follow(ctx, m.port.ID(), m.pos)
	} else {
		frames, body, err = l.client.Start(ctx, m.port.ID(), m.start.Tool, m.start.Arguments, m.start.Keep, m.pos)
	}
	if err == nil {
		m.mu.Lock()
		m.known = true
		m.mu.Unlock()
		m.host.set.turns.pass(roomOf(m.start.Kind, m.start.Session), m.turn, true)
		m.port.Changed()
	}
	return frames, body, err
}

// move moves the times of a record to our clock.
func (m *mirror) move(f stream.Frame) { shiftTimes(f.Record, m.host.shift(f.Now)) }

// shiftTimes moves the times of a record by d. A zero time stays zero.
func shiftTimes(r *jobs.Record, d time.Duration) {
	for _, t := range []*time.Time{&r.Created, &r.Started, &r.Ended, &r.Answered, &r.Accepts.Since, &r.Output.Last} {
		if !t.IsZero() {
			*t = t.Add(d)
		}
	}
}

// apply records what the engine says of the job. It returns the record if the job has ended, and all of its
// output is here.
func (m *mirror) apply(f stream.Frame) (*jobs.Record, error) {
	m.move(f)
	record := f.Record
	if record.Status.Final() {
		m.mu.Lock()
		m.behind = f.Behind
		m.mu.Unlock()
		if f.Behind == 0 {
			return record, nil
		}
		m.port.Changed()
		return nil, nil
	}
	m.questions.Lock()
	defer m.questions.Unlock()
	if record.Status == jobs.WaitingInput && record.Asked <= m.answered { // it was made before the answer, and a later one follows
		return nil, nil
	}
	if err := m.port.Mirror(*record); err != nil {
		return nil, &impossible{err}
	}
	return nil, nil
}

// An impossible error says what the engine reports that no job can do.
type impossible struct{ error }

// isLie reports whether an engine has sent what can't be true.
func isLie(err error) bool {
	_, frame := errors.AsType[*stream.Error](err)
	_, record := errors.AsType[*impossible](err)
	return frame || record
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
		select {
		case <-l.lost:
		case <-time.After(retryWait):
		case <-m.host.ctx.Done():
		}
	}
	return false
}

// state says what is known of the link.
func (m *mirror) state() jobs.Link {
	l, reaching := m.host.state(), m.host.reaching()
	m.mu.Lock()
	defer m.mu.Unlock()
	l.Unknown = m.sent && !m.known && !l.Lost.IsZero()
	if !m.known {
		l.AsOf = time.Time{}
	}
	l.Behind, l.Input = m.behind, m.input
	if !m.known && l.Lost.IsZero() && m.host.seat == nil {
		l.Queued = reaching
	}
	if m.host.seat != nil {
		l.Where, l.Queued = m.host.seat.words()
		if m.known {
			l.Queued = ""
		}
	}
	return l
}

// line makes text of another machine one line of ours.
func line(s string) string { return view.Line(s, lineMax) }

// whyLine is line for the error of an attempt to open a link. What helps is at its end, so a long text of ssh is cut
// instead, and keeps its own end.
func whyLine(err error) string {
	e, ok := errors.AsType[*carry.Error](err)
	if !ok {
		return line(err.Error())
	}
	short := *e
	text, room := []rune(e.Text), max(lineMax/4, lineMax-utf8.RuneCountInString(e.Cure))
	if len(text) > room {
		short.Text = "…" + string(text[len(text)-room+1:])
	}
	return view.Line(short.Error(), 2*lineMax)
}

// lineMax bounds text of another machine in a line of ours, in characters.
const lineMax = 500

package place

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/stream"
	"asyncrepl/jobs"
)

// A mirror runs a job in the engine of a host. It starts the job there, follows its life over one
// link after another, and records it here.
type mirror struct {
	host   *host
	start  server.Start // has no Tool if the job is there already
	port   *jobs.Port
	pos    stream.Position // the output and displays that have come
	past   *jobs.Past      // what was known of the job when it was adopted; nil: this server starts it
	shown  chan struct{}   // closed when the adopted job is shown as it was known
	unseen bool            // the earlier server did not see it start
	run    context.Context // done when the job is to end here, for the reason that is its cause
	end    context.CancelCauseFunc
	tasks  sync.WaitGroup // the goroutines of the mirror, see do
	turn   *turn          // nil: the job may be sent at once
	again  string         // says that the job has made its session again, for its receipt; enters sets it

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
	if m.past != nil {
		m.restore()
		m.past = nil // it has all output that had come
	}
	m.known = m.start.Tool == ""
	if m.pos.Quick = usualQuick; m.host.seat != nil {
		m.pos.Quick = seatQuick
	}
	era, release := m.host.use(m)
	if m.known {
		m.era = era
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
	if m.again != "" && out.Far != nil {
		out.Far.Receipt.Notes = append([]string{m.again}, out.Far.Receipt.Notes...)
	}
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
	if m.host.seat != nil {
		m.host.seat.after(m.start.Session)
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

// restore makes the adopted job what was known of it: running, if it had begun, with the output that had come to an
// earlier server.
func (m *mirror) restore() {
	if last := m.past.Record; !last.Started.IsZero() {
		last.Status, last.Receipt, last.Ended, last.Question = jobs.Running, jobs.Receipt{}, time.Time{}, nil
		m.port.Mirror(last) // an error: it is impossible, and the engine says more
	}
	close(m.shown)
	if m.past.Log == nil || m.past.Log.Stat().End > restoredMost || len(m.past.Displays) > 0 {
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

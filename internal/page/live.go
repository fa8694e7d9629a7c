//go:build unix

package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// A live connection is what one open page follows: the list of jobs, and one job that is open.
//
// The page says how far its terminal has drawn the output. The server sends 256 KiB beyond that at most, so
// that a page that draws slowly, or not at all, is not sent output that it can't show. A page that is more than 1 MiB
// behind continues at the newest 1 MiB once it has drawn what it got, and learns how much was skipped.
const (
	window = 256 << 10
	lag    = 1 << 20
	chunk  = 32 << 10 // bytes of output in a message
	// partsMax bounds the parts of a message: output that changes between streams at each byte would
	// otherwise make 30 bytes of each.
	partsMax = 1000
	// listMax is how many jobs a message has.
	listMax = 200
	// messageMax bounds a message of a page, in bytes.
	messageMax = 1 << 20
)

// After each round of messages a connection rests, so that pages take little from the jobs that they show: at
// least leastRest, and so long that all connections together send budget bytes a second. Each round counts
// as roundCost bytes more than it has sent.
const (
	leastRest = 10 * time.Millisecond
	budget    = 16 << 20
	roundCost = 16 << 10
)

// busy counts the live connections of this process that send, or rest from it, whatever engine they are
// about: they share the machine.
var busy atomic.Int64

// pingTime is how often a page is asked whether it is there, and how long it has to answer.
const pingTime = 30 * time.Second

// A Request is a message of a page.
type Request struct {
	Op     string `json:"op"` // open, close, drawn or keys
	Job    string `json:"job"`
	Cursor int64  `json:"cursor"`
	Text   string `json:"text"`
}

// ReadRequest reads a message of a page. It refuses unknown fields.
func ReadRequest(text []byte) (r Request, err error) {
	err = strict(bytes.NewReader(text), &r)
	return r, err
}

// An Update is a message to a page. It has one of these.
type Update struct {
	Jobs     []Brief   `json:"jobs,omitzero"`
	First    bool      `json:"first,omitempty"`    // the page has no jobs but these
	Complete bool      `json:"complete,omitempty"` // these are the last of the list
	Removed  []string  `json:"removed,omitempty"`
	Job      *Document `json:"job,omitempty"`
	Output   *Output   `json:"output,omitempty"`
	Gone     string    `json:"gone,omitempty"` // there is no such job
	Error    string    `json:"error,omitempty"`
}

// An Output is output of the open job. Skipped counts the bytes before From that are not sent.
type Output struct {
	Job     string `json:"job"`
	From    int64  `json:"from"`
	Next    int64  `json:"next"`
	Skipped int64  `json:"skipped,omitempty"`
	Parts   []Part `json:"parts"`
}

// A Part is output of one stream.
type Part struct {
	Stream string `json:"stream"`
	Data   []byte `json:"data"` // base64 in JSON
}

// A live is a live connection. Only its handler changes it.
type live struct {
	*api
	conn  *websocket.Conn
	ctx   context.Context
	end   context.CancelFunc // ends the connection
	pause *time.Timer
	sent  int // bytes, in this round

	listless bool            // it has no list: another connection of the page has one
	list     jobs.Mark       // the page has the list as it was then
	away     map[string]Away // what the page shows of the ways to jobs at places that have not ended, by their ids
	looked   time.Time       // when the ways were looked at last
	way      Away            // what the page shows of the way to the open job

	job     *jobs.Job       // the open job; nil: none is
	changed <-chan struct{} // closed when the page has an old state of it; nil: it has none
	stated  time.Time       // when it was sent its state
	stale   bool            // the job has printed since then
	at      int64           // the output is sent up to here
	drawn   int64           // and drawn up to here; what was skipped counts as drawn

	// What the page sends arrives by these. A later open or drawn takes the place of an earlier one.
	opens, draws chan Request
	refusals     chan string
}

func (a *api) serveLive(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(messageMax)
	l := &live{
		api: a, conn: conn, away: make(map[string]Away), pause: time.NewTimer(0), listless: r.URL.Query().Get("list") == "no",
		opens: make(chan Request, 1), draws: make(chan Request, 1), // the last one counts
		refusals: make(chan string, 1), // others are dropped: a page needs one
	}
	l.ctx, l.end = context.WithCancel(r.Context())
	defer l.end()
	defer l.pause.Stop()
	var reading sync.WaitGroup
	reading.Go(func() { // owned by this call, which waits for it; ends with the connection
		defer l.end()
		l.read()
	})
	l.serve()
	conn.CloseNow()
	reading.Wait()
}

// read takes the messages of the page until the connection ends.
func (l *live) read() {
	pending := make(chan []Request, 1) // the keys that are not typed yet
	var typing sync.WaitGroup
	defer typing.Wait()
	defer close(pending)
	typing.Go(func() { l.typeKeys(pending) }) // owned by the caller, which waits for it; ends with pending
	open := ""                                // the job that the page has opened last
	for {
		_, b, err := l.conn.Read(l.ctx)
		if err != nil {
			return
		}
		switch r, err := ReadRequest(b); {
		case err != nil:
			l.refuse("The message is no JSON of this protocol.")
		case r.Op == "open" || r.Op == "close":
			open = r.Job
			replace(l.opens, r)
		case r.Op == "drawn":
			if r.Job == open { // what is drawn late of another job must not replace what is drawn of this one
				replace(l.draws, r)
			}
		case r.Op == "keys":
			l.addKeys(pending, r)
		default:
			l.refuse("There is no op " + report.OneLine(r.Op) + ".")
		}
	}
}

// replace puts r into a channel with room for one, of which the caller is the only sender.
func replace(c chan Request, r Request) {
	select {
	case <-c:
	default:
	}
	c <- r
}

// refuse reports to the page why something was not done.
func (l *live) refuse(why string) {
	select {
	case l.refusals <- why:
	default:
	}
}

// serve sends what changes until the connection ends.
func (l *live) serve() {
	ping := time.NewTicker(pingTime)
	defer ping.Stop()
	var pinging sync.WaitGroup
	defer pinging.Wait()
	defer l.end()
	if l.sendList() != nil {
		return
	}
	for {
		listed := l.jobs.Changed() // before the changes that are sent
		more, err := l.round()
		if err != nil {
			return
		}
		if l.stale {
			l.pause.Reset(stateAge - time.Since(l.stated))
		}
		select {
		case <-listed:
		case <-l.changed:
		case <-more:
		case <-l.pause.C: // the state is too old
		case <-l.lookAgain():
		case r := <-l.opens:
			err = l.open(r)
		case r := <-l.draws:
			if l.job != nil && r.Job == l.job.ID() {
				l.drawn = max(l.drawn, min(r.Cursor, l.at))
			}
		case why := <-l.refusals:
			err = l.send(Update{Error: why})
		case <-ping.C:
			pinging.Go(l.ping) // owned by this call, which waits for it; ends with the answer or the connection
		case <-l.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// ping ends the connection if the page does not answer in time. Meanwhile it is sent what changes: the
// question can be behind much output.
func (l *live) ping() {
	ctx, cancel := context.WithTimeout(l.ctx, pingTime)
	defer cancel()
	if l.conn.Ping(ctx) != nil {
		l.end()
	}
}

// round sends what has changed, and then rests from it. It returns a channel that is closed when there is more
// output, or nil if another event comes before.
func (l *live) round() (more <-chan struct{}, err error) {
	busy.Add(1)
	defer busy.Add(-1)
	for {
		if err = l.sendChanges(); err == nil {
			err = l.sendWays()
		}
		if err == nil {
			err = l.sendJob()
		}
		if err == nil {
			more, err = l.sendOutput()
		}
		if err != nil {
			return nil, err
		}
		if l.sent == 0 {
			return more, nil
		}
		l.pause.Reset(max(leastRest, time.Duration(int64(l.sent+roundCost)*busy.Load())*time.Second/budget))
		l.sent = 0
		select {
		case <-l.pause.C:
			return more, nil
		case r := <-l.opens: // a person waits for it
			if err := l.open(r); err != nil {
				return nil, err
			}
		case <-l.ctx.Done():
			return nil, l.ctx.Err()
		}
	}
}

// send sends a message.
func (l *live) send(u Update) error {
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return l.write(b)
}

// write sends the bytes of a message.
func (l *live) write(b []byte) error {
	l.sent += len(b)
	ctx, cancel := context.WithTimeout(l.ctx, writeTime)
	defer cancel()
	return l.conn.Write(ctx, websocket.MessageText, b)
}

// sendList sends the full list.
func (l *live) sendList() error {
	if l.listless {
		return nil
	}
	l.list = l.jobs.Now()
	u := Update{Jobs: []Brief{}, First: true}
	for record := range l.jobs.All(jobs.Filter{}) {
		if len(u.Jobs) == listMax {
			if err := l.send(u); err != nil {
				return err
			}
			u = Update{Jobs: []Brief{}}
		}
		u.Jobs = append(u.Jobs, l.listed(record))
	}
	u.Complete = true
	return l.send(u)
}

// sendChanges sends the jobs that have changed since the page got the list.
func (l *live) sendChanges() error {
	if l.listless {
		return nil
	}
	changed, removed, now := l.jobs.ChangedSince(l.list)
	l.list = now
	if err := l.sendBriefs(changed); err != nil {
		return err
	}
	if len(removed) > 0 {
		return l.send(Update{Removed: removed})
	}
	return nil
}

// sendBriefs sends what the list shows of some jobs.
func (l *live) sendBriefs(list []*jobs.Job) error {
	for part := range slices.Chunk(list, listMax) {
		u := Update{}
		for _, j := range part {
			u.Jobs = append(u.Jobs, l.listed(j.Record()))
		}
		if err := l.send(u); err != nil {
			return err
		}
	}
	return nil
}

// listed returns a job for the list, and notes what the page then shows of the way to its place.
func (l *live) listed(record jobs.Record) Brief {
	b := l.brief(record)
	if b.Place == "" || b.Status.Final() {
		delete(l.away, b.ID)
	} else {
		l.away[b.ID] = b.Away
	}
	return b
}

// wayAge is how old it can be what a page shows of the way to a place. Nothing announces that a link is lost, and
// the words say for how long it has been.
const wayAge = 2 * time.Second

// isAway reports whether the open job is at a place, and has not ended.
func (l *live) isAway() bool {
	if l.job == nil {
		return false
	}
	r := l.job.Record()
	return r.Place != "" && !r.Status.Final()
}

// lookAgain returns a channel that gets a value when it is time to look at the ways to places, or nil if the page
// shows no job there.
func (l *live) lookAgain() <-chan time.Time {
	if len(l.away) == 0 && !l.isAway() {
		return nil
	}
	return time.After(time.Until(l.looked.Add(wayAge)))
}

// sendWays sends the jobs whose way to their place the page shows as it was too long ago. The state of the open job
// follows.
func (l *live) sendWays() error {
	if time.Since(l.looked) < wayAge {
		return nil
	}
	l.looked = time.Now()
	if l.isAway() && l.api.away(l.job) != l.way {
		l.changed = nil
	}
	var changed []*jobs.Job
	for id, shown := range l.away {
		if j := l.jobs.Lookup(id); j == nil {
			delete(l.away, id)
		} else if l.api.away(j) != shown {
			changed = append(changed, j)
		}
	}
	return l.sendBriefs(changed)
}

// open makes a job the open one, or closes it.
func (l *live) open(r Request) error {
	l.job, l.changed, l.stale = nil, nil, false
	if r.Op == "close" {
		return nil
	}
	j, err := l.jobs.Get(r.Job)
	if err != nil {
		return l.send(Update{Gone: report.OneLine(r.Job)})
	}
	l.job, l.at, l.drawn = j, r.Cursor, r.Cursor
	if end := j.Log().Stat().End; r.Cursor < 0 || r.Cursor > end {
		l.at, l.drawn = end, end
		return l.send(Update{Error: fmt.Sprintf("cursor must be a number from 0 to %d, the end of the output.", end)})
	}
	return nil
}

// stateAge is how old the state of a job that prints can be on a page. It has the progress and the usage,
// which nothing announces.
const stateAge = time.Second

// sendJob sends the state of the open job if the page has none, or an old one.
func (l *live) sendJob() error {
	if l.job == nil {
		return nil
	}
	select {
	case <-l.changed:
	default:
		if l.changed != nil && (!l.stale || time.Since(l.stated) < stateAge) {
			return nil
		}
	}
	l.changed, l.stated, l.stale, l.way = l.job.Changed(), time.Now(), false, l.api.away(l.job)
	d := l.document(l.job)
	return l.send(Update{Job: &d})
}

// chunks are buffers for output. No connection holds one while it waits.
var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// sendOutput sends what the page has room for of the output of the open job. It returns a channel that is
// closed when there is more, or nil if another event comes before.
func (l *live) sendOutput() (more <-chan struct{}, err error) {
	if l.job == nil {
		return nil, nil
	}
	log := l.job.Log()
	for {
		end := log.Stat().End
		skipped := int64(0)
		if end-l.at > lag {
			if l.drawn < l.at {
				return nil, nil // the page says when it has drawn what it got
			}
			skipped = end - lag - l.at
			l.at, l.drawn = end-lag, end-lag
		}
		room := window - (l.at - l.drawn)
		switch {
		case room <= 0:
			return nil, nil
		case l.at < end:
		case log.Stat().Final >= 0:
			return nil, nil // the job announces late output
		default:
			return log.More(l.at), nil
		}
		if err := l.sendChunk(log, room, skipped); err != nil {
			return nil, err
		}
	}
}

// sendChunk sends output from l.at on, room bytes at most.
func (l *live) sendChunk(log output.Reader, room, skipped int64) error {
	b := chunks.Get().(*[chunk]byte)
	c := log.ReadInto(l.at, b[:min(chunk, room)])
	u := &Output{Job: l.job.ID(), From: c.From, Next: c.From, Skipped: skipped + c.Dropped}
	for _, s := range c.Spans[:min(len(c.Spans), partsMax)] {
		u.Parts = append(u.Parts, Part{s.Stream.String(), s.Data})
		u.Next += int64(len(s.Data))
	}
	l.at, l.drawn = u.Next, l.drawn+c.Dropped
	l.stale = log.Stat().Final < 0 // or the job announces what changes
	message, err := json.Marshal(Update{Output: u})
	chunks.Put(b)
	if err != nil {
		return err
	}
	return l.write(message)
}

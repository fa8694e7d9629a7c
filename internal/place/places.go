package place

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/process"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/jobs"
)

// A Config configures [Places].
type Config struct {
	Places  []config.Place
	Jobs    *jobs.Registry // the jobs here
	File    *keyfile.File  // notes what there is at the places, for a later server; nil: none finds it
	Key     string         // names our engines, if there is no File
	Limits  far.Settings   // the limits of each engine; what a place has of its own is set for each
	Version string
	Env     []string     // the environment of carriers
	Log     *slog.Logger // nil: nothing is logged
}

// Places are the places of a server. They are [server.Places].
type Places struct {
	Config
	names  []string          // all places, sorted
	places map[string]*place // by name; those that are not in names are not in the file of places any more

	// join joins this process with an engine, as carry.Open does.
	join func(context.Context, carry.Spec) (net.Conn, far.Greeting, error)

	mu      sync.Mutex
	rooms   map[room]string // the places of the sessions that are not here
	left    map[room]string // the places of those that have ended without a call that said so
	once    sync.Once       // closes the places
	running sync.WaitGroup  // the goroutines of the hosts
	turns   turns
}

// Named returns places that can only say their names.
func Named(list []config.Place) *Places {
	ps := &Places{places: make(map[string]*place), rooms: make(map[room]string), left: make(map[room]string), join: join}
	for _, conf := range list {
		ps.names = append(ps.names, conf.Name)
	}
	return ps
}

// Check returns why the options of a scheduler in the file of places can't be used, or nil.
func Check(list []config.Place) error {
	for _, conf := range list {
		if _, err := newAllocator(conf, "check"); err != nil {
			return fmt.Errorf("place %q: %w", conf.Name, err)
		}
	}
	return nil
}

// New returns the places of c, with what c.File says is there. Nothing is started or asked before it is needed.
func New(c Config) (*Places, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	ps := Named(c.Places)
	if ps.Config = c; c.File != nil {
		ps.Key = c.File.Key()
	}
	for _, conf := range c.Places {
		p, err := newPlace(ps, conf)
		if err != nil {
			return nil, fmt.Errorf("place %q: %w", conf.Name, err)
		}
		ps.places[conf.Name] = p
	}
	if c.File == nil {
		return ps, nil
	}
	for name, e := range c.File.Engines() {
		p := ps.places[e.Place]
		if p == nil {
			p = removedPlace(ps, e.Place)
			ps.places[e.Place] = p
		}
		if !p.removed || e.Greeting.Start != "" {
			p.restore(name, e)
		}
	}
	return ps, nil
}

// Adopt follows the jobs of an earlier server that can still be at a place.
func (ps *Places) Adopt(list []jobs.Past) {
	for _, past := range slices.Backward(list) { // the oldest first
		record := past.Record
		p := ps.places[record.Place]
		if p == nil {
			continue
		}
		if h := p.known(record.Kind, record.Session, record.ID); h != nil {
			h.expect()
			ps.adopt(&mirror{host: h, past: &past, unseen: record.Started.IsZero()})
		}
	}
}

// adopt starts the mirror of a job that was not started here, and returns once the job is shown as m.past has it. It
// returns nil if a job here has the id.
func (ps *Places) adopt(m *mirror) *jobs.Job {
	id, spec, place := m.past.Record.ID, m.past.Record.Spec, m.host.place.Name
	spec.Place, spec.Title, spec.Session = place, line(spec.Title), line(spec.Session)
	m.start = server.Start{Kind: spec.Kind, Session: spec.Session, Keep: spec.Keep}
	m.shown = make(chan struct{})
	j, err := ps.Jobs.StartAs(id, spec, m)
	if err != nil {
		m.host.unexpect()
		ps.Log.Warn("a job at a place is not followed", "job", id, "place", place, "error", err)
		return nil
	}
	<-m.shown
	return j
}

// keyOf returns the key of the engine of a host. Each has one of its own: two places can be on one machine, and two
// allocations on one node.
func (ps *Places) keyOf(host string) string {
	sum := sha256.Sum256([]byte(host))
	return ps.Key + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:10]
}

// Names returns the names of the places.
func (ps *Places) Names() []string { return slices.Clone(ps.names) }

// Keeps reports whether all jobs at a place are kept.
func (ps *Places) Keeps(name string) bool {
	p := ps.places[name]
	return p != nil && p.Keep
}

// place returns a place by its name.
func (ps *Places) place(name string) (*place, error) {
	if p := ps.places[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("there is no place %q: the places are %s", name, strings.Join(ps.names, ", "))
}

// Runner returns what runs a job at a place. A session that lives nowhere lives there from then on.
func (ps *Places) Runner(name string, s server.Start) (jobs.Runner, error) {
	p, err := ps.place(name)
	if err != nil {
		return nil, err
	}
	if err := ps.enter(name, roomOf(s.Kind, s.Session)); err != nil {
		return nil, err
	}
	s.Keep = s.Keep || p.Keep
	return &starter{place: p, start: s}, nil
}

// A starter runs a job at the host of its session, or at one of its own. Which that is can depend on the id.
type starter struct {
	place *place
	start server.Start
	turn  *turn
}

// Queue gives the job its turn among those of its session.
func (s *starter) Queue(*jobs.Port) {
	s.turn = s.place.set.turns.take(roomOf(s.start.Kind, s.start.Session))
}

// Run runs the job.
func (s *starter) Run(ctx context.Context, port *jobs.Port) jobs.Outcome {
	defer s.turn.pass(false)
	h, err := s.place.host(s.start.Kind, s.start.Session, s.start.From, port.ID())
	if err != nil {
		s.place.set.leave(roomOf(s.start.Kind, s.start.Session)) // no host has it
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: line(err.Error())}}
	}
	return (&mirror{host: h, start: s.start, turn: s.turn}).Run(ctx, port)
}

// Call calls a tool at a place, of the engine that has the session of Python that the call is about. It opens the
// link if there is none.
func (ps *Places) Call(ctx context.Context, name, tool string, args json.RawMessage) (text string, isError bool, err error) {
	p, err := ps.place(name)
	if err != nil {
		return "", false, err
	}
	session, from := sessionsOf(tool, args)
	r := room{jobs.Python, session}
	lived := ps.Of(r.kind, r.name) != ""
	if err := ps.enter(name, r); err != nil {
		return "", false, err
	}
	turn, came := ps.turns.take(r), false
	defer func() { turn.pass(came) }()
	h, err := p.host(r.kind, r.name, from, "")
	if err != nil {
		ps.leave(r) // no host has it
		return "", false, err
	}
	l, release, err := h.connect(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil: // the attempt continues, and can have asked for an allocation
		return "", false, fmt.Errorf("%s has not answered yet%s; nothing was done there: call again later", name, h.waitsFor())
	default:
		return "", false, fmt.Errorf("%s is out of reach: %s; nothing was done there", name, whyLine(err))
	}
	defer release()
	if err := turn.beforeIt(ctx); err != nil {
		return "", false, fmt.Errorf("%s has not answered an earlier call for session %q (%s); nothing was done there", name, r.name, line(inTime(err).Error()))
	}
	came = true
	if tool == "create_session" {
		if h.enters(r) { // the engine that had it was lost meanwhile
			lived = false
		}
		h.lostFor(r) // the reply says that the session is new
	}
	begun := func() { turn.pass(true) }
	defer time.AfterFunc(beginTime, begun).Stop()
	text, isError, err = l.client.Call(ctx, tool, args, begun)
	if err != nil {
		return "", false, fmt.Errorf("the link to %s was lost or slow (%s): whether %s was done there is unknown", name, line(inTime(err).Error()), tool)
	}
	if tool == "delete_session" && !isError || tool == "create_session" && isError && !lived {
		h.leaves(r)
	}
	return text, isError, nil
}

// inTime says in words that a call has waited as long as it may.
func inTime(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

// sessionsOf returns the session of Python that a call of a tool is about, and the one that it continues with.
func sessionsOf(tool string, args json.RawMessage) (session, from string) {
	var named struct {
		Session, Name string
		From          string `json:"from_session"`
	}
	if json.Unmarshal(args, &named) != nil { // a tool has checked them
		return "", ""
	}
	if tool == "create_session" {
		return named.Name, named.From
	}
	return named.Session, ""
}

// List returns the state of the places. A connected one is asked for its sessions, for a short time.
func (ps *Places) List(ctx context.Context) []overview.Place {
	names := slices.Clone(ps.names)
	for name, p := range ps.places {
		if p.removed && len(p.all()) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names[len(ps.names):])
	list := make([]overview.Place, len(names))
	together(len(list), func(i int) { list[i] = ps.places[names[i]].describe(ctx) })
	return list
}

// Find returns the mirror of a job that is unknown here and that a connected place has, or nil.
func (ps *Places) Find(ctx context.Context, id string) *jobs.Job {
	for _, name := range ps.names {
		for _, h := range ps.places[name].all() {
			l := h.connected()
			if l == nil {
				continue
			}
			record, err := l.client.Record(ctx, id)
			if err != nil {
				continue
			}
			h.enters(roomOf(record.Kind, record.Session))
			h.expect()
			if j := ps.adopt(&mirror{host: h, past: &jobs.Past{Saved: jobs.Saved{Record: *record}}}); j != nil {
				return j
			}
		}
	}
	return ps.Jobs.Lookup(id) // another call has adopted it meanwhile
}

// disown leaves an engine to itself that a carrier on this machine has started below this process. Otherwise it
// would count as something that a job has left, and end with that. It reports whether it did.
func (ps *Places) disown(g far.Greeting) bool {
	if boot, err := sockets.BootID(); err != nil || boot != g.Boot {
		return false
	}
	return process.Disown(g.PID, func(p procfs.Process) bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		return err == nil && bytes.Contains(line, []byte(ps.Key))
	})
}

// InUse reports whether an engine at a place can have something that a client would miss.
func (ps *Places) InUse() bool {
	for _, name := range ps.names { // what is at a place that was removed stays there in any case
		if slices.ContainsFunc(ps.places[name].all(), (*host).inUse) {
			return true
		}
	}
	return false
}

// EndUnkept ends what is not kept at the places: now or, if a place is out of reach, once it is back. A job or a call
// that comes for a place before that finds all that is there.
func (ps *Places) EndUnkept(cause jobs.By) {
	for _, p := range ps.places {
		for _, h := range p.all() {
			h.trim(cause)
		}
	}
}

// Close ends what is not kept at the places, and all links. It returns when that has ended, or ctx is done.
func (ps *Places) Close(ctx context.Context) {
	ps.once.Do(func() {
		var hosts []*host
		for _, p := range ps.places {
			hosts = append(hosts, p.close()...)
		}
		keep := make([]bool, len(hosts))
		together(len(hosts), func(i int) { keep[i] = hosts[i].goodbye(ctx) })
		ps.running.Wait()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		defer cancel()
		together(len(hosts), func(i int) {
			if s := hosts[i].seat; s != nil && !keep[i] {
				s.release(ending)
			}
		})
		if ps.File == nil {
			return
		}
		if err := ps.File.Close(len(ps.File.Engines()) == 0); err != nil {
			ps.Log.Warn("the file of our engines at places", "error", err)
		}
	})
}

// giveBackTime bounds how long the end of the server waits until the schedulers have taken its allocations back.
const giveBackTime = 5 * time.Second

// together calls f for the numbers below n, all at once, and returns when all calls have.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) }) // joined below
	}
	all.Wait()
}

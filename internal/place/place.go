package place

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A place is one place, with its hosts.
type place struct {
	set *Places
	config.Place
	removed   bool          // the file of places does not have it any more
	allocator allocator     // nil: its sessions share one engine
	polling   chan struct{} // holds one token while the scheduler is asked
	polled    time.Time     // when the scheduler has answered last; the holder of the token guards it

	ctx    context.Context // done when the place is closed
	cancel context.CancelFunc

	mu      sync.Mutex
	apart   bool                     // each session has a host of its own
	hosts   map[string]*host         // under their names in the file of our engines
	leaving map[string]chan struct{} // under the names of hosts that are not used any more; closed when their allocations are given back
}

func newPlace(ps *Places, conf config.Place) (p *place, err error) {
	p = &place{set: ps, Place: conf, hosts: make(map[string]*host), leaving: make(map[string]chan struct{}), polling: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.allocator, err = newAllocator(conf, ps.Key)
	p.apart = p.allocator != nil
	return p, err
}

// closed reports whether the server is ending.
func (p *place) closed() bool { return p.ctx.Err() != nil }

// host returns the host of a session's jobs, or of one job that has no session. A session that continues with the
// variables of another one, from, has its host. The job or the call that it is for must come, see host.expect.
func (p *place) host(kind jobs.Kind, session, from, id string) (*host, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := p.nameOf(kind, session, from, id)
	h := p.hosts[name]
	switch {
	case h != nil:
	case p.closed():
		return nil, errClosed
	case p.allocator != nil && len(p.hosts) >= p.Max:
		return nil, fmt.Errorf("%s has %s, the most allowed (max in the file of places): end a session there, or wait for one",
			p.Name, view.CountOf(int64(len(p.hosts)), "allocation"))
	default:
		h = p.newHost(name)
		if h.seat != nil && session == "" {
			h.seat.job = id
		}
	}
	h.enters(roomOf(kind, session))
	h.expect()
	return h, nil
}

// removedPlace returns a place that the file of places does not have any more. What an earlier server has left there
// can still run, so nothing about it has ended: it is out of reach until a later file has the place again.
func removedPlace(ps *Places, name string) *place {
	p, _ := newPlace(ps, config.Place{Name: name, Kind: config.Exec}) // an error: it has no options that can be wrong
	p.removed = true
	return p
}

// errRemoved is why a place is out of reach that was removed from the file of places.
var errRemoved = &carry.Error{
	Step: carry.Reach, Text: "the file of places does not have it any more", Cure: "put it back, and start the server again", Final: true,
}

// nameOf returns the name of a host. With a scheduler, each session has one, unless it continues with another one, and
// so has each job without a session. The caller holds p.mu.
func (p *place) nameOf(kind jobs.Kind, session, from, id string) string {
	switch {
	case !p.apart:
		return p.Name
	case session == "":
		return p.Name + "/job/" + id
	}
	own := func(r room) string { return p.Name + "/" + string(r.kind) + "/" + r.name }
	for _, name := range []string{session, from} {
		r := roomOf(kind, name)
		for _, h := range p.hosts {
			if name != "" && h.has(r) {
				return h.name
			}
		}
		if p.hosts[own(r)] != nil { // the session was deleted, and its checkpoints can be there
			return own(r)
		}
	}
	return own(roomOf(kind, session))
}

// drop gives the allocation of a host back, unless something uses it again or the place is closed.
func (p *place) drop(h *host) {
	left := make(chan struct{})
	p.mu.Lock()
	if p.closed() || p.hosts[h.name] != h || !h.idle() {
		p.mu.Unlock()
		return
	}
	delete(p.hosts, h.name)
	p.leaving[h.name] = left
	h.mu.Lock()
	h.cancel()
	h.vacate() // before another host of the name has the session
	h.mu.Unlock()
	p.mu.Unlock()
	ctx, cancel := p.releasing()
	defer cancel()
	h.seat.release(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving[h.name] == left {
		delete(p.leaving, h.name)
	}
	close(left)
}

// releasing returns a context for giving an allocation back, which outlives the close of the place for a while.
func (p *place) releasing() (ctx context.Context, cancel func()) {
	ctx, end := context.WithTimeout(context.Background(), releaseTime)
	stop := context.AfterFunc(p.ctx, func() { time.AfterFunc(giveBackTime, end) })
	return ctx, func() {
		stop()
		end()
	}
}

// known returns the host that can have a job of an earlier server, or nil.
func (p *place) known(kind jobs.Kind, session, id string) *host {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosts[p.nameOf(kind, session, "", id)]
}

// restore makes the host of an engine that an earlier server has left.
func (p *place) restore(name string, e keyfile.Engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.newHost(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engine, h.lost = e.Greeting, time.Now()
	if p.removed {
		h.attempts.why, p.apart = errRemoved, name != e.Place
	}
	if h.seat != nil {
		h.seat.id, h.seat.asked, h.seat.job, h.seat.served = e.Allocation, true, e.Job, true
	}
	for _, s := range e.Sessions {
		if r := (room{s.Kind, s.Name}); p.set.enter(p.Name, r) == nil {
			h.rooms[r] = s.Kind == jobs.Python && e.Greeting.Start != ""
		}
	}
}

// open opens a link to the one engine of a place, and starts that if need be. A known engine must be there.
func (p *place) open(ctx context.Context, known far.Greeting) (*link, far.Greeting, error) {
	return p.dial(ctx, p.Exec, p.Name, known, "-settings", p.settings(p.Name))
}

// dial opens a link by a carrier that runs dial, with options, for the engine of a host.
func (p *place) dial(ctx context.Context, carrier []string, host string, known far.Greeting, options ...string) (*link, far.Greeting, error) {
	if known.Start != "" {
		options = append(options, "-start", known.Start)
	}
	spec := p.spec(carrier)
	spec.Command = append(append([]string{"dial"}, options...), p.set.keyOf(host))
	return p.set.openLink(ctx, spec)
}

// spec returns how a carrier gets in.
func (p *place) spec(carrier []string) carry.Spec {
	return carry.Spec{
		Argv: p.reach(carrier), Env: p.set.Env, Workspace: p.Workspace, Setup: p.Setup, Program: p.Binary, Version: p.set.Version,
	}
}

// settings returns in JSON how the engine of a host is made.
func (p *place) settings(host string) string {
	s := p.set.Limits
	s.Key, s.Workspace, s.Python, s.Linger, s.Idle = p.set.keyOf(host), p.Workspace, p.Python, p.Linger, p.Idle
	text, _ := json.Marshal(s) // it can't fail
	return string(text)
}

// reach returns the carrier that runs a command of the place. If that is on another machine, ssh takes it there, and
// a shell reads it.
func (p *place) reach(command []string) []string {
	if p.SSH == nil {
		return command
	}
	if len(command) == 0 {
		return carry.SSH(p.SSH)
	}
	return append(carry.SSH(p.SSH), carry.Quote(command...))
}

// all returns the hosts of the place.
func (p *place) all() []*host {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.hosts))
}

// close returns the hosts, and lets none be made any more.
func (p *place) close() []*host {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	return p.all()
}

// describe returns the state of the place.
func (p *place) describe(ctx context.Context) overview.Place {
	o := overview.Place{Name: p.Name}
	if !p.removed {
		o.Kind, o.Where = p.Kind.String(), p.where()
	}
	hosts := p.all()
	slices.SortFunc(hosts, func(a, b *host) int { return strings.Compare(a.name, b.name) })
	parts := make([]overview.Place, len(hosts))
	together(len(hosts), func(i int) { hosts[i].describe(ctx, &parts[i]) })
	for _, part := range parts {
		if part.Reachable && !o.Reachable || !o.Reachable && o.Why == "" { // the place is reached if one host is
			o.Reachable, o.Why, o.Since = part.Reachable, part.Why, part.Since
		}
		o.Version = cmp.Or(o.Version, part.Version)
		o.Allocations = append(o.Allocations, part.Allocations...)
		o.Sessions = append(o.Sessions, part.Sessions...)
		o.Last = append(o.Last, part.Last...)
	}
	return o
}

// where says for people how the place is reached.
func (p *place) where() string {
	switch p.Kind {
	case config.SSH:
		return line(p.SSH[len(p.SSH)-1])
	case config.Exec:
		return line(strings.Join(p.Exec, " "))
	case config.Slurm:
		return line(strings.Join(p.Slurm, " "))
	}
	return line(p.PodFile)
}

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
	set       *Places
	conf      config.Place
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
	p = &place{set: ps, conf: conf, hosts: make(map[string]*host), leaving: make(map[string]chan struct{}), polling: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.allocator, err = newAllocator(conf, ps.Key)
	p.apart = p.allocator != nil
	return p, err
}

// host returns the host of a session's jobs, or of one job that has no session. A session that continues with the
// variables of another one, from, has its host. The job or the call that it is for must come, see host.expect.
func (p *place) host(kind jobs.Kind, session, from, id string) (*host, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := p.nameOf(kind, session, from, id)
	h := p.hosts[name]
	switch {
	case h != nil:
	case p.ctx.Err() != nil:
		return nil, errClosed
	case p.allocator != nil && len(p.hosts) >= p.conf.Max:
		return nil, fmt.Errorf("%s has %s, the most allowed (max in the file of places): end a session there, or wait for one",
			p.conf.Name, view.CountOf(int64(len(p.hosts)), "allocation"))
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
		return p.conf.Name
	case session == "":
		return p.conf.Name + "/job/" + id
	}
	own := func(r room) string { return p.conf.Name + "/" + string(r.kind) + "/" + r.name }
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

// newHost makes a host. The caller holds p.mu.
func (p *place) newHost(name string) *host {
	h := newHost(p.set, p.conf.Name, name)
	h.open = p.open
	switch {
	case !p.set.listed(p.conf.Name):
		h.open = func(context.Context, far.Greeting) (*link, far.Greeting, error) {
			return nil, far.Greeting{}, errRemoved
		}
	case p.allocator != nil:
		h.seat = &seat{place: p, host: h, before: p.leaving[name]}
		h.open, h.unused, h.over = h.seat.open, p.conf.Idle, func() { p.drop(h) }
	}
	p.hosts[name] = h
	return h
}

// drop gives the allocation of a host back, unless something uses it again or the place is closed.
func (p *place) drop(h *host) {
	left := make(chan struct{})
	p.mu.Lock()
	if p.ctx.Err() != nil || p.hosts[h.name] != h || !h.idle() {
		p.mu.Unlock()
		return
	}
	delete(p.hosts, h.name)
	p.leaving[h.name] = left
	h.leaveAll() // before another host of the name has the session
	p.mu.Unlock()
	h.stop()
	ctx, cancel := p.releasing()
	defer cancel()
	h.seat.release(ctx)
	h.abandon()
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
	h.engine, h.lost = e.Greeting, time.Now()
	h.mayKeep = e.Greeting.Start != "" && e.Job == "" // the mirror of a job says whether that is kept
	if !p.set.listed(p.conf.Name) {
		h.attempts.why, p.apart = errRemoved, name != e.Place
	}
	if h.seat != nil {
		h.seat.id, h.seat.asked, h.seat.job, h.seat.served = e.Allocation, true, e.Job, true
	}
	for _, s := range e.Sessions {
		h.enters(room{s.Kind, s.Name})
	}
}

// open opens a link to the one engine of a place.
func (p *place) open(ctx context.Context, known far.Greeting) (*link, far.Greeting, error) {
	key := p.set.keyOf(p.conf.Name)
	settings, err := json.Marshal(p.settings(key))
	if err != nil {
		return nil, far.Greeting{}, err
	}
	spec := carry.Spec{
		Argv: p.reach(p.conf.Exec), Env: p.set.Env, Workspace: p.conf.Workspace, Setup: p.conf.Setup,
		Program: p.conf.Binary, Version: p.set.Version, Command: []string{"dial", "-settings", string(settings)},
	}
	if known.Start != "" {
		spec.Command = append(spec.Command, "-start", known.Start)
	}
	spec.Command = append(spec.Command, key)
	return p.set.openLink(ctx, spec)
}

// settings returns how an engine there is made.
func (p *place) settings(key string) far.Settings {
	s := p.set.Limits
	s.Key, s.Version, s.Workspace, s.Python, s.Linger, s.Idle = key, p.set.Version, p.conf.Workspace, p.conf.Python, p.conf.Linger, p.conf.Idle
	return s
}

// reach returns the carrier that runs a command of the place. If that is on another machine, ssh takes it there, and
// a shell reads it.
func (p *place) reach(command []string) []string {
	if p.conf.SSH == nil {
		return command
	}
	return append(carry.SSH(p.conf.SSH), carry.Quote(command...))
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
	o := overview.Place{Name: p.conf.Name}
	if p.set.listed(o.Name) {
		o.Kind, o.Where = p.conf.Kind.String(), p.where()
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
	}
	return o
}

// where says for people how the place is reached.
func (p *place) where() string {
	switch p.conf.Kind {
	case config.SSH:
		return line(p.conf.SSH[len(p.conf.SSH)-1])
	case config.Exec:
		return line(strings.Join(p.conf.Exec, " "))
	case config.Slurm:
		return line(strings.Join(p.conf.Slurm, " "))
	}
	return line(p.conf.PodFile)
}

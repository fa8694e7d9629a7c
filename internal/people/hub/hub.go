//go:build unix

package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/page"
)

// A Hub is the engines of a user.
type Hub struct {
	places  []string
	say     func(string)
	running sync.WaitGroup // the goroutine of each engine

	// Guarded by mu, and so are the fields of servers.
	mu      sync.Mutex
	servers map[sockets.Name]*server // those that have ended, too, until the next one of their identity
	jobs    map[string]job           // by their ids
	changes []string                 // the ids of the jobs that have changed last, so that no tab compares all
	dropped int                      // the number of changes before them
	said    map[string]bool          // the lines that were said
	changed chan struct{}            // closed and replaced when servers or jobs change
}

// A job is what is known of a job.
type job struct {
	at    *server     // the engine that has it, or had it until it ended
	brief *page.Brief // nil: it is in no list
	round int         // the list of the engine in which it was last
}

// New returns a Hub that knows no engine yet. The sockets are in places, see [sockets.Places]. say is
// called with each line for the person, and never twice with the same.
func New(places []string, say func(string)) *Hub {
	return &Hub{
		places: places, say: say, servers: make(map[sockets.Name]*server),
		jobs: make(map[string]job), said: make(map[string]bool), changed: make(chan struct{}),
	}
}

const (
	// searchPause is the time between two searches. A search reads the names in the directories and
	// connects to new ones only: a page shows an engine a second after its first job.
	searchPause = time.Second
	// againPause is the time between two attempts to meet an engine that refuses or hangs.
	againPause = 10 * time.Second

	maxJobs    = 10_000 // jobs of an engine
	maxSaid    = 5      // lines about an engine
	maxChanges = 20_000 // changes of jobs that tabs need not have seen; one that is behind compares all
)

// Run searches for engines until ctx is done.
func (h *Hub) Run(ctx context.Context) {
	for sleep(ctx, searchPause) {
		h.Search(ctx)
	}
	h.mu.Lock()
	for _, s := range h.servers {
		s.stop()
	}
	h.mu.Unlock()
	h.running.Wait()
}

// Search finds the engines that there are now. It takes no longer than the slowest of them may,
// HelloTime. They are followed until Run returns, or ctx is done.
func (h *Hub) Search(ctx context.Context) {
	dirs, errs := sockets.OpenAll(h.places)
	found := make(map[sockets.Name]string) // the directories
	for _, dir := range dirs {
		names, err := dir.Names()
		if err != nil {
			errs = append(errs, fmt.Errorf("listing the engines in %s: %w", dir.Path(), err))
		}
		for _, name := range names {
			found[name] = dir.Path() // two paths can lead to one directory
		}
		dir.Close()
	}
	for _, err := range errs {
		h.warn(nil, err)
	}
	h.mu.Lock()
	for name, s := range h.servers {
		if found[name] == "" && !s.ended {
			s.stop()
			s.ended = true
			h.announce()
		}
	}
	var meeting sync.WaitGroup
	for name, place := range found {
		s := h.servers[name]
		if s == nil || s.ended {
			s = newServer(ctx, name, place)
			h.servers[name] = s
		}
		if !s.met && !time.Now().Before(s.again) {
			meeting.Go(func() { h.meet(s) }) // joined by Search; ends within HelloTime
		}
	}
	h.mu.Unlock()
	meeting.Wait()
}

// meet asks an engine who it is, and takes the place of one that has ended and had the same identity.
func (h *Hub) meet(s *server) {
	c, welcome, err := s.connect(s.ctx)
	if err != nil && !errors.Is(err, sockets.ErrGone) && s.ctx.Err() == nil {
		h.warn(s, fmt.Errorf("%s is left out: %w", s, err))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.again = time.Now().Add(againPause); err != nil {
		return
	}
	c.Close()
	s.met, s.workspace, s.version = true, oneLine(welcome.Workspace), oneLine(welcome.Version)
	replaced := func(other *server) bool { return other.ended && other.name.Identity == s.name.Identity }
	maps.DeleteFunc(h.servers, func(_ sockets.Name, other *server) bool { return replaced(other) })
	for id, j := range h.jobs {
		if replaced(j.at) {
			delete(h.jobs, id)
			h.note(id)
		}
	}
	h.announce()
	h.running.Go(func() { h.follow(s) }) // joined by Run; ends with the engine
}

// follow takes the list of an engine until it has ended.
func (h *Hub) follow(s *server) {
	defer s.http.CloseIdleConnections()
	for again := true; again; {
		pause := h.stream(s.ctx, s, "/api/live", nil, func(m page.Update) { h.take(s, m) })
		h.mu.Lock()
		s.up, s.settled = false, true
		h.announce()
		h.mu.Unlock()
		again = sleep(s.ctx, pause)
	}
}

// take takes a part of an engine's list.
func (h *Hub) take(s *server, m page.Update) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.up = true
	if m.First {
		s.round++
	}
	for _, b := range m.Jobs {
		h.claim(b.ID, s, &b)
	}
	removed := m.Removed
	if m.Complete {
		s.settled = true
		for id, j := range h.jobs {
			if j.at == s && j.brief != nil && j.round != s.round {
				removed = append(removed, id)
			}
		}
	}
	for _, id := range removed {
		if h.jobs[id].at == s {
			delete(h.jobs, id)
			h.note(id)
			s.jobs--
		}
	}
	h.announce()
}

// claim notes that an engine has a job, which its list shows as b, unless that is nil. It reports whether
// that can be believed: no other engine that runs has named the job before, and it has no more than maxJobs.
// The caller holds h.mu.
func (h *Hub) claim(id string, s *server, b *page.Brief) bool {
	known, found := h.jobs[id]
	if s.ended || found && known.at != s && !known.at.ended || known.at != s && s.jobs == maxJobs {
		return false
	}
	if known.at != s {
		s.jobs++
	}
	if b == nil {
		b = known.brief
	}
	h.jobs[id] = job{s, b, s.round}
	h.note(id)
	return true
}

// note notes that a job has changed. The caller holds h.mu.
func (h *Hub) note(id string) {
	if len(h.changes) == maxChanges {
		h.changes = slices.Delete(h.changes, 0, maxChanges/2)
		h.dropped += maxChanges / 2
	}
	h.changes = append(h.changes, id)
}

// owner returns the engine that has a job, or nil if none that runs is known to have it.
func (h *Hub) owner(id string) *server {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.jobs[id].at; s != nil && !s.ended {
		return s
	}
	return nil
}

// list returns the engines that answer.
func (h *Hub) list() []*server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(h.sorted(), func(s *server) bool { return s.ended })
}

// sorted returns the engines that have said who they are, by their workspaces. One that has ended and is there
// again has its old place. The caller holds h.mu.
func (h *Hub) sorted() []*server {
	all := slices.DeleteFunc(slices.Collect(maps.Values(h.servers)), func(s *server) bool { return !s.met })
	slices.SortFunc(all, func(a, b *server) int { return strings.Compare(a.workspace+"\x00"+a.id(), b.workspace+"\x00"+b.id()) })
	return all
}

// announce notes that servers or jobs have changed. The caller holds h.mu.
func (h *Hub) announce() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// warn says what is wrong with an engine, or, with nil, with a directory.
func (h *Hub) warn(s *server, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := oneLine(err.Error())
	if h.said[line] || s != nil && s.said == maxSaid {
		return
	}
	if h.said[line] = true; s != nil {
		s.said++
	}
	h.say(line)
}

// sleep waits for a time, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

package place

import (
	"fmt"
	"slices"

	"asyncrepl/jobs"
)

// A session that is not here lives in one host, until a call deletes it or its engine is lost. The places know it, so that
// what is meant for its host does not run here; the host knows it, so that a later server finds it.

// A room is a session of Python, or one of the shell.
type room struct {
	kind jobs.Kind // Python or Shell
	name string
}

// roomOf returns the session that a job of a kind runs in. Packages are installed for Python.
func roomOf(kind jobs.Kind, session string) room {
	if kind != jobs.Shell {
		kind = jobs.Python
	}
	return room{kind, session}
}

// Of returns the place where a session lives, or "" if it lives here, or nowhere.
func (ps *Places) Of(kind jobs.Kind, session string) string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.rooms[roomOf(kind, session)]
}

// Left returns the place where a session was, if it is nowhere now and no call has deleted it.
func (ps *Places) Left(kind jobs.Kind, session string) string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.left[roomOf(kind, session)]
}

// enter notes that a session lives at a place. The error names the place where it lives already.
func (ps *Places) enter(place string, r room) error {
	if r.name == "" {
		return nil
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if at := ps.rooms[r]; at != "" && at != place {
		return fmt.Errorf("session %q lives at %q", r.name, at)
	}
	ps.rooms[r] = place
	delete(ps.left, r)
	return nil
}

// leave notes that a session lives nowhere any more. A later call for it must not run here unasked.
func (ps *Places) leave(r room) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if place := ps.rooms[r]; place != "" {
		ps.left[r] = place
	}
	delete(ps.rooms, r)
}

// forget notes that a call has deleted a session, or has not made it.
func (ps *Places) forget(r room) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.rooms, r)
	delete(ps.left, r)
}

// enters notes that a session lives there, and reports whether it did not before.
func (h *host) enters(r room) bool {
	if r.name == "" || h.place.set.enter(h.place.Name, r) != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, lives := h.rooms[r]; lives {
		return false
	}
	h.rooms[r] = false
	h.note()
	return true
}

// has reports whether a session lives there.
func (h *host) has(r room) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, lives := h.rooms[r]
	return lives
}

// takes notes that the session of a job lives there. It reports whether it did not before, and why it was lost with an
// earlier engine, as lostFor does.
func (h *host) takes(m *mirror, r room) (again bool, why string) {
	if again = h.enters(r); again {
		h.mu.Lock()
		h.keepsFor(m)
		h.mu.Unlock()
	}
	return again, h.lostFor(r)
}

// lostFor returns why the session was lost with an earlier engine, once. Empty: it was not.
func (h *host) lostFor(r room) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	why := h.gone[r]
	delete(h.gone, r)
	return why
}

// sessions returns the names of the sessions of Python that its engine has.
func (h *host) sessions() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.engine.Start == "" { // they will be made
		return nil
	}
	for r := range h.rooms {
		if r.kind == jobs.Python {
			names = append(names, r.name)
		}
	}
	slices.Sort(names)
	return names
}

// mayKeep reports whether the engine can keep a session. The caller holds h.mu.
func (h *host) mayKeep() bool {
	for _, kept := range h.rooms {
		if kept {
			return true
		}
	}
	return false
}

// leaves notes that a call has ended a session there. An allocation that only the session held goes back.
func (h *host) leaves(r room) {
	h.place.set.forget(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rooms, r)
	delete(h.gone, r)
	h.note()
	if h.spent = h.seat != nil && len(h.rooms) == 0; h.spent {
		h.recheck()
	}
}

// forget notes that no session lives there if no engine does and nothing comes that would start one: the attempt to
// start it has failed. The caller holds h.mu.
func (h *host) forget() {
	if h.engine.Start == "" && h.users() == 0 {
		h.vacate()
	}
}

// vacate notes that no session lives there any more. The caller holds h.mu.
func (h *host) vacate() {
	for r := range h.rooms {
		h.place.set.leave(r)
	}
	clear(h.rooms)
}

package place

import (
	"slices"
	"time"

	"asyncrepl/internal/place/keyfile"
)

// note writes what the host has into the file of our engines. The caller holds h.mu.
func (h *host) note() {
	file := h.place.set.File
	if file == nil || h.place.removed { // a removed place keeps what is noted
		return
	}
	var err error
	if h.engine.Start == "" && (h.seat == nil || !h.seat.held()) {
		err = file.Remove(h.name)
	} else {
		h.noted = h.jobs()
		e := keyfile.Engine{Place: h.place.Name, Greeting: h.engine, Jobs: h.noted}
		if h.seat != nil {
			e.Allocation, e.Job = h.seat.noted()
		}
		for r := range h.rooms {
			e.Sessions = append(e.Sessions, keyfile.Session{Kind: r.kind, Name: r.name})
		}
		err = file.Set(h.name, e)
	}
	if err != nil {
		h.place.set.Log.Warn("a later server may not find what this one has at a place", "place", h.place.Name, "error", err)
	}
}

// renote is note for a caller that does not hold h.mu.
func (h *host) renote() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note()
}

// noteTime is how long a job runs before the file of our engines has it. Most have ended by then, and cost no write.
const noteTime = time.Second

// noteJobs notes the jobs of the host in noteTime, so that people find them if this server is killed. The caller
// holds h.mu.
func (h *host) noteJobs() {
	if h.place.set.File == nil || h.noting || h.ctx.Err() != nil {
		return
	}
	h.noting = true
	time.AfterFunc(noteTime, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.noting = false
		if h.ctx.Err() == nil && !slices.Equal(h.noted, h.jobs()) {
			h.note()
		}
	})
}

// jobs returns the ids of the jobs that need the link, the newest if there are many. The caller holds h.mu.
func (h *host) jobs() (ids []string) {
	for m := range h.mirrors {
		ids = append(ids, m.port.ID())
	}
	slices.Sort(ids)
	return ids[max(0, len(ids)-keyfile.MaxJobs):]
}

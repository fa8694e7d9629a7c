package place

import (
	"context"
	"time"

	"asyncrepl/internal/place/far"
)

// An engineLost says why an engine has ended with all that it had, in the words of a receipt.
type engineLost struct {
	why    string
	served bool   // jobs have been sent to it; the others can go to the next one
	where  string // its allocation; empty: it had none
}

func (e *engineLost) Error() string { return e.why }

// lose forgets the known engine, which has ended. The caller holds h.mu.
func (h *host) lose(why *engineLost) {
	for _, m := range h.stops {
		h.place.set.running.Go(func() { h.amend(m, "it has ended there with its engine") }) // owned by the close of the places, which waits for it; ends with the job here, which has been ended
	}
	h.stops, h.trims = nil, ""
	h.endEra(why)
	h.era, h.endEra = context.WithCancelCause(context.Background())
	h.gone = make(map[room]string, len(h.rooms))
	for r := range h.rooms {
		h.gone[r] = why.why
	}
	h.forgetEngine()
}

// forgetEngine notes that there is no engine any more. The caller holds h.mu.
func (h *host) forgetEngine() {
	h.engine, h.skew = far.Greeting{}, skew{}
	h.vacate()
	h.note()
}

// A skew is what our clock is ahead of an engine's.
type skew struct {
	by       time.Duration
	measured bool
}

// shift returns what must be added to times of the engine. now is when it has said so by its clock.
func (h *host) shift(now time.Time) time.Duration {
	d := time.Since(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	// A message is never early, so the smallest difference is the best. A clock that was set counts again from then.
	if !h.skew.measured || d < h.skew.by || d > h.skew.by+time.Minute {
		h.skew = skew{d, true}
	}
	return h.skew.by
}

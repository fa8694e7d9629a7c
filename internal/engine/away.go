//go:build unix

package engine

import (
	"context"
	"sync"
	"time"

	"asyncrepl/jobs"
)

// Away is what jobs of an engine use at other places: engines there, and the links to them.
type Away interface {
	// InUse reports whether an engine at a place can have something that a client would miss.
	InUse() bool
	// EndUnkept ends what is not kept at the places, as [Engine.EndUnkept] does here. A place that is out of reach
	// gets it once it is back.
	EndUnkept(cause jobs.By)
	// Close ends what is not kept at the places, and returns when it has ended, or ctx is done.
	Close(ctx context.Context)
}

// awayTime bounds how long the end of an engine waits for the places. What has not ended there by then
// ends by itself, because no server is connected.
const awayTime = 5 * time.Second

// Away returns what jobs use at other places, or nil if there are no places.
func (e *Engine) Away() Away { return e.away }

// closeAway begins to end what is at other places, and returns what waits for that.
func (e *Engine) closeAway() (wait func()) {
	if e.away == nil {
		return func() {}
	}
	var closing sync.WaitGroup
	closing.Go(func() { // joined by wait; ends after awayTime
		ctx, cancel := context.WithTimeout(context.Background(), awayTime)
		defer cancel()
		e.away.Close(ctx)
	})
	return closing.Wait
}

// Placed returns the jobs of earlier engines in the workspace that ran at another place when their engine
// ended, and that no engine since has followed to their end.
func (e *Engine) Placed() (list []jobs.Past) {
	for p := range e.records.Past("") {
		if p.Record.Place != "" && p.Record.Receipt.End == jobs.LeftThere {
			list = append(list, p)
		}
	}
	return list
}

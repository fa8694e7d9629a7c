//go:build unix

package tty

import (
	"context"
	"time"
)

// Watch looks at one job on one terminal for as long as Run runs.
type Watch struct {
	PTY   *PTY
	Tree  func() []int                    // the job's processes now
	Quiet func() time.Time                // when it last printed
	News  func(ev Evidence, waiting bool) // what changed

	kick chan struct{}
}

// Run looks until ctx is done.
func (w *Watch) Run(ctx context.Context) { <-ctx.Done() }

// Kick has Run look soon.
func (w *Watch) Kick() {}

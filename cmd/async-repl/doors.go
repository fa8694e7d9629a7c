//go:build unix

package main

import (
	"context"
	"sync"

	"asyncrepl/internal/client/keeper"
	"asyncrepl/internal/engine"
)

// doors are the sockets for commands of a server over HTTP, one for each tenant.
type doors struct {
	set     *settings
	ctx     context.Context // done when the sockets are closed
	shut    func()          // makes ctx done
	running sync.WaitGroup  // one for each engine

	// Guarded by mu.
	mu     sync.Mutex
	opened map[*engine.Engine]bool
}

func newDoors(ctx context.Context, set *settings) *doors {
	d := &doors{set: set, opened: make(map[*engine.Engine]bool)}
	d.ctx, d.shut = context.WithCancel(ctx)
	return d
}

// open opens the socket of a tenant's engine, once. It is closed with the engine.
func (d *doors) open(e *engine.Engine, tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened[e] || d.ctx.Err() != nil {
		return
	}
	d.opened[e] = true
	config := d.set.keeper(e)
	config.Lone, config.Scope = "clients reach this server over HTTP, and not here", e.Scope(d.set.client())
	if d.set.inside == nil {
		around := d.set.surroundings()
		around.Identity = func() (string, error) { return d.set.identityOf(e.Workspace(), tenant) }
		config.Around = around
	}
	d.running.Go(func() { // joined by close; ends with ctx, or when the tenant has left
		k := keeper.New(config)
		k.Run(d.ctx, nil)
		k.Wait(d.ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.opened, e)
	})
}

// close closes all sockets.
func (d *doors) close() {
	d.shut()
	d.running.Wait()
}

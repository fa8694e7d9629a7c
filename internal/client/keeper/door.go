//go:build unix

package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/reply/overview"
)

// errNotYet means that the engine has had no job.
var errNotYet = errors.New("the engine listens with its first job")

// listen begins to listen if the engine has had its first job. Nothing is bound before, so that the first
// answer does not wait for it.
func (k *Keeper) listen() {
	s := &k.state
	if s.door != errNotYet || !k.used() {
		return
	}
	if k.doors, s.door = k.open(); s.door != nil {
		k.Log.Warn("no socket for other clients and commands", "error", s.door)
		return
	}
	k.conns.Go(func() { // joined by Wait; ends when the listener is closed
		for {
			c, err := k.doors.Accept()
			if err != nil {
				return
			}
			k.conns.Go(func() { k.serve(c, false) }) // joined by Wait; ends with the connection
		}
	})
}

// used reports whether the engine has had a job.
func (k *Keeper) used() bool {
	totals := k.Engine.Jobs().Totals()
	return len(totals.Now)+len(totals.Ended) > 0
}

func (k *Keeper) open() (*sockets.Listener, error) {
	identity, err := k.Identity()
	if err != nil {
		return nil, fmt.Errorf("finding the identity of the engine: %w", err)
	}
	dir, err := sockets.OpenFirst(k.Places)
	if err != nil {
		return nil, err
	}
	l, err := dir.Listen(identity)
	if err != nil {
		dir.Close()
	}
	return l, err
}

// close removes the name of the engine.
func (k *Keeper) close() {
	if k.doors != nil {
		k.doors.Close()
	}
}

// A backend is the engine for its connections. Its status says why other clients and commands can't connect.
type backend struct {
	*engine.Engine
	k *Keeper
}

// Backend returns the engine for a connection.
func (k *Keeper) Backend() server.Backend { return backend{k.Engine, k} }

func (b backend) Status(sc engine.Scope) overview.Server {
	status := b.Engine.Status(sc)
	b.k.in(func(s *state) {
		if s.door != nil && s.door != errNotYet {
			status.Lacks = append(status.Lacks, fmt.Sprintf("no later client and no command can reach this server: %v", s.door))
		}
	})
	return status
}

// maxLingering is the number of engines of a workspace that can wait for a client.
const maxLingering = 4

// makeRoom ends engines of the same workspace that have waited longest for a client, if more than
// maxLingering wait.
func (k *Keeper) makeRoom(ctx context.Context) {
	dir, err := sockets.OpenFirst(k.Places)
	if err != nil {
		return
	}
	defer dir.Close()
	unlock, err := dir.Lock(ctx)
	if err != nil {
		return // another engine makes room, and takes long
	}
	defer unlock()
	names, _ := dir.Names()
	type other struct {
		name sockets.Name
		left time.Time
	}
	var waiting []other
	for _, name := range names {
		c, w, err := dir.Dial(ctx, name, sockets.Hello{Version: k.Version, Role: sockets.Person})
		if err != nil {
			continue
		}
		c.Close()
		if w.Workspace == k.workspace && !w.Attended && !w.Ends.IsZero() {
			waiting = append(waiting, other{name, w.Left})
		}
	}
	slices.SortFunc(waiting, func(a, b other) int { return cmp.Or(a.left.Compare(b.left), cmp.Compare(a.name.PID, b.name.PID)) })
	for len(waiting) > maxLingering {
		if c, _, err := dir.Dial(ctx, waiting[0].name, sockets.Hello{Version: k.Version, Role: sockets.Yield}); err == nil {
			c.Close()
		}
		waiting = waiting[1:]
	}
}

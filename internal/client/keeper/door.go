//go:build unix

package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/reply/overview"
)

// errNotYet means that the engine has had no job.
var errNotYet = errors.New("the engine listens with its first job")

// listen lets others find the engine once it has had its first job. Nothing is bound before, so
// that the first answer does not wait for it. A name that something has removed is made again: a
// logout removes the runtime directory of its user, and systemd-tmpfiles what is old.
func (k *Keeper) listen() {
	if k.state.door == errNotYet && k.Engine.Used() || k.doors != nil && !k.doors.Found() {
		k.bind()
	}
}

// found returns once other clients find the engine, if it has had a job. Without it, a client that
// is lost right after it was shown its first job would get another engine. The job runs meanwhile.
func (k *Keeper) found() {
	if !k.bound.Load() && k.Engine.Used() {
		k.in(func(*state) { k.listen() })
	}
}

// canKeep returns why no job can be kept: without a socket nothing finds it once its client has
// left.
func (k *Keeper) canKeep() (err error) {
	k.in(func(s *state) {
		if s.door == errNotYet {
			k.bind()
		}
		err = s.door
	})
	return err
}

// bind begins to listen.
func (k *Keeper) bind() {
	defer k.bound.Store(true)
	k.close()
	doors, err := k.Around.Listen()
	if k.state.door = err; err != nil {
		k.doors = nil
		k.Log.Warn("no socket for other clients and commands", "error", err)
		return
	}
	k.doors = doors
	k.conns.Go(func() { // joined by Wait; ends when the listener is closed
		for {
			c, err := doors.Accept()
			if err != nil {
				return
			}
			k.conns.Go(func() { k.serve(c, false) }) // joined by Wait; ends with the connection
		}
	})
}

// close removes the name of the engine.
func (k *Keeper) close() {
	if k.doors != nil {
		k.doors.Close()
	}
}

// A backend is the engine for its connections. Its status says why other clients and commands can't
// connect.
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

// giveWay ends the engine if maxLingering engines of the workspace wait for a client that have been
// left after this one. Each engine decides that for itself, as long as no client comes.
func (k *Keeper) giveWay(left time.Time) {
	for waits := true; waits; {
		select {
		case <-time.After(pause(left)):
		case <-k.ending:
			return
		}
		later := 0
		k.Around.Others(k.cut, func(name sockets.Name, w sockets.Welcome) {
			if !w.Ends.IsZero() && cmp.Or(w.Left.Compare(left), cmp.Compare(name.PID, k.Around.PID())) > 0 {
				later++
			}
		})
		k.in(func(s *state) {
			waits = s.left.Equal(left)
			if waits && later >= maxLingering && !k.welcome(s).Ends.IsZero() {
				s.ended = true
			}
		})
	}
}

// elsewhereTime bounds how long the first reply waits for other engines of the workspace. One that
// is slower is in a later reply.
const elsewhereTime = 250 * time.Millisecond

// elsewhere begins to ask the other engines of the workspace how many jobs and sessions they keep,
// and returns a function that returns the answer. A client takes engines over by their identity, so
// it would not find these.
func (k *Keeper) elsewhere() func() *server.Kept {
	var kept atomic.Pointer[server.Kept]
	limited, asked := context.WithTimeout(k.cut, elsewhereTime)
	k.conns.Go(func() { // joined by Wait; ends when the others have answered
		defer asked()
		var sum server.Kept
		k.Around.Others(k.cut, func(_ sockets.Name, w sockets.Welcome) {
			sum.Jobs += w.Kept - w.KeptSessions
			sum.Sessions += w.KeptSessions
		})
		kept.Store(&sum)
	})
	return func() *server.Kept {
		<-limited.Done()
		return kept.Load()
	}
}

//go:build unix

package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
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
	if k.state.door == errNotYet && k.Engine.Used() {
		k.bind()
	}
}

// canKeep returns why no job can be kept: without a socket nothing finds it once its client has left.
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
	s := &k.state
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
	type other struct {
		dir  string
		name sockets.Name
		left time.Time
	}
	var waiting []other
	k.others(ctx, func(dir string, name sockets.Name, w sockets.Welcome) {
		if !w.Ends.IsZero() {
			waiting = append(waiting, other{dir, name, w.Left})
		}
	})
	slices.SortFunc(waiting, func(a, b other) int { return cmp.Or(a.left.Compare(b.left), cmp.Compare(a.name.PID, b.name.PID)) })
	if waits := false; !k.in(func(s *state) { waits = !k.welcome(s).Ends.IsZero() }) || !waits {
		return // a client has come
	}
	for len(waiting) >= maxLingering { // this engine waits, too
		k.end(ctx, waiting[0].dir, waiting[0].name)
		waiting = waiting[1:]
	}
}

// end ends an engine that waits for a client.
func (k *Keeper) end(ctx context.Context, path string, name sockets.Name) {
	dir, err := sockets.Open(path)
	if err != nil {
		return // it can't be reached any more
	}
	defer dir.Close()
	if c, _, err := dir.Dial(ctx, name, sockets.Hello{Version: k.Version, Role: sockets.Yield}); err == nil {
		c.Close()
	}
}

// elsewhere begins to ask the other engines of the workspace how many jobs and sessions they keep, and returns
// a function that returns the answer. A client takes engines over by their identity, so it would not find
// these.
func (k *Keeper) elsewhere() func() (int, bool) {
	answer := make(chan int, 1) // the goroutine does not wait for a reply
	k.conns.Go(func() {         // joined by Wait; ends when the others have answered
		defer close(answer)
		kept := 0
		k.others(k.cut, func(_ string, _ sockets.Name, w sockets.Welcome) { kept += w.Kept })
		answer <- kept
	})
	return func() (int, bool) {
		select {
		case n, ok := <-answer:
			return n, ok
		default:
			return 0, false
		}
	}
}

// others asks each other engine of the workspace for its state.
func (k *Keeper) others(ctx context.Context, f func(dir string, name sockets.Name, w sockets.Welcome)) {
	dirs, _ := sockets.OpenAll(k.Search) // an error: no engine of ours is there
	for _, dir := range dirs {
		defer dir.Close()
		names, _ := dir.Names() // an error: there are none
		for _, name := range names {
			if name.PID == os.Getpid() {
				continue
			}
			c, w, err := dir.Dial(ctx, name, sockets.Hello{Version: k.Version, Role: sockets.Person})
			if err != nil {
				continue
			}
			c.Close()
			if w.Workspace == k.workspace {
				f(dir.Path(), name, w)
			}
		}
	}
}

// older describes the engines that only another version of the program can reach.
func older(list []sockets.OtherProtocol) string {
	var items []string
	for _, o := range list {
		items = append(items, fmt.Sprintf("the engine of process %d is not resumed: it needs version %s of async-repl", o.Name.PID, o.Version))
	}
	return strings.Join(items, "; ")
}

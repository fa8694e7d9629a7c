//go:build unix

package keeper

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/page"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// A Config configures a Keeper.
type Config struct {
	Engine  *engine.Engine
	Places  server.Places // where its jobs can run besides here; nil: nowhere
	Version string
	Since   time.Time // when the process started

	// Around is how others find the engine. If it can't listen there, the engine has only its first
	// client.
	Around Surroundings

	Linger        time.Duration // how long the engine continues after its client was lost
	LingerGoodbye time.Duration // how long it continues after its client has said goodbye
	// Unsaid is the directory for what no reply has said of jobs when an engine ends without a
	// client. It is made when it is needed. Empty: that is not kept.
	Unsaid string

	Env     []string                // the environment of the process, for the client that has started it
	Environ func([]string) []string // adapts that of a later client; nil: it is taken as it is
	Scope   engine.Scope            // persons have it before there is a client

	// Lone makes the engine part of a process that serves its clients itself: the Keeper serves
	// only persons, and Run ends with its context or the engine. It is the reason that clients get.
	Lone string

	Page   string // where a person can watch the jobs, for clients; empty: nowhere
	NoPage bool   // refuses pages that connect here

	Log   *slog.Logger
	Trail *Trail // where Log writes; nil if Lone
}

// Surroundings are how an engine and others find each other. Those of an engine that is not confined
// are [sockets.Surroundings].
type Surroundings interface {
	PID() int                    // the process that others know the engine by
	Self() (sockets.Name, error) // the name of the engine
	Listen() (sockets.Door, error)
	Others(ctx context.Context, f func(sockets.Name, sockets.Welcome)) // those of the workspace
}

// A Keeper gives an engine its clients.
type Keeper struct {
	Config
	workspace string
	do        chan func()         // run by Run, which owns state
	ending    chan struct{}       // closed when Run lets no client connect any more
	conns     sync.WaitGroup      // one for each connection
	cut       context.Context     // done when calls must be answered at once
	cutAll    func()              // makes cut done
	doors     sockets.Door        // set by listen; nil: the engine does not listen
	bound     atomic.Bool         // whether to listen is decided
	page      func() http.Handler // answers the requests of pages
	state     state

	// last is the connection of the client at whose goodbye the engine ends. It is closed with the
	// process: the front waits for that, as a client waits for the end of a server that is one
	// process.
	last atomic.Pointer[sockets.Conn]
}

// state is all that changes. Only functions that Run runs use it.
type state struct {
	client  *stream         // nil: none is connected
	clients int             // the number of clients so far
	scope   engine.Scope    // the last client's; persons have it, too
	notices *report.Notices // say what clients know
	how     jobs.By         // how the client left, as the cause of the ends of jobs: Shutdown, ClientGone or, if one is connected, ""
	left    time.Time       // when it left; zero: a client is connected
	ends    time.Time       // when the engine ends unless a client comes, or ends what is not kept
	trimmed bool            // what is not kept has been ended
	ended   bool            // Run returns
	door    error           // why the engine does not listen; errNotYet until its first job
	unread  int             // jobs that had ended when the last client left
	lost    []string        // says which variables ended with the engine; set at the end of Run
}

// New returns a Keeper. Run makes it work.
func New(c Config) *Keeper {
	k := &Keeper{
		Config: c, workspace: sockets.Resolve(c.Engine.Workspace()),
		do: make(chan func()), ending: make(chan struct{}),
	}
	k.cut, k.cutAll = context.WithCancel(context.Background())
	k.page = sync.OnceValue(func() http.Handler { return page.API(k.Engine) })
	k.state = state{door: errNotYet, scope: c.Scope, notices: new(report.Notices)}
	return k
}

// longPause is the time between two checks of what nothing announces, if there is no hurry: that
// the name is there, and that a kept session has been idle too long. attendedPause is that of an engine
// that has a client. Its name is checked when the client leaves, too, and each check wakes the engine, and
// the process outside its sandbox.
const (
	longPause     = time.Minute
	attendedPause = 10 * time.Minute
)

// pause returns the time between two checks of an engine that was left. Jobs announce their ends;
// processes that they left behind don't, nor do other engines.
func pause(left time.Time) time.Duration {
	return min(max(time.Second, time.Since(left)/10), longPause)
}

// Run serves first, unless it is nil, and everything that connects later. It returns when the
// engine must end, with the cause of the ends of its jobs, which is empty if ctx is done or the
// engine ends by itself. No client can connect any more then, but connections may still be
// answered: Wait waits for them.
func (k *Keeper) Run(ctx context.Context, first *sockets.Conn) jobs.By {
	defer k.cutAll() // commands get no answers that take long
	defer close(k.ending)
	defer k.close()
	defer func() { k.state.lost = k.variables() }()
	if first != nil {
		k.conns.Go(func() { k.serve(first, true) }) // joined by Wait; ends with the connection
	}
	check := time.NewTimer(0)
	defer check.Stop()
	for {
		changed := k.Engine.Jobs().Changed() // before what follows looks at the jobs
		k.listen()
		if k.rest(check); k.state.ended {
			return k.state.how
		}
		if (k.state.client != nil || k.Lone != "") && k.state.door != errNotYet {
			changed = nil // nothing to decide: jobs change often
		}
		select {
		case f := <-k.do:
			f()
		case <-changed:
		case <-check.C:
		case <-ctx.Done():
			return ""
		case <-k.Engine.Ending(): // its tenant has no token any more
			return ""
		}
	}
}

// in runs f on the state and reports whether it did: the Keeper may have ended.
func (k *Keeper) in(f func(*state)) bool {
	done := make(chan struct{})
	select {
	case k.do <- func() { defer close(done); f(&k.state) }:
		<-done
		return true
	case <-k.ending:
		return false
	}
}

// unreadTime is how long the ends of kept jobs wait for a client if there are no records of them.
const unreadTime = 24 * time.Hour

// unread reports whether jobs have ended since the last client left, and can't be read once the
// engine has ended.
func (k *Keeper) unread(s *state) bool { return k.ended() > s.unread && !k.Engine.Recorded() }

// rest ends an engine without a client if its time is over or it has nothing to lose. Jobs and
// sessions that the client wants to be kept are not ended, but everything else is then. check fires
// when rest must be asked again.
func (k *Keeper) rest(check *time.Timer) {
	s := &k.state
	if s.client != nil || s.left.IsZero() || k.Lone != "" {
		check.Reset(attendedPause)
		return
	}
	w, next := k.welcome(s), pause(s.left)
	switch {
	case !w.Trims.IsZero() && time.Until(w.Trims) <= 0:
		s.trimmed = true
		k.Engine.EndUnkept(s.how)
	case !w.Trims.IsZero():
		next = min(next, time.Until(w.Trims))
	case w.Ends.IsZero(): // kept jobs hold it
	case time.Until(w.Ends) <= 0, !k.unread(s) && k.Engine.Rests():
		s.ended = true
	default:
		next = min(next, time.Until(w.Ends))
	}
	check.Reset(next)
}

// ended returns the number of jobs that have ended.
func (k *Keeper) ended() (n int) {
	for _, ended := range k.Engine.Jobs().Totals().Ended {
		n += int(ended)
	}
	return n
}

// Wait waits until all connections have ended, or ctx is done. What they have not written then is
// lost.
func (k *Keeper) Wait(ctx context.Context) {
	ended := make(chan struct{})
	go func() { // owned by Wait; ends with the connections, or with the process
		k.conns.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// welcome describes the engine to the other side of a connection.
func (k *Keeper) welcome(s *state) sockets.Welcome {
	w := sockets.Welcome{Version: k.Version, Workspace: k.workspace, PID: k.Around.PID(), Since: k.Since, Lone: k.Lone != ""}
	if w.Attended = s.client != nil || k.Lone != ""; !w.Attended {
		w.Left = s.left
	}
	w.Kept, w.KeptSessions = k.Engine.Kept()
	w.Kept += w.KeptSessions
	switch {
	case w.Attended:
	case w.Kept > 0 && !s.trimmed:
		w.Trims = s.ends
	case w.Kept > 0:
	case s.trimmed && k.unread(s):
		w.Ends = s.left.Add(unreadTime)
	default:
		w.Ends = s.ends
	}
	return w
}

package server

import (
	"context"
	"strings"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/files"
	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A Backend makes and describes jobs: an [engine.Engine], or a fake in tests. Its methods are safe
// for concurrent use and do not wait, except for Branch, and Create with a Python of its own. Their
// errors are shown to clients and say how to fix the problem.
type Backend interface {
	// Jobs returns the registry in which the tools start and find jobs.
	Jobs() *jobs.Registry
	// Session returns a Python session. If there is none, the error is an [*engine.NoSessionError].
	Session(name string) (engine.Session, error)
	// Open returns a Python session for a job, and reports whether it had to make it.
	Open(sc engine.Scope, name string) (s engine.Session, made bool, err error)
	// Create makes a Python session that does not exist. install is the installation of its packages, or
	// nil. It can take as long as the start of an interpreter.
	Create(ctx context.Context, sc engine.Scope, spec engine.SessionSpec) (s overview.Session, install *engine.Install, err error)
	// Branch makes a Python session that continues with the variables of another one. It waits for
	// its turn there until ctx is done.
	Branch(ctx context.Context, from, name string) (overview.Session, engine.Shared, error)
	// Replay returns what runs code in the state after a job, in a new Python session.
	Replay(job jobs.Record) (engine.Replay, error)
	// Continue is Branch from the state after a job. The error is engine.ErrNotKept if that is not
	// there any more.
	Continue(ctx context.Context, job jobs.Record, name string) (overview.Session, engine.Shared, error)
	// Sessions returns the state of the sessions, and how many are allowed at once.
	Sessions() (list []overview.Session, limit int)
	// Delete ends a Python session for good. kept is the directory of its own environment, which
	// stays, or empty.
	Delete(name string, by jobs.By, reason string) (wait func(context.Context) (engine.End, error), kept func() string, err error)
	// Keep lets a Python session outlive the goodbye of its client.
	Keep(session string)
	// Losses returns the deaths of idle Python interpreters that no job's receipt reports.
	Losses() []*engine.Loss
	// Killed says what servers in the workspace took along when they were killed, a line for each. It
	// does so until KilledSaid is called, and the next server, too.
	Killed() []string
	KilledSaid()
	// Sandbox says in a line what jobs can reach, or returns "" if there is no sandbox.
	Sandbox() string
	// Unprotected says of each file that the sandbox protects no more what jobs can do to it now, in a
	// line.
	Unprotected() []string
	// Shell returns a runner of one command line.
	Shell(sc engine.Scope, c engine.Command) (jobs.Runner, error)
	// Install returns an install of packages for a session, and reports whether it had to make the
	// session.
	Install(sc engine.Scope, session, packages string) (install *engine.Install, made bool, err error)
	// TakeNote returns what a client should know about its Python environment if that was made since
	// the last call, or "".
	TakeNote(sc engine.Scope) string
	// Status returns the state of the server.
	Status(sc engine.Scope) overview.Server
}

// A Keep says what becomes of a job that a call wants to be kept.
type Keep int

const (
	KeepRefused Keep = iota // the server ends with its client, so such calls are refused
	KeepLonger              // the job continues when its client has said goodbye
	KeepServer              // clients end nothing when they leave, so the job ends with the server
)

// keepText says in replies about a kept job how long it is kept.
var keepText = map[Keep]string{
	KeepLonger: "continues when this client quits; a Python session stays, too, until it was idle for 24 hours",
	KeepServer: "continues when this client quits, and ends with the server",
}

// keptSession says of a kept job of Python that has ended at once what is kept of it.
const keptSession = "the session stays when this client quits, until it was idle for 24 hours"

// MostChars are the most characters that a call or Config.MaxChars can ask for.
const MostChars = arguments.MaxText

// Handshake are the methods of requests that a server answers without a Backend: those of the handshake,
// and the lists that never change.
var Handshake = []string{"initialize", "ping", "server/discover", "tools/list", "resources/templates/list"}

// A Config is shared by all connections.
type Config struct {
	// Backend makes the jobs. Nil: the server is given only requests that depend on none, see
	// [Handshake].
	Backend  Backend
	Version  string   // the program's version, for clients
	By       jobs.By  // the cause that cancels and input of these connections have; empty: the agent
	Toolsets []string // what clients are offered, see [ParseToolsets]; nil: core and sessions
	// MaxChars bounds the replies of calls that don't set max_chars, for clients that cut long ones. 0:
	// 16,000.
	MaxChars int
	// NoImages keeps image blocks out of replies, for clients that would give them to their model as
	// text. The lines that name images and the resources that hold them stay.
	NoImages bool
	// Page is where a person can watch and answer the jobs: an address, or a command. Empty: nowhere.
	Page string
	Keep Keep // says what becomes of jobs that a call wants to be kept
	// CanKeep returns why no job can be kept, although Keep says so. Nil: they can be.
	CanKeep func() error
	// Found returns once later clients can find the engine with the jobs that it has. It is called
	// before each answer: a client that is lost right after it must find the job again. Nil: none can.
	Found func()
	// Elsewhere returns what other engines keep in this workspace, or nil while that is not known. The first
	// reply after that says it. Nil: there are no other engines.
	Elsewhere func() *Kept
	// Older describes engines of the same workspace that only another version of the program can reach. The
	// first reply says so. Empty: there are none.
	Older string
	// Notices are what replies have said to the client, by this connection and by those before it. Nil: the connection has
	// its own.
	Notices *report.Notices
	// Resumes is the number of clients that the engine had before this one, whose jobs and sessions the first
	// reply names. 0: there was none.
	Resumes  int
	Places   Places        // the other machines at which jobs can run; nil: there are none
	Files    *files.Store  // the toolset files uses it; nil: the server makes a store
	Progress time.Duration // how long a call waits before its first progress notification; 0: 1 s
	// PictureWait is how long an answer with pictures waits while others on the same connection have
	// not been read. Then it goes without them. 0: as long as its call.
	PictureWait time.Duration
}

// Kept counts what survives the goodbye of a client: jobs, and sessions that none of them uses.
type Kept struct{ Jobs, Sessions int }

func (k Kept) String() string {
	var counts []string
	if k.Jobs > 0 {
		counts = append(counts, view.CountOf(k.Jobs, "job"))
	}
	if k.Sessions > 0 {
		counts = append(counts, view.CountOf(k.Sessions, "session"))
	}
	return strings.Join(counts, ", ")
}

//go:build unix

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/history"
	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/jobs"
	"asyncrepl/pkgmgr"
	"asyncrepl/pyrepl"
	"asyncrepl/shell"
)

// A Config configures an engine.
type Config struct {
	Version   string   // Status reports this version of the program
	Guard     []string // the guard's command line; empty: processes remain if the server is killed
	Pip       []string // the command line that the pip of jobs runs; empty: jobs have no such pip
	Workspace string   // an absolute path, the workspace of clients that bring none
	Shell     string   // the absolute path of a shell that takes -c

	// GuardEnv is the guard's environment, as KEY=value. The environment of jobs comes from a
	// Client.
	GuardEnv []string

	Python  string // the interpreter, used as is; empty: the virtual environment's interpreter
	VenvDir string // the virtual environment; empty: the active one, else .venv in the workspace
	// StateDir holds records of jobs and long output. It is made on first use. Empty: neither can be
	// kept.
	StateDir string
	// Placed says that the engine is at a place: errors name the keys of the file of places in the stead of settings,
	// which a person can't set for it.
	Placed bool
	// NoHistory keeps the engine from recording its jobs: what it writes to StateDir ends with it.
	NoHistory bool
	// OnlyReads is for a person's command that shows what past servers have recorded, of all
	// workspaces. It leaves it to the next server to account for those that were killed.
	OnlyReads bool
	Tenant    string // the tenant, in the records; empty: there is only one

	MaxJobs     int // limits the jobs that run at once; others are queued
	MaxSessions int // limits the sessions that exist at once

	// SessionTTL is how long a session can be idle before the engine ends it. Without it, the
	// interpreters of sessions that clients have forgotten keep their memory until the server ends.
	// 0: sessions are never ended.
	SessionTTL time.Duration

	MemoryMB  int   // each process of a session is limited to so many MiB; 0: no limit
	MaxOutput int64 // bytes of output kept per job
	MaxState  int64 // bytes of output kept on disk, all jobs together; a tenth is for past runs

	Pythons Pythons // makes the sessions; nil: package pyrepl makes them

	// Away returns what the jobs of an engine use at other places. It is called once, with the engine and
	// its log. Nil: there are no places.
	Away func(*Engine, *slog.Logger) (Away, error) `json:"-"`

	// Sandbox is the sandbox that the engine runs in; nil: there is none. It is no setting, so an engine
	// has the same identity with it.
	Sandbox *Confinement `json:"-"`
	// PID is the process by which others know the server, because that of a server in a sandbox has
	// another number outside. 0: this process.
	PID int `json:"-"`

	Since time.Time    // when the server started, before its engines; zero: with this one
	Log   *slog.Logger // receives the events that concern all clients; nil: nothing is logged
}

// An Engine is the registry and the sessions of one server, and the environments of its clients.
// All connections share it.
type Engine struct {
	config  Config
	started time.Time
	owner   *process.Owner
	jobs    *jobs.Registry
	records *history.Store
	kept    pyrepl.Checkpoints
	away    Away // nil: there are no places

	settling sync.Mutex // held while killed engines are accounted for
	settled  bool       // all are
	killed   []string   // see Killed

	keptRest time.Duration // the constant, except in tests
	seals    sealCheck

	ending context.Context // done when the engine ends
	end    func()          // makes ending done

	// deactivates reports whether an active environment of Python that a client's variables name is
	// the server's. A tenant with its own workspace must not install into the server's environment.
	deactivates bool

	// basesMu is a second lock, because making a base reads directories and every call needs mu.
	basesMu sync.Mutex
	bases   []*base // guarded by basesMu

	// Guarded by mu.
	mu       sync.Mutex
	denied   jobs.Denied               // connections of no job that the sandbox refused
	sessions map[string]*session       // the keys are names
	shells   map[string]*shell.Session // the keys are names
	expired  map[string]*expired       // sessions that ended because they were idle; the keys are names
	expiry   *time.Timer               // runs the next check for idle sessions; nil: none is due
	closed   bool
}

// New makes an engine.
func New(c Config) (*Engine, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Pythons == nil {
		c.Pythons = pyrepls{}
	}
	c.PID = cmp.Or(c.PID, os.Getpid())
	warn(c.Log)
	if err := canLimitMemory(); err != nil && c.MemoryMB > 0 {
		return nil, fmt.Errorf("REPL_MEMORY_MB can't be used: %w", err)
	}
	owner, err := process.NewOwner(process.Config{Guard: c.Guard, GuardEnv: c.GuardEnv, Log: c.Log})
	if err != nil {
		return nil, err
	}
	e := &Engine{
		config: c, started: time.Now(), owner: owner, keptRest: keptRest,
		sessions: make(map[string]*session), expired: make(map[string]*expired),
	}
	e.ending, e.end = context.WithCancel(context.Background())
	e.records = history.Open(history.Config{
		State: c.StateDir, Workspace: c.Workspace, Tenant: c.Tenant, Version: c.Version, PID: c.PID,
		Off: c.NoHistory, OnScratch: owner.RemoveAtEnd, Everywhere: c.OnlyReads, Mark: owner.Mark,
		Kill:     func(mark string) ([]process.Marked, error) { return process.KillMarked(mark, killedLimit) },
		MaxBytes: c.MaxState / pastShare, Log: c.Log,
	})
	all := jobs.Config{
		MaxRunning: c.MaxJobs,
		Since:      c.Since,
		Log:        c.Log,
		Bug:        func(msg string) { c.Log.Error("internal error", "what", msg) },
		Logs: output.NewStore(output.Config{
			Cap: c.MaxOutput, Disk: c.MaxState, Dir: e.records.Dir, Others: e.records.Taken, MakeRoom: e.records.MakeRoom,
		}),
	}
	if !c.NoHistory {
		all.Store = e.records
	}
	e.jobs = jobs.NewRegistry(all)
	if c.Away != nil {
		if e.away, err = c.Away(e, c.Log); err != nil {
			e.Close()
			return nil, err
		}
	}
	return e, nil
}

// pastShare is the part of Config.MaxState that past runs can take.
const pastShare = 10

// Used reports whether the engine has had a job.
func (e *Engine) Used() bool {
	totals := e.jobs.Totals()
	return len(totals.Now)+len(totals.Ended) > 0
}

// LogPath returns the path of a file for what is logged while no client is connected. It is one of the
// run's, so there is none before the first job.
func (e *Engine) LogPath() (string, error) {
	if !e.Used() {
		return "", errors.New("the engine has had no job")
	}
	dir, err := e.records.Dir()
	return filepath.Join(dir, "log"), err
}

// Workspace returns the workspace of clients that bring none.
func (e *Engine) Workspace() string { return e.config.Workspace }

// Recorded reports whether the jobs can still be read once the engine has ended.
func (e *Engine) Recorded() bool { return !e.config.NoHistory && e.records.Status().Failure == nil }

// Ending returns a channel that is closed when the engine begins to end.
func (e *Engine) Ending() <-chan struct{} { return e.ending.Done() }

// Jobs returns the registry of all jobs.
func (e *Engine) Jobs() *jobs.Registry { return e.jobs }

// A Command is one command line to run.
type Command struct {
	Line    string            // the argument of the shell's -c; it can have several lines
	Dir     string            // an existing directory; empty: the session's, or the workspace
	Env     map[string]string // added to the scope's environment
	TTY     bool              // the command runs on a terminal; else on pipes
	Session string            // the shell session that gives the command its state; empty: none
}

// Shell returns the runner of a command line. A person's BASH_ENV and ENV name files that shells
// read at their start (https://www.gnu.org/software/bash/manual/bash.html#Bash-Startup-Files). They
// would change what scripts do, so Shell drops both variables unless c sets them.
func (e *Engine) Shell(sc Scope, c Command) (jobs.Runner, error) {
	env := slices.DeleteFunc(withPrograms(sc.base.packages, sc.Env), func(kv string) bool {
		return strings.HasPrefix(kv, "BASH_ENV=") || strings.HasPrefix(kv, "ENV=")
	})
	if c.Session != "" {
		s, err := e.shellSession(c.Session, sc.Workspace)
		if err != nil {
			return nil, err
		}
		line := shell.Line{Owner: e.owner, Shell: e.config.Shell, Text: c.Line, Dir: c.Dir, Env: env, Given: c.Env, TTY: c.TTY}
		return pipWatch{s.Runner(line)}, nil
	}
	for name, value := range c.Env {
		env = append(env, name+"="+value) // the last one counts
	}
	dir := cmp.Or(c.Dir, sc.Workspace)
	return pipWatch{&shell.Command{Owner: e.owner, Argv: shell.Script(e.config.Shell, c.Line), Dir: dir, Env: env, TTY: c.TTY}}, nil
}

// onTerminal returns the runner of a program on a terminal.
func (e *Engine) onTerminal(argv, env []string, dir string) jobs.Runner {
	return &shell.Command{Owner: e.owner, Argv: argv, Env: env, Dir: dir, TTY: true}
}

// An Install is an install of packages that can be started as a job.
type Install struct {
	Run  jobs.Runner
	Site string // the front end sets it in the jobs.Spec of the install
}

// Install returns an install of packages into the environment of a session, and reports whether it
// had to make the session.
func (e *Engine) Install(sc Scope, session, packages string) (install *Install, created bool, err error) {
	env := e.environmentOf(sc, session)
	run, err := env.Install(packages)
	if err != nil {
		return nil, false, err
	}
	if _, created, err = e.open(sc, session, false); err != nil {
		return nil, false, err
	}
	return &Install{run, siteOf(env)}, created, nil
}

// siteOf returns a name for an environment that no other has, or "" if it can't be used.
func siteOf(packages *pkgmgr.Manager) string {
	d, _ := packages.Describe() // the install says why it can't be used
	return d.Python
}

// TakeNote returns a note for the client if its Python environment was made since the last call, or
// "".
func (e *Engine) TakeNote(sc Scope) string { return sc.base.packages.TakeNote() }

// shutdownStep is the time between the two rungs, terminate and kill, of a shutdown.
const shutdownStep = 150 * time.Millisecond

// Close is CloseBy at the end of the server.
func (e *Engine) Close() { e.CloseBy(jobs.Shutdown) }

// CloseBy ends every job, every session and every process, and waits until they have ended. The
// receipts of the jobs name the cause. It ends jobs and process trees in parallel, so that a job with
// a runner that waits for something else does not delay the signals to the trees. Idle sessions let
// Python exit meanwhile. It closes the sessions last, when no job uses them.
func (e *Engine) CloseBy(cause jobs.By) {
	e.end()
	e.stopExpiry()
	e.records.Closing()
	stop := jobs.Stop{By: cause, From: jobs.Terminate, Step: shutdownStep}
	e.jobs.StopAll(stop) // before the first signal, so that receipts say what ended a job
	awayEnded := e.closeAway()
	exited := e.config.Pythons.LetExit(e.all())
	var ending sync.WaitGroup
	ending.Go(func() { e.jobs.Close(stop) }) // joined below; ends when all jobs have ended
	e.owner.Shutdown()
	awayEnded()
	ending.Wait()
	if cut := exited(); len(cut) > 0 {
		e.config.Log.Warn("shutdown cut off the exit of idle Python sessions", "sessions", cut)
	}
	for _, s := range e.all() {
		s.Close()
	}
	e.basesMu.Lock()
	defer e.basesMu.Unlock()
	closed := make(map[*pkgmgr.Manager]bool)
	for _, b := range e.bases {
		if !closed[b.packages] {
			closed[b.packages] = true
			b.packages.Close()
		}
	}
	e.records.Close()
}

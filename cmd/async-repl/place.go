//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/keeper"
	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place/door"
	"asyncrepl/internal/place/far"
	"asyncrepl/jobs"
)

// dialCommand is the subcommand that joins a carrier with the engine at a place, and placedCommand
// that of this engine. Both run on the machine of the place and are started by this program, so help
// names neither.
const (
	dialCommand   = "dial"
	placedCommand = "placed"
)

// goneStatus is the exit status of dial if the engine that it should join has ended.
const goneStatus = 3

// inheritedLock is the descriptor of the lock that an engine at a place has from dial.
const inheritedLock = 3

// dialEngine finds the engine of a key, prints its greeting and joins the standard streams with it.
func dialEngine(ctx context.Context, args []string, std standardStreams) int {
	flags := flag.NewFlagSet(dialCommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	text := flags.String("settings", "", "")
	start := flags.String("start", "", "")
	join := flags.Bool("join", false, "")
	err := flags.Parse(args)
	if err == nil && flags.NArg() != 1 {
		err = errors.New("one key is needed")
	}
	var s far.Settings
	if err == nil && *start == "" && !*join {
		s, err = placeSettings(*text)
	}
	if err == nil && s.Key != "" && s.Key != flags.Arg(0) {
		err = fmt.Errorf("the settings are for the key %q", s.Key)
	}
	if err != nil {
		fmt.Fprintf(std.err, "async-repl: %v: this command is for the server itself\n", err)
		return 2
	}
	d, err := door.Open(temporary(), flags.Arg(0))
	if err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return 1
	}
	search := door.Search{Start: *start}
	if *start == "" && !*join {
		search.Launch = func(lock, log *os.File) (<-chan struct{}, error) { return launchEngine(*text, lock, log) }
	}
	conn, greeting, err := d.Find(ctx, search)
	if errors.Is(err, door.ErrGone) {
		return sayGone(std)
	}
	if err != nil {
		fmt.Fprintf(std.err, "async-repl: %s\n", printable([]byte(err.Error())))
		return 1
	}
	if _, err = std.out.Write(far.Answer{Greeting: greeting}.Line()); err == nil {
		err = conn.Join(std.in, std.out)
	}
	if err != nil {
		fmt.Fprintln(std.err, "async-repl: joining the engine:", err)
		return 1
	}
	return 0
}

// temporary returns the directory for temporary files. A TMPDIR that does not exist does not count: a login can name
// the directory of an allocation that has ended.
func temporary() string {
	dir := os.TempDir()
	if _, err := os.Stat(dir); filepath.IsAbs(dir) && errors.Is(err, fs.ErrNotExist) {
		return "/tmp"
	}
	return dir
}

// sayGone prints that the engine has ended.
func sayGone(std standardStreams) int {
	here, err := greeting("")
	if err == nil {
		_, err = std.out.Write(far.Answer{Greeting: here, Gone: true}.Line())
	}
	if err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return 1
	}
	return goneStatus
}

// greeting returns the greeting of an engine on this machine.
func greeting(start string) (far.Greeting, error) {
	machine, err := os.Hostname()
	if err != nil {
		return far.Greeting{}, fmt.Errorf("finding the name of this machine: %w", err)
	}
	boot, err := sockets.BootID()
	if err != nil {
		return far.Greeting{}, fmt.Errorf("finding out when this machine was started: %w", err)
	}
	return far.Greeting{Protocol: far.Protocol, Version: ownVersion(), Machine: machine, Boot: boot, Start: start, PID: os.Getpid()}, nil
}

// placeSettings reads the settings of an engine at a place.
func placeSettings(text string) (s far.Settings, err error) {
	if err = json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("-settings can't be read: %w", err)
	}
	switch {
	case !filepath.IsAbs(s.Workspace):
		err = fmt.Errorf("the workspace %q is no absolute path", s.Workspace)
	case s.MaxJobs < 1 || s.MaxSessions < 1 || s.MaxOutput < 1 || s.MaxState < 1:
		err = fmt.Errorf("-settings need limits of jobs, sessions, output and state: %s", text)
	case s.Linger < 0 || s.Idle < 0 || s.MemoryMB < 0 || s.SessionTTL < 0 || s.Timeout < 0:
		err = fmt.Errorf("-settings have a limit below 0: %s", text)
	}
	return s, err
}

// launchEngine starts an engine that outlives this process: it leads a session of its own and has nothing
// of the link.
func launchEngine(settings string, lock, log *os.File) (<-chan struct{}, error) {
	line, err := ownLine(placedCommand)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(line[0], append(line[1:], "-settings", settings, "-locked")...)
	cmd.Args[0] = "async-repl"
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { // owned by the process of dial, which can end earlier; ends with the engine
		defer close(ended)
		cmd.Wait()
	}()
	return ended, nil
}

// placed is the engine at a place. It serves servers on other machines until it is asked to end.
func placed(ctx context.Context, args []string, std standardStreams) int {
	signals := catchSignals()
	defer signals.release()
	flags := flag.NewFlagSet(placedCommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	text := flags.String("settings", "", "")
	locked := flags.Bool("locked", false, "")
	stderr, ok := std.err.(*os.File)
	err := flags.Parse(args)
	if err == nil && (flags.NArg() > 0 || !ok) {
		err = errors.New("it takes no arguments")
	}
	var s far.Settings
	if err == nil {
		s, err = placeSettings(*text)
	}
	if err != nil {
		fmt.Fprintf(std.err, "async-repl: %v: this command is for the server itself\n", err)
		return 2
	}
	if err := serveLinks(ctx, s, *locked, signals, stderr); err != nil {
		fmt.Fprintln(stderr, "async-repl:", err)
		return 1
	}
	return 0
}

// serveLinks makes the engine of the settings and serves it at the door of its key.
func serveLinks(ctx context.Context, s far.Settings, locked bool, signals caughtSignals, stderr *os.File) error {
	d, err := door.Open(temporary(), s.Key)
	if err != nil {
		return err
	}
	lock, err := takeLock(d, locked)
	if err != nil {
		return err
	}
	defer lock.Close() // last: the lock says that this engine lives
	defer d.Leave()
	closeInherited()
	os.Stdout = os.Stderr
	if err := os.Chdir("/"); err != nil { // the current directory can be removed
		return err
	}
	level := new(slog.LevelVar)
	path := func() (string, error) { return d.LogPath(), nil }
	trail := &keeper.Trail{Stderr: stderr, Writer: newLogWriter(stderr), Path: path, Level: level.Set}
	log := slog.New(slog.NewTextHandler(trail, &slog.HandlerOptions{Level: level}))
	config, err := placeConfig(s, os.Getenv, log)
	if err != nil {
		return err
	}
	start := rand.Text()
	g, err := greeting(start)
	if err != nil {
		return err
	}
	eng, err := engine.New(config)
	if err != nil {
		return err
	}
	l, err := d.Listen(g, log)
	if err != nil {
		eng.Close()
		return err
	}
	trail.Detach() // until now errors go to the process that has started this one
	p := &placedEngine{Engine: eng, settings: s, records: config.StateDir, door: d, links: l, began: time.Now(), unused: time.Now(), goodbyes: make(chan struct{})}
	<-signals.caught
	ctx, cancel := signals.context(ctx, log)
	defer cancel()
	ended := make(chan struct{})
	requests := p.farConfig(start, config)
	requests.Ended = ended
	server := far.NewServer(far.Handler(requests))
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // about links that were cut
	served := make(chan error, 1)                                       // buffered: it may come after the end
	go func() {                                                         // owned by serveLinks; ends with the listener
		served <- server.Serve(far.Listener{Listener: l})
	}()
	d.Sweep()
	sweepRecords(config.StateDir)
	cause := p.untilEnd(ctx)
	l.Close() // no server finds the engine any more
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	endWithin(endTime-answerTime, log, func() { eng.CloseBy(cause) })
	close(ended)
	server.Shutdown(limited) // the ends of jobs are on their way
	<-served
	if (s.NoHistory || p.dismissed) && config.StateDir != "" { // its server has read the records
		os.RemoveAll(config.StateDir)
		os.Remove(filepath.Dir(config.StateDir)) // an error: it has those of other keys
	}
	return nil
}

// recordsAge is how long records of a killed engine are kept after its end. They are those of its jobs whose output has
// not crossed the link, and the next engine of its key has them. Servers keep records as long.
const recordsAge = 7 * 24 * time.Hour

// sweepRecords removes the records that killed engines of other keys have left. dir is that of this engine; empty: it
// has none.
func sweepRecords(dir string) {
	touchRecords(dir) // before another engine can take them for old ones
	if dir == "" {
		return
	}
	all := filepath.Dir(dir)
	entries, _ := os.ReadDir(all) // an error: there is nothing to remove
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && e.Name() != filepath.Base(dir) && time.Since(info.ModTime()) > recordsAge {
			os.RemoveAll(filepath.Join(all, e.Name())) // an error: the next engine tries again
		}
	}
}

// touchRecords notes that the engine of the records lives. Its home can be that of several machines, where a lock
// says nothing.
func touchRecords(dir string) { os.Chtimes(dir, time.Now(), time.Now()) } // an error: there are none

// takeLock returns the lock of the key, which this process may have from dial.
func takeLock(d *door.Door, inherited bool) (*os.File, error) {
	if !inherited {
		return d.Take()
	}
	unix.CloseOnExec(inheritedLock)
	lock := os.NewFile(inheritedLock, "the lock")
	return lock, d.Taken(lock)
}

// placeConfig returns the configuration of an engine at a place. It has none of the settings of this
// machine: only those of the server count.
func placeConfig(s far.Settings, getenv func(string) string, log *slog.Logger) (engine.Config, error) {
	if st, err := os.Stat(s.Workspace); err != nil || !st.IsDir() {
		return engine.Config{}, fmt.Errorf("the workspace %s is not a directory that exists: make it", s.Workspace)
	}
	shell, err := findShell("")
	if err != nil {
		return engine.Config{}, err
	}
	c := engine.Config{
		Version: ownVersion(), Workspace: s.Workspace, Shell: shell, GuardEnv: os.Environ(), Python: s.Python, Placed: true, NoHistory: s.NoHistory,
		MaxJobs: s.MaxJobs, MaxSessions: s.MaxSessions, SessionTTL: s.SessionTTL,
		MemoryMB: s.MemoryMB, MaxOutput: s.MaxOutput, MaxState: s.MaxState, Since: time.Now(), Log: log,
	}
	if state := defaultStateDir(getenv); state != "" {
		c.StateDir = filepath.Join(state, "places-far", s.Key)
	}
	if c.Guard, err = ownLine(guardCommand); err == nil {
		c.Pip, err = commandLine(pipCommand)
	}
	return c, err
}

// A placedEngine is the engine at a place, and what decides when it ends.
type placedEngine struct {
	*engine.Engine
	settings far.Settings
	records  string // the directory of its records, which need not exist; empty: there is none
	door     *door.Door
	links    *door.Listener
	began    time.Time
	goodbyes chan struct{} // received by untilEnd

	dismissed bool // a server has ended it; set by untilEnd

	// Guarded by mu.
	mu     sync.Mutex
	unused time.Time // since when the engine is unused, by the last call of state
	ended  int64     // the jobs that had ended then
}

// farConfig returns what serves the requests of servers.
func (p *placedEngine) farConfig(start string, c engine.Config) far.Config {
	scope := p.Scope(engine.Client{Env: c.GuardEnv, Timeout: p.settings.Timeout, Log: c.Log})
	shared := server.Config{Backend: p, Version: c.Version, Keep: server.KeepLonger}
	return far.Config{
		Start: start, Jobs: p.Jobs(), End: p.end, Trim: p.EndUnkept, State: p.state,
		Run: func(ctx context.Context, id, tool string, args json.RawMessage, keep bool) error {
			return server.StartAs(ctx, shared, scope, id, tool, args, keep)
		},
		Call: func(ctx context.Context, tool string, args json.RawMessage, begun func()) (string, bool) {
			return server.CallTool(ctx, shared, scope, tool, args, begun)
		},
	}
}

// end is the goodbye of a server.
func (p *placedEngine) end() {
	select {
	case p.goodbyes <- struct{}{}:
	case <-p.Ending():
	}
}

// state returns what a server shows of the engine, and needs to decide whether it can end.
func (p *placedEngine) state() far.State {
	python, _ := p.Sessions()
	s := far.State{Keeps: p.keeps(), Unused: p.Rests(), Python: python}
	for _, session := range python {
		s.Names = append(s.Names, session.Name)
	}
	for _, session := range p.Shells() {
		s.Names = append(s.Names, session.Name)
	}
	totals, ended := p.Jobs().Totals(), int64(0)
	for _, n := range totals.Now {
		s.Jobs += n
	}
	for _, n := range totals.Ended {
		ended += n
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); s.Unused && ended == p.ended {
		s.Since = now.Sub(p.unused)
	} else { // it was used since the last question, or is used
		p.ended, p.unused = ended, now
	}
	return s
}

// unusedTime is how long an engine continues that no server has reached.
const unusedTime = time.Minute

// untilEnd returns when the engine must end: because a server has said so and nothing is kept, because
// none was connected for too long, or because ctx is done. It returns the cause of the ends of jobs.
//
// If something is kept, the rest ends at the goodbye, or when no server came back in time. Once nothing
// is kept any more, the engine waits for the server that reads how the jobs ended, as long as it would
// wait for one that was lost.
func (p *placedEngine) untilEnd(ctx context.Context) (how jobs.By) {
	unread, unused := p.settings.Linger, unusedTime
	if idle := p.settings.Idle; idle > 0 { // an allocation
		unread, unused = min(unread, idle), idle
	}
	tick := time.NewTicker(checkTime)
	defer tick.Stop()
	var trimmed *door.Visits // the visits when the unkept jobs were ended; nil: they were not
	var empty time.Time      // since when nothing is kept any more; zero: something is
	for {
		changed := p.Jobs().Changed() // before the jobs are checked below
		visits, ends := p.links.Visits(), time.Time{}
		trim := func() {
			p.EndUnkept(how)
			trimmed, empty = &visits, time.Time{}
		}
		if trimmed != nil && visits.Total > trimmed.Total { // a server has come back
			trimmed = nil
		}
		switch {
		case trimmed != nil && p.keeps():
		case trimmed != nil:
			if empty.IsZero() {
				empty = time.Now()
			}
			ends = empty.Add(unread)
		case visits.Now > 0:
		case visits.Total == 0:
			ends, how = p.began.Add(unused), jobs.ClientGone
		default:
			ends, how = visits.Left.Add(p.settings.Linger), jobs.ClientGone
		}
		if trimmed == nil {
			changed = nil // nothing to decide: jobs change often
		}
		var late <-chan time.Time
		if !ends.IsZero() {
			late = time.After(time.Until(ends))
		}
		select {
		case <-changed:
		case <-p.links.Changed():
		case <-tick.C:
			p.door.Touch()
			touchRecords(p.records)
		case <-late:
			if trimmed != nil || !p.keeps() {
				return how
			}
			trim()
		case <-p.goodbyes:
			if how = jobs.Shutdown; !p.keeps() {
				p.dismissed = true
				return how
			}
			trim()
		case <-ctx.Done():
			return jobs.Shutdown
		}
	}
}

// checkTime is the time between two checks of what nothing announces: that a kept session was idle for
// too long. The files of the door are touched then, too.
const checkTime = time.Minute

// keeps reports whether there is a kept job or session.
func (p *placedEngine) keeps() bool {
	jobs, sessions := p.Kept()
	return jobs+sessions > 0
}

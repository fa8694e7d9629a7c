//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/keeper"
	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
)

// engineCommand is the subcommand of an engine in a process of its own. Only a front uses it, so
// help does not name it.
const engineCommand = "engine"

// firstClient is the descriptor that the front of the first client is connected to.
const firstClient = 3

// engineOfClients runs an engine for clients that come and go. The front has started it in a
// session of its own.
func engineOfClients(ctx context.Context, args []string, std standardStreams) int {
	signals := catchSignals()
	defer signals.release()
	stderr, ok := std.err.(*os.File)
	if !ok {
		return 1
	}
	unix.CloseOnExec(firstClient)
	first, err := sockets.FileConn(os.NewFile(firstClient, "the front"))
	if err != nil {
		fmt.Fprintf(stderr, "async-repl: descriptor %d is no connection to a front (%v): this command is for the server itself\n", firstClient, err)
		return 1
	}
	var said strings.Builder
	set, status, ok := configured(false, args, standardStreams{std.in, std.out, io.MultiWriter(stderr, &said)})
	if !ok {
		first.Refuse(said.String())
		return status
	}
	if err := serveClients(ctx, set, signals, stderr, first); err != nil {
		first.Refuse(err.Error())
		fmt.Fprintln(stderr, "async-repl:", err)
		return 1
	}
	return 0
}

func serveClients(ctx context.Context, set settings, signals caughtSignals, stderr *os.File, first *sockets.Conn) error {
	closeInherited()
	if err := os.Chdir("/"); err != nil { // the directory of the client can be removed
		return err
	}
	level := new(slog.LevelVar)
	level.Set(set.logLevel)
	var eng *engine.Engine
	path := func() (string, error) { return eng.LogPath() } // called only once a client has left
	trail := &keeper.Trail{Stderr: stderr, Writer: newLogWriter(stderr), Path: path, Level: level.Set}
	defer trail.Close()
	set.Log = slog.New(slog.NewTextHandler(trail, &slog.HandlerOptions{Level: level}))
	var err error
	if eng, err = set.newEngine(); err != nil {
		return err
	}
	<-signals.caught
	config := set.keeper(eng)
	config.Trail = trail
	if set.StateDir != "" && !set.NoHistory {
		config.Unsaid = filepath.Join(set.StateDir, "unsaid")
	}
	k := keeper.New(config)
	ctx, end := signals.context(ctx, set.Log)
	defer end()
	cause := k.Run(ctx, first)
	if cause == "" {
		endWithin(exitTime, set.Log, func() {
			eng.Close()
			k.Finish()
			k.Wait(context.Background())
		})
		return nil
	}
	eng.CloseBy(cause)
	k.Finish()
	k.Wait(ctx)
	return nil
}

// closeInherited closes the descriptors that this process has from the one that started it, except
// the standard ones: those that are not closed at an exec. All that this program opens are.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

// newEngine returns an engine with these settings.
func (s *settings) newEngine() (*engine.Engine, error) {
	eng, err := engine.New(s.Config)
	if err == nil && s.inside != nil {
		s.inside.noteDenials(eng)
	}
	return eng, err
}

// keeper returns the configuration of a keeper of an engine.
func (s *settings) keeper(eng *engine.Engine) keeper.Config {
	c := keeper.Config{
		Places: s.placesOf(eng),
		Env:    s.GuardEnv, Engine: eng, Version: s.Version, Since: s.Since, Around: s.surroundings(),
		Linger: s.linger, LingerGoodbye: s.lingerGoodbye, Page: s.pageAt, NoPage: s.page == "off", Log: s.Log,
	}
	if s.inside != nil {
		c.Around, c.Environ = s.inside, s.inside.environ
	}
	return c
}

// surroundings returns how an engine that is not confined, and others, find each other.
func (s *settings) surroundings() sockets.Surroundings {
	return sockets.Surroundings{Places: sockets.Places(os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()), Search: places(), Identity: s.identity}
}

// identity returns the identity of an engine with these settings that clients take over.
func (s *settings) identity() (string, error) { return s.identityOf(s.Workspace, "") }

// identityOf returns the identity of an engine in a workspace, for a tenant if there are several.
// What only this program decides is not part of it, so that a newer version takes the engine of an
// older one over.
func (s *settings) identityOf(workspace, tenant string) (string, error) {
	c := engineSettings(s.Config)
	c.Workspace = "" // Identity resolves its links
	config := []any{c, tenant, s.sandbox}
	if s.places != "" { // what the file says is not part of it
		config = append(config, "places", s.places)
	}
	if s.page == "off" { // a client that wants no page gets no engine that shows one
		config = append(config, s.page)
	}
	return sockets.Identity(workspace, os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), config)
}

// engineSettings returns a configuration without what only this process decides.
func engineSettings(c engine.Config) engine.Config {
	c.Version, c.Guard, c.Pip, c.GuardEnv, c.Since, c.Log = "", nil, nil, nil, time.Time{}, nil
	return c
}

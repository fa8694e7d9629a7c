//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"asyncrepl/internal/client/keeper"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/internal/terminal/tty"
)

// atTerminal is for a person who starts the server by hand and would otherwise wait for a prompt
// that never comes. The server continues, because a program can use a terminal too.
const atTerminal = `async-repl is an MCP server: a client starts it and speaks JSON-RPC with it.
It now waits for messages on this terminal; end it with Ctrl-D.

  async-repl demo   shows a session as a client sees it
  async-repl help   lists the settings
  docs/clients.md   shows how to configure each client
`

// serve reads the settings, serves until the end and returns the exit status.
func serve(ctx context.Context, overHTTP bool, args []string, std standardStreams) int {
	signals := catchSignals()
	defer signals.release()
	set, status, ok := configured(overHTTP, args, std)
	if !ok {
		return status
	}
	if st, err := os.Stat(set.Workspace); err != nil || !st.IsDir() {
		fmt.Fprintf(std.err, "async-repl: the workspace %s is not a directory that exists: make it, or set REPL_WORKDIR to another\n", set.Workspace)
		return 1
	}
	if in, ok := std.in.(*os.File); ok && set.listen == "" && tty.IsTerminal(in) {
		fmt.Fprint(std.err, atTerminal)
	}
	set.Log = newLog(std.err, set.logLevel)
	err := set.checkSandbox()
	switch {
	case err != nil:
	case set.listen != "":
		err = serveMany(ctx, set, signals, std.err)
	case set.keeps:
		engines := &engines{settings: &set, args: args, log: newLogWriter(std.err)}
		err = serveFront(ctx, set, signals, std, engines.attach)
	case set.sandbox.On:
		err = serveConfined(ctx, set, signals, std)
	default:
		err = serveOne(ctx, set, signals, std.in, std.out)
	}
	if err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return 1
	}
	return 0
}

// configured reads the settings and completes what an engine needs, except the log. If it returns
// false the program ends with the status.
func configured(overHTTP bool, args []string, std standardStreams) (set settings, status int, ok bool) {
	cwd, cwdErr := os.Getwd() // the error counts only if no other directory is named
	set, err := parseSettings(args, os.Getenv, cwd, overHTTP)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(std.out, usage())
		return set, 0, false
	}
	if err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return set, 2, false
	}
	if set.Workspace == "" {
		err = fmt.Errorf("finding the current directory: %w: start the server in one that exists, or set REPL_WORKDIR", cwdErr)
	}
	if err == nil {
		set.Shell, err = findShell(set.Shell)
	}
	if err == nil {
		err = set.complete()
	}
	if err == nil {
		err = set.readPlaces()
	}
	if err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return set, 1, false
	}
	return set, 0, true
}

// complete sets what an engine needs of this process.
func (s *settings) complete() (err error) {
	s.Version, s.GuardEnv, s.Since = ownVersion(), os.Environ(), time.Now()
	if s.Guard, err = ownLine(guardCommand); err == nil {
		s.Pip, err = commandLine(pipCommand)
	}
	return err
}

// exitTime bounds the time from the first signal to the server's exit. Claude Code 2.1.329 sends
// SIGINT, SIGTERM 100 ms later and SIGKILL after about 500 ms. The guard kills the processes that
// have not ended by then.
const exitTime = 380 * time.Millisecond

// serveOne serves one client over in and out. When in ends, or out can no longer be written to, it
// answers the calls in flight normally, for a limited time, and then ends everything. A signal cuts
// that short: calls are answered at once with the current status, and serveOne returns within
// exitTime.
func serveOne(ctx context.Context, set settings, signals caughtSignals, in io.ReadCloser, out io.WriteCloser) error {
	os.Stdout = os.Stderr // standard output belongs to the protocol

	eng, err := set.newEngine()
	if err != nil {
		return err
	}
	config := set.keeper(eng)
	config.Lone, config.Scope = lone, eng.Scope(set.client())
	doors := keeper.New(config)
	cut, cancel := signals.context(ctx, set.Log)
	defer cancel()
	closed := make(chan struct{})
	go func() { // owned by serveOne; ends with cut
		defer close(closed)
		doors.Run(cut, nil)
	}()
	served := make(chan error, 1) // buffered: it may come after the end of serveOne
	go func() {                   // owned by serveOne; ends with the connection, or with the process after a signal
		served <- connect(cut, eng, set, doors.Backend(), signals.caught, in, out)
	}()
	select {
	case err := <-served:
		cancel()
		<-closed // no command finds the server any more
		eng.Close()
		return failure(err)
	case <-cut.Done():
	}
	endWithin(exitTime, set.Log, func() {
		<-closed
		eng.Close()
		<-served
	})
	return nil
}

// failure returns the error of a connection that did not just end.
func failure(err error) error {
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// lone refuses other clients of a server that is one process.
const lone = "this server is one process with its client, and ends with it (REPL_KEEPER=off)"

// endWithin calls end. The guard kills the processes that have not ended within limit.
func endWithin(limit time.Duration, log *slog.Logger, end func()) {
	late := time.NewTimer(limit)
	defer late.Stop()
	ended := make(chan struct{})
	go func() { // owned by endWithin; ends with the engine, or with the process
		defer close(ended)
		end()
	}()
	select {
	case <-ended:
	case <-late.C:
		log.Warn("shutdown timed out; the guard kills the rest")
	}
}

// caughtSignals are the signals that the server catches.
type caughtSignals struct {
	ends    <-chan os.Signal // receives the first signal that asks the server to end
	hangups <-chan os.Signal // receives SIGHUP: the terminal is gone, or files of a service changed
	caught  <-chan struct{}  // closed once signals are caught
	release func()           // stops catching them
}

// catchSignals begins to catch signals. SIGPIPE is caught and dropped, because the failed write
// reports the same. It is not ignored, because programs would inherit that
// (https://man7.org/linux/man-pages/man7/signal.7.html).
//
// The runtime takes 0.3 ms to catch signals, so it does so in parallel with the rest of the start.
// No message is written before it is done. If a process is started before, and one of the signals
// ends the server in that instant, the guard kills the process.
func catchSignals() caughtSignals {
	ends, hangups, pipes, done := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{})
	go func() { // owned by release, which waits for it; ends when the signals are caught
		defer close(done)
		signal.Notify(ends, syscall.SIGINT, syscall.SIGTERM)
		signal.Notify(hangups, syscall.SIGHUP)
		signal.Notify(pipes, syscall.SIGPIPE)
	}()
	return caughtSignals{ends: ends, hangups: hangups, caught: done, release: func() {
		<-done
		signal.Stop(ends)
		signal.Stop(hangups)
		signal.Stop(pipes)
	}}
}

// context returns a context that is done after the first signal.
func (s caughtSignals) context(ctx context.Context, log *slog.Logger) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	go func() { // owned by the caller, which ends it by the cancel
		defer end()
		var sig os.Signal
		select {
		case sig = <-s.ends:
		case sig = <-s.hangups:
		case <-ctx.Done():
			return
		}
		log.Info("ending on a signal", "signal", sig.String())
	}()
	return ctx, end
}

// connect serves the client until it disconnects. It writes nothing before ready is closed. When
// ctx is done, calls in flight are answered at once with the current status.
func connect(ctx context.Context, eng *engine.Engine, set settings, backend server.Backend, ready <-chan struct{}, in io.ReadCloser, out io.WriteCloser) error {
	waits, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	mcp := server.New(waits, set.connection(backend, eng), eng.Scope(set.client()))
	transport := &stdio.Transport{Stream: streams{in, out, ready}, Ordered: true, Cut: ctx, Leave: leave, Log: set.Log}
	session, err := mcp.Connect(context.WithoutCancel(ctx), transport, nil)
	if err != nil {
		return err
	}
	return session.Wait()
}

// client returns the client of an engine, with the environment of the server and the settings.
func (s *settings) client() engine.Client {
	return engine.Client{Env: s.GuardEnv, Grace: s.grace, Timeout: s.timeout, Log: s.Log}
}

// connection returns the configuration of an MCP server for a connection. backend is eng or a part of it, and both
// are nil if the server is only asked what depends on no engine.
func (s *settings) connection(backend server.Backend, eng *engine.Engine) server.Config {
	return server.Config{
		Places: s.placesOf(eng), Backend: backend, Version: s.Version, Toolsets: s.toolsets, MaxChars: s.maxChars, NoImages: s.noImages, Page: s.pageAt,
	}
}

// streams join standard input and output into one stream.
type streams struct {
	io.ReadCloser
	out   io.WriteCloser
	ready <-chan struct{} // closed when out may be written to
}

func (s streams) Write(p []byte) (int, error) {
	<-s.ready
	return s.out.Write(p)
}

func (s streams) Close() error { return errors.Join(s.ReadCloser.Close(), s.out.Close()) }

//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/files"
	"asyncrepl/internal/files/fileserver"
	"asyncrepl/internal/mcp/httpserver"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/page"
	"asyncrepl/internal/serve/listener"
	"asyncrepl/internal/serve/relay"
)

// answerTime is how long calls in flight have for their answers after a signal, and endTime how long
// the engine has then. A service manager waits for that, longer than a client that ends its own
// server.
const (
	answerTime = 2 * time.Second
	endTime    = 5 * time.Second
)

// withoutTokens is for a server at a TCP port that asks for no token.
const withoutTokens = `async-repl: there are no tokens: any program of your user that reaches this port can run code as you, even if it is
confined, such as in a sandbox that shares the network. Set -tokens (REPL_TOKENS), or listen at a Unix socket: -listen unix:PATH.
`

// defaultTenant is the tenant of all clients if there are no tokens.
const defaultTenant = "default"

// serveMany serves clients over HTTP until a signal. Calls in flight are then answered with the
// current status, and everything ends.
func serveMany(ctx context.Context, set settings, signals caughtSignals, stderr io.Writer) error {
	os.Stdout = os.Stderr // people see what a library prints there

	tenants := engine.NewTenants(set.Config)
	store := new(files.Store)
	doors := newDoors(ctx, &set)
	defer doors.close()
	at, err := listener.Listen(ctx, set.listen)
	if err != nil {
		return err
	}
	defer at.Close()
	if err := set.access.checkReach(set.listen, listener.Local(at)); err != nil {
		return err
	}
	if set.page == "on" { // the processes of tenants receive it
		set.pageAt = set.url(at.Addr(), "/")
	}
	k, err := set.openKeys(tenants, store, doors, stderr)
	if k != nil && k.apart != nil {
		defer k.apart.close()
	}
	if err != nil {
		return err
	}
	watch, err := set.openObservers(ctx, k.counts, stderr)
	if err != nil {
		return err
	}
	defer watch.close()
	config := httpserver.Config{
		New: set.newConnection(k.engine, store), Files: set.filesOver(k.engine, store), Origins: set.origins, PublicURL: set.publicURL,
		Ready: tenants.Ready, Observe: watch.observe(), Tools: server.ToolNames(), Log: set.Log,
	}
	if set.page == "on" {
		config.Page = set.servedPage(k.engine)
	}
	if k.apart != nil {
		config.Relay = func(c httpserver.Caller) *relay.Tenant { return k.apart.relay(c.Tenant) }
		config.Ready = func() error { return relay.Ready(k.apart.relays()) }
	}
	if err := k.guard(&config, at.Addr()); err != nil {
		return err
	}
	server := httpserver.New(config)
	<-signals.caught
	fmt.Fprintln(stderr, "async-repl: serving MCP at", set.url(at.Addr(), "/mcp"))
	if set.page == "on" {
		fmt.Fprintln(stderr, "async-repl: page at", set.pageAt)
	}
	if k.tokens == nil && at.Addr().Network() != "unix" {
		fmt.Fprint(stderr, withoutTokens)
	}
	served := make(chan error, 2) // room for both: one may come after the end
	go func() {                   // owned by serveMany; ends with the listener
		served <- server.Serve(at)
	}()
	watch.serve(server, served, stderr)
	err = waitForEnd(ctx, set, signals, served, func() bool {
		keys, log := k.reread(server.Revoke), watch.reopen()
		return keys || log
	})
	answers, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	if k.apart != nil {
		k.apart.ending()
	}
	server.Shutdown(answers)
	doors.close() // no command finds the server any more
	endWithin(endTime, set.Log, tenants.Close)
	return err
}

// waitForEnd returns when the server must end. A hangup is no end if there are files to reread.
func waitForEnd(ctx context.Context, set settings, signals caughtSignals, served <-chan error, reread func() bool) error {
	for {
		select {
		case err := <-served:
			return err
		case sig := <-signals.ends:
			set.Log.Info("ending on a signal", "signal", sig.String())
			return nil
		case sig := <-signals.hangups:
			if !reread() {
				set.Log.Info("ending on a signal", "signal", sig.String())
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// An engineOf returns the engine of a tenant.
type engineOf func(tenant string) (*engine.Engine, error)

// of returns the engine of a caller, or nil if there can be none, which the log explains.
func (f engineOf) of(c httpserver.Caller, log *slog.Logger) *engine.Engine {
	e, err := f(c.Tenant)
	if err != nil {
		log.Error("a tenant can't be served", "tenant", c.Tenant, "error", err)
		return nil
	}
	return e
}

// newConnection returns a function that makes the server of a connection.
func (s *settings) newConnection(engineOf engineOf, store *files.Store) func(context.Context, httpserver.Caller) *httpserver.MCPServer {
	return func(ctx context.Context, c httpserver.Caller) *httpserver.MCPServer {
		eng := engineOf.of(c, s.Log)
		if eng == nil {
			return nil
		}
		config := s.connection(eng, eng)
		config.Files, config.PictureWait, config.Keep = store, pictureWait, server.KeepServer
		return server.New(ctx, config, eng.Scope(s.client()))
	}
}

// pictureWait is short, because several clients can use one token: a client that reads nothing must
// not keep the answers of the others.
const pictureWait = 2 * time.Second

// filesOver returns a function that makes the handler of a tenant's files, or nil if the tools for
// them are not offered either.
func (s *settings) filesOver(engineOf engineOf, store *files.Store) func(httpserver.Caller) httpserver.Handler {
	if !slices.Contains(s.toolsets, server.FilesToolset) {
		return nil
	}
	return func(c httpserver.Caller) httpserver.Handler {
		eng := engineOf.of(c, s.Log)
		if eng == nil {
			return nil
		}
		return fileserver.New(store.Dir(eng.Workspace()))
	}
}

// servedPage returns the page of a server over HTTP.
func (s *settings) servedPage(engineOf engineOf) *httpserver.Page {
	var apis sync.Map // by their engines
	api := func(c httpserver.Caller) httpserver.Handler {
		eng := engineOf.of(c, s.Log)
		if eng == nil {
			return nil
		}
		h, found := apis.Load(eng)
		if !found {
			h, _ = apis.LoadOrStore(eng, page.API(eng))
		}
		return h.(httpserver.Handler)
	}
	return &httpserver.Page{API: api, Static: page.Static, Protect: page.Protect, Display: page.Display}
}

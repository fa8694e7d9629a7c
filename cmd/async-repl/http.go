//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/httpserver"
	"asyncrepl/internal/mcpserver"
)

// answerTime is how long calls in flight have for their answers after a signal, and endTime how long
// the engine has then. Whoever stops a service waits for that, longer than a client that ends its
// own server.
const (
	answerTime = 2 * time.Second
	endTime    = 5 * time.Second
)

// defaultTenant is the tenant of all clients if there are no tokens.
const defaultTenant = "default"

// serveMany serves clients over HTTP until a signal. Calls in flight are then answered with the
// current status, and everything ends.
func serveMany(ctx context.Context, set settings, signals caughtSignals, stderr io.Writer) error {
	os.Stdout = os.Stderr // no protocol, but no place for what belongs into the log either

	listener, err := httpserver.Listen(set.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	tenants := engine.NewTenants(set.Config)
	eng, err := tenants.Tenant(defaultTenant, "")
	if err != nil {
		return err
	}
	server := httpserver.New(httpserver.Config{New: set.newConnection(eng), Log: set.Log})
	<-signals.caught
	fmt.Fprintf(stderr, "async-repl: serving MCP at http://%s/mcp\n", listener.Addr())
	served := make(chan error, 1)
	go func() { // owned by serveMany; ends with the listener
		served <- server.Serve(listener)
	}()
	select {
	case err = <-served:
	case sig := <-signals.ends:
		set.Log.Info("ending on a signal", "signal", sig.String())
	case sig := <-signals.hangups:
		set.Log.Info("ending on a signal", "signal", sig.String())
	case <-ctx.Done():
	}
	answers, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	server.Shutdown(answers)
	endWithin(endTime, set.Log, tenants.Close)
	return err
}

// newConnection returns a function that makes the server of a connection.
func (s *settings) newConnection(eng *engine.Engine) func(context.Context, httpserver.Caller) *httpserver.MCPServer {
	shared := mcpserver.Config{Backend: eng, Version: s.Version, Toolsets: s.toolsets, Log: s.Log}
	return func(ctx context.Context, c httpserver.Caller) *httpserver.MCPServer {
		scope := eng.Scope(c.Tenant)
		scope.Grace, scope.Timeout = s.grace, s.timeout
		return mcpserver.New(ctx, shared, scope)
	}
}

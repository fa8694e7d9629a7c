//go:build conformance

// Conformancetest serves the fixtures of the protocol's conformance suite through package
// httpserver. The fixtures are those of the SDK's own conformance server; .ci/conformance puts them
// beside this file, builds it and runs the suite.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/mcp/httpserver"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := httpserver.New(httpserver.Config{New: fixtures, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	fmt.Printf("http://%s/mcp\n", l.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() {
		server.Shutdown(context.Background())
	})
	if err := server.Serve(l); err != nil {
		panic(err)
	}
}

// fixtures returns what the SDK's program serves.
func fixtures(ctx context.Context, _ httpserver.Caller) *httpserver.MCPServer {
	s := mcp.NewServer(&mcp.Implementation{Name: "conformancetest", Version: "0"}, &mcp.ServerOptions{
		CompletionHandler: completionHandler, SubscribeHandler: subscribeHandler, UnsubscribeHandler: unsubscribeHandler,
	})
	registerTools(s)
	registerResources(s)
	registerPrompts(s)
	go watchedResourceUpdater(ctx, s) // owned by the server; ends with ctx
	return s
}

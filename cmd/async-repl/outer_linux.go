package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/front"
	"asyncrepl/internal/client/sockets"
)

// outerOfClients starts a sandbox with an engine for clients that come and go, and stays outside of it.
// The front has started it in a session of its own. The engine gets the connection to the front, so that
// a call goes no longer way than without a sandbox.
func outerOfClients(ctx context.Context, args []string, std standardStreams) int {
	signals := catchSignals()
	defer signals.release()
	unix.CloseOnExec(firstClient)
	first := os.NewFile(firstClient, "the front")
	refuse := func(reason string) {
		if c, err := sockets.FileConn(first); err == nil {
			c.Refuse(reason)
			c.Close()
		}
	}
	var said strings.Builder
	set, status, ok := configured(false, args, standardStreams{std.in, std.out, io.MultiWriter(std.err, &said)})
	if !ok {
		refuse(said.String())
		return status
	}
	set.Log = newLog(std.err, set.logLevel)
	closeInherited()
	err := os.Chdir("/") // the directory of the client can be removed
	var c *confined
	if err == nil {
		c, err = set.confine(inClients, standardStreams{nil, nil, std.err}, first)
	}
	if err != nil {
		refuse(err.Error())
		fmt.Fprintln(std.err, "async-repl:", err)
		return 1
	}
	first.Close() // its end must be that of the engine
	return c.follow(ctx, signals)
}

// serveConfined serves one client by an engine in a sandbox that has its standard streams.
func serveConfined(ctx context.Context, set settings, signals caughtSignals, std standardStreams) error {
	c, err := set.confine(inStdio, std)
	if err != nil {
		set.Log.Error("the sandbox does not start", "error", err)
		return serveFront(ctx, set, signals, std, func(context.Context) (front.Engine, error) { return front.Engine{}, err })
	}
	ctx, end := signals.context(ctx, set.Log) // a hangup ends a server without a front, too
	defer end()
	if status := c.follow(ctx, caughtSignals{}); status != 0 {
		return fmt.Errorf("the engine in the sandbox ended with status %d", status)
	}
	return nil
}

//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/people"
)

// person returns what runs a command for people.
func person(name string) func(ctx context.Context, args []string, std standardStreams) int {
	return func(ctx context.Context, args []string, std standardStreams) int {
		c := people.Config{
			Version: ownVersion(), Places: sockets.Places(os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()),
			In: std.in, Out: std.out, Err: std.err,
		}
		for _, row := range commands() {
			if row.name != "" {
				c.Rows = append(c.Rows, people.Row{Name: row.name, Arguments: row.flags, Summary: row.summary})
			}
		}
		ctx, release := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer release()
		return people.Run(ctx, append([]string{name}, args...), c)
	}
}

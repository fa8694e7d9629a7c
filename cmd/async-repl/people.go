//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/internal/people"
	"asyncrepl/jobs"
)

// restoreCommand is the subcommand of the process that restores a terminal. Only attach uses it, so
// help does not name it.
const restoreCommand = "restore"

// person returns what runs a command for people.
func person(name string) func(ctx context.Context, args []string, std standardStreams) int {
	return func(ctx context.Context, args []string, std standardStreams) int {
		ctx, release := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer release()
		c := people.Config{
			Version: ownVersion(), Places: places(),
			Past: ownServer(), Own: ownServer("-history=0"),
			In: std.in, Out: std.out, Err: std.err,
		}
		c.Restorer, _ = commandLine(restoreCommand) // an error: attach says that it can't be started
		for _, row := range commands() {
			if row.name != "" {
				c.Rows = append(c.Rows, people.Row{Name: row.name, Arguments: row.flags, Summary: row.summary})
			}
		}
		return people.Run(ctx, append([]string{name}, args...), c)
	}
}

// places returns the directories that can have the sockets of engines. A client can give its server
// less of the environment than a shell has (Codex passes on no XDG_RUNTIME_DIR), or a shell less than a
// login: the usual places are added.
func places() []string {
	usual := sockets.Places(filepath.Join("/run/user", strconv.Itoa(os.Getuid())), "/tmp")
	all := sockets.Places(os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
	for _, place := range usual {
		if !slices.Contains(all, place) {
			all = append(all, place)
		}
	}
	return all
}

// ownServer returns what connects to a server in this process. It is configured by flags and the
// environment, as one is that a client starts here, and starts nothing before its first job.
func ownServer(flags ...string) func(context.Context) (io.ReadWriteCloser, error) {
	return func(ctx context.Context) (io.ReadWriteCloser, error) { return connectOwn(ctx, flags) }
}

func connectOwn(ctx context.Context, flags []string) (io.ReadWriteCloser, error) {
	var why strings.Builder
	set, _, ok := configured(false, flags, standardStreams{err: &why})
	if !ok {
		return nil, errors.New(strings.TrimSpace(strings.TrimPrefix(why.String(), "async-repl: ")))
	}
	set.Log, set.OnlyReads = slog.New(slog.DiscardHandler), true
	eng, err := engine.New(set.Config)
	if err != nil {
		return nil, err
	}
	config := set.connection(eng)
	config.By, config.Toolsets = jobs.Person, nil
	mcp := server.New(ctx, config, eng.Scope(set.client()))
	ours, theirs := net.Pipe()
	_, err = mcp.Connect(ctx, &stdio.Transport{Stream: theirs, Ordered: true}, nil)
	return ownConn{ours, eng}, err
}

// An ownConn is a connection to an engine that ends with it.
type ownConn struct {
	net.Conn
	engine *engine.Engine
}

func (c ownConn) Close() error {
	err := c.Conn.Close()
	c.engine.Close()
	return err
}

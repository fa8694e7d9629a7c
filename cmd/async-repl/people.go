//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/client"
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
			Past: readRecords, KeyFiles: keyFiles(), Own: func() (*client.Client, io.Closer, error) { return startOwn(std.err) },
			Confine: canConfine, Browse: browse, In: std.in, Out: std.out, Err: std.err,
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

// keyFiles returns the directory in which a server that a client starts here notes what it has at places, or "".
func keyFiles() string {
	dir, _ := os.Getwd() // an error: it matters to other settings only
	set, err := parseSettings(nil, os.Getenv, dir, false)
	if err != nil || set.StateDir == "" { // an error: a command that needs the settings says so
		return ""
	}
	return filepath.Join(set.StateDir, "places")
}

// openWith runs the program that opens an address in a browser. A Ctrl-C here does not end the browser.
func openWith(program, address string) error {
	cmd := exec.Command(program, address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Run()
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

// startOwn starts this program as a client does, but it records nothing. No other engine has its
// limit for idle sessions, so it takes none over: the goodbye would end jobs of another client.
func startOwn(stderr io.Writer) (*client.Client, io.Closer, error) {
	line, err := commandLine("-history=0")
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(line[0], append(line[1:], "-transport=stdio", "-linger-goodbye=0", fmt.Sprintf("-session-ttl=24h%dns", 1+time.Now().Nanosecond()))...)
	cmd.Stderr = stderr
	p, err := client.Launch(cmd)
	if err != nil {
		return nil, nil, err
	}
	return p.Client, p, nil
}

// readRecords connects to a server in this process, over the records of past jobs. It is configured
// by the environment, as one is that a client starts here, and starts nothing.
func readRecords(ctx context.Context) (io.ReadWriteCloser, error) {
	var why strings.Builder
	set, _, ok := configured(false, nil, standardStreams{err: &why})
	if !ok {
		return nil, errors.New(strings.TrimSpace(strings.TrimPrefix(why.String(), "async-repl: ")))
	}
	set.Log, set.OnlyReads, set.places, set.Away = slog.New(slog.DiscardHandler), true, "", nil
	eng, err := engine.New(set.Config)
	if err != nil {
		return nil, err
	}
	config := set.connection(eng, eng)
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

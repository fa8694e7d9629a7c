//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"asyncrepl/internal/guard"
	"asyncrepl/internal/tty"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// guardCommand starts the process that ends what is left when the server is
// killed. It is the server's to call, so help does not name it.
const guardCommand = "guard"

// run is main with its streams handed in. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) int {
	command := ""
	if len(args) > 0 && (!strings.HasPrefix(args[0], "-") || strings.TrimLeft(args[0], "-") == "version") {
		command, args = strings.TrimLeft(args[0], "-"), args[1:]
	}
	switch command {
	case guardCommand:
		return guard.Run(stdin)
	case "version", "help", "demo":
		if len(args) > 0 {
			fmt.Fprintf(stderr, "async-repl: %s takes no arguments: see async-repl help\n", command)
			return 2
		}
	}
	switch command {
	case "version":
		fmt.Fprintln(stdout, "async-repl", version())
		return 0
	case "help":
		fmt.Fprint(stdout, usage())
		return 0
	case "demo":
		return demo(ctx, stdout, stderr)
	case "":
		return serveCommand(ctx, args, stdin, stdout, stderr)
	}
	fmt.Fprintf(stderr, "async-repl: unknown command %q: see async-repl help\n", command)
	return 2
}

func serveCommand(ctx context.Context, args []string, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) int {
	cwd, gone := os.Getwd() // an error counts only where no other directory is named
	set, err := parseSettings(args, os.Getenv, cwd)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage())
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "async-repl:", err)
		return 2
	}
	if set.workdir == "" {
		fmt.Fprintf(stderr, "async-repl: finding the current directory: %v: start the server in one that exists, or set REPL_WORKDIR\n", gone)
		return 1
	}
	if st, err := os.Stat(set.workdir); err != nil || !st.IsDir() {
		fmt.Fprintf(stderr, "async-repl: the workspace %s is not a directory that exists: make it, or set REPL_WORKDIR to another\n", set.workdir)
		return 1
	}
	if in, ok := stdin.(*os.File); ok && tty.IsTerminal(in) {
		fmt.Fprint(stderr, atTerminal)
	}
	if err := serve(ctx, set, os.Environ(), stdin, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "async-repl:", err)
		return 1
	}
	return 0
}

// atTerminal is for the person who starts the server by hand, and would
// otherwise wait for a prompt that never comes. It is served on: a program may
// be at the other end of a terminal too.
const atTerminal = `async-repl is an MCP server: a client starts it and speaks JSON-RPC with it.
It now waits for messages on this terminal; end it with Ctrl-D.

  async-repl demo   shows what a client would see
  async-repl help   lists the settings
  README, Install   has the configuration of each client
`

// version is the module's, as the Go toolchain stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// usage is the help text; the settings come from their table.
func usage() string {
	var b strings.Builder
	b.WriteString(`async-repl: an MCP server that gives a coding agent a persistent Python and
real terminals, in which every execution is a job.

  async-repl [flags]   serve MCP over standard input and output
  async-repl demo      start a server, play a session with it, say what held
  async-repl version
  async-repl help

A client starts the server; the README says under Install how each is told to.

Settings, by flag or by environment variable (the flag wins):

`)
	for _, row := range table {
		if row.flag != "" {
			fmt.Fprintf(&b, "  -%-13s %-18s %s (default: %s)\n", row.flag, row.env, row.about, row.fallback)
		}
	}
	return b.String()
}

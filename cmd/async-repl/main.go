//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"asyncrepl/internal/guard"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs the subcommand that args begin with and returns the exit status.
func run(ctx context.Context, args []string, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) int {
	command := "" // over standard input and output, unless a setting names another transport
	if len(args) > 0 && (!strings.HasPrefix(args[0], "-") || strings.TrimLeft(args[0], "-") == "version") {
		command, args = strings.TrimLeft(args[0], "-"), args[1:]
	}
	switch command {
	case "", serveCommand:
		return serve(ctx, command == serveCommand, args, stdin, stdout, stderr)
	case guardCommand:
		return guard.Run(stdin)
	case pipCommand:
		return pip(ctx, args, stderr)
	case "token":
		return tokenCommand(args, stdout, stderr)
	case "version", "help", "demo":
		if len(args) > 0 {
			fmt.Fprintf(stderr, "async-repl: %s takes no arguments: see async-repl help\n", command)
			return 2
		}
	default:
		fmt.Fprintf(stderr, "async-repl: unknown command %q: see async-repl help\n", command)
		return 2
	}
	switch command {
	case "version":
		fmt.Fprintln(stdout, "async-repl", ownVersion())
	case "help":
		fmt.Fprint(stdout, usage())
	case "demo":
		return demoCommand(ctx, os.Environ(), stdout, stderr)
	}
	return 0
}

// usage returns the help text. The settings come from their table.
func usage() string {
	var b strings.Builder
	b.WriteString(`async-repl: an MCP server that gives a coding agent a persistent Python and
real terminals, in which every execution is a job.

  async-repl [flags]        serve MCP over standard input and output
  async-repl serve [flags]  serve MCP over HTTP, to many clients
  async-repl demo           start a server, play a session with it and check every reply
  async-repl token TENANT   print a line for the file of tokens, and a new token
  async-repl version        print the version
  async-repl help           print this text

An MCP client starts the server. The README shows how to configure each client, under Install.

Settings, by flag or environment variable (the flag wins):

`)
	for _, row := range table {
		if row.flag != "" {
			fmt.Fprintf(&b, "  -%-13s %-18s %s (default: %s)\n", row.flag, row.env, row.about, row.fallback)
		}
	}
	return b.String()
}

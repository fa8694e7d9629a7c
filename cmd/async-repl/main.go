//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"asyncrepl/internal/process/guard"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// A command is one row of the table that the dispatch, the help text and docs/settings.md's list of
// commands are made from.
type command struct {
	name    string // the first argument that selects the command; "" if no command is given
	flags   string // the arguments, as the help text names them; if empty, arguments are refused
	summary string // the line of the help text, which leaves a command without a summary out
	run     func(ctx context.Context, args []string, std standardStreams) int
}

type standardStreams struct {
	in  io.ReadCloser
	out io.WriteCloser
	err io.Writer
}

// commands returns the table. It is a function because the command help reads the table.
func commands() []command {
	return []command{
		{"", "[flags]", "serve MCP over standard input and output", func(ctx context.Context, args []string, std standardStreams) int {
			return serve(ctx, false, args, std)
		}},
		{"serve", "[flags]", "serve MCP over HTTP, to many clients", func(ctx context.Context, args []string, std standardStreams) int {
			return serve(ctx, true, args, std)
		}},
		{"ps", "[flags]", "list engines, their jobs and sessions, and what asks for input", person("ps")},
		{"logs", "[flags] ID", "print the output of a job", person("logs")},
		{"wait", "[flags] ID...", "wait for jobs, and exit as the job has", person("wait")},
		{"send", "[flags] ID [TEXT]", "type a line for a job, or press keys", person("send")},
		{"cancel", "[flags] ID...", "end jobs", person("cancel")},
		{"attach", "ID", "join your terminal with that of a job, until Ctrl-]", person("attach")},
		{"hook", "<CALL", "follow the job of a call, and tell its agent when it ends or asks", person("hook")},
		{"page", "[flags]", "show jobs in a browser, live, and take answers", person("page")},
		{"completion", "SHELL", "print what makes bash, zsh or fish complete commands and job ids", person("completion")},
		{"doctor", "[-h]", "check that this system keeps what is promised", person("doctor")},
		{"sandbox", "check [flags]", "try the sandbox, and say what holds and what to do", trySandbox},
		{"places", "check|clean [NAME]", "try other machines, or remove what was brought there", tryPlaces},
		{"demo", "", "start a server, play a session with it and check every reply", runDemo},
		{"token", "TENANT", "print a line for the file of tokens, and a new token", newToken},
		{"version", "", "print the version", func(_ context.Context, _ []string, std standardStreams) int {
			fmt.Fprintln(std.out, "async-repl", ownVersion())
			return 0
		}},
		{"help", "", "print the commands and the settings", func(_ context.Context, _ []string, std standardStreams) int {
			fmt.Fprint(std.out, usage())
			return 0
		}},
		{engineCommand, "[flags]", "", engineOfClients},
		{outerCommand, "[flags]", "", outerOfClients},
		{innerCommand, "SERVES [flags]", "", inner},
		{dialCommand, "[flags] KEY", "", dialEngine},
		{placedCommand, "[flags]", "", placed},
		{guardCommand, "", "", func(_ context.Context, _ []string, std standardStreams) int { return guard.Run(std.in) }},
		{probeCommand, "", "", probeSandbox},
		{restoreCommand, "MODE ID", "", person(restoreCommand)},
		{pipCommand, "SETTINGS [arguments of pip]", "", pip},
	}
}

// run runs the command that args begin with and returns the exit status.
func run(ctx context.Context, args []string, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) int {
	name := "" // over standard input and output, unless a setting names another transport
	if len(args) > 0 && (!strings.HasPrefix(args[0], "-") || strings.TrimLeft(args[0], "-") == "version") {
		name, args = strings.TrimLeft(args[0], "-"), args[1:]
	}
	table := commands()
	i := slices.IndexFunc(table, func(c command) bool { return c.name == name })
	if i < 0 { // it suggests others, and answers the scripts that complete command lines
		return person(name)(ctx, args, standardStreams{stdin, stdout, stderr})
	}
	if table[i].flags == "" && len(args) > 0 {
		fmt.Fprintf(stderr, "async-repl: %s takes no arguments: see async-repl help\n", name)
		return 2
	}
	return table[i].run(ctx, args, standardStreams{stdin, stdout, stderr})
}

// usage returns the help text. The commands and the settings come from their tables.
func usage() string {
	var b strings.Builder
	b.WriteString(`async-repl: an MCP server that gives a coding agent a persistent Python and
real terminals, in which every execution is a job.

`)
	for _, c := range commands() {
		if c.summary != "" {
			fmt.Fprintf(&b, "  %-30s %s\n", c.line(), c.summary)
		}
	}
	b.WriteString(`
An MCP client starts the server. docs/clients.md shows how to configure each client.

Settings, by flag or environment variable (the flag wins):

`)
	for _, row := range table {
		if row.flag != "" {
			b.WriteString(row.line())
		}
	}
	return b.String()
}

// line returns the line of the help text.
func (s setting) line() string {
	return fmt.Sprintf("  -%-13s %-18s %s (default: %s)\n", s.flag, s.env, s.about, s.fallback)
}

// line returns a command line for people, with the arguments as the help text names them.
func (c command) line() string {
	return strings.Join(strings.Fields("async-repl "+c.name+" "+c.flags), " ")
}

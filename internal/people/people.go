//go:build unix

package people

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/terminal/tty"
)

// A Config is what the commands get from the program.
type Config struct {
	Version string
	Rows    []Row    // all commands of the program, with those that are not here
	Places  []string // the directories that can have the sockets of engines
	// Past connects to a server over the records of past jobs; nil: there are none.
	Past func(context.Context) (io.ReadWriteCloser, error)
	// KeyFiles is the directory in which servers note what they have at places; empty: there is none.
	KeyFiles string
	// Own starts a server as a client does, but one that records nothing. The doctor tries it.
	Own func() (*client.Client, io.Closer, error)
	// Confine tries whether a server can run in a sandbox. Its error says why not.
	Confine func(context.Context) error

	// Browse opens an address in a browser.
	Browse func(address string) error

	// Restorer is the command line that runs the command restore, with which attach restores a
	// terminal. Its mode and the id of the job follow.
	Restorer []string

	In       io.Reader
	Out, Err io.Writer
}

// toTerminal reports whether standard output is a terminal.
func (c *Config) toTerminal() bool {
	f, ok := c.Out.(*os.File)
	return ok && tty.IsTerminal(f)
}

// A Row describes a command in the help.
type Row struct {
	Name, Arguments, Summary string
}

// Exit statuses. Those of wait are in wait.go.
const (
	failed      = 1
	misused     = 2
	interrupted = signalled + 2 // SIGINT
)

// An exit is the error of a command that ends with a status of its own, after it has said why.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// A misuse is a command line that can't be used.
type misuse struct{ error }

// Run runs the command that args begin with and returns the exit status.
func Run(ctx context.Context, args []string, c Config) int {
	root := c.commands()
	if args[0] == "page" { // its flags are written as those of the server, too: -listen is --listen
		args = slices.Clone(args)
		for i, arg := range args {
			if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
				args[i] = "-" + arg
			}
		}
	}
	root.SetArgs(args)
	begun := false
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true } // called once the command line is checked
	cmd, err := root.ExecuteContextC(ctx)
	code := exit(0)
	switch {
	case err == nil, errors.As(err, &code):
		return int(code)
	case ctx.Err() != nil:
		return interrupted
	case errors.As(err, new(misuse)):
		code = misused
	case !begun:
		code, err = misused, fmt.Errorf("%s: %w: see async-repl %[1]s --help", cmd.Name(), err)
	default:
		code = failed
	}
	if args[0] == "wait" { // a job can have ended with any status below 123
		code = cantWait
	}
	fmt.Fprintf(c.Err, "async-repl: %v\n", err)
	return int(code)
}

// commands returns the table of commands.
func (c *Config) commands() *cobra.Command {
	root := &cobra.Command{Use: "async-repl", Args: c.unknown, RunE: func(*cobra.Command, []string) error { return nil }}
	root.SuggestionsMinimumDistance = 2
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"}) // the program has its own
	ours := map[string]*cobra.Command{
		"ps": c.ps(), "logs": c.logs(), "wait": c.wait(), "send": c.send(), "cancel": c.cancel(), "attach": c.attach(), "restore": c.restore(),
		"hook": c.hook(), "page": c.page(), "completion": c.completion(), "doctor": c.doctor(),
	}
	for _, row := range c.Rows {
		cmd := ours[row.Name]
		if cmd == nil { // the program runs it, and never through this table
			cmd = &cobra.Command{Run: func(*cobra.Command, []string) {}}
		}
		cmd.Use, cmd.Short, cmd.Hidden = row.Name+" "+row.Arguments, row.Summary, row.Summary == ""
		cmd.DisableFlagsInUseLine = true
		root.AddCommand(cmd)
	}
	return root
}

// unknown refuses a command that does not exist, and suggests others.
func (c *Config) unknown(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := ""
	if list := root.SuggestionsFor(args[0]); len(list) > 0 {
		near = "did you mean " + strings.Join(list, " or ") + "? "
	}
	return misuse{fmt.Errorf("unknown command %q: %ssee async-repl help", args[0], near)}
}

//go:build unix

package main

import (
	"context"
	"fmt"

	"asyncrepl/internal/serve/tokens"
)

// newToken makes a token for a tenant. Standard output gets the line for the file of tokens, so that
// it can be appended to the file; the token itself is shown once, on stderr.
func newToken(_ context.Context, args []string, std standardStreams) int {
	if len(args) != 1 {
		fmt.Fprintln(std.err, "async-repl: token takes the name of a tenant: async-repl token TENANT >>FILE")
		return 2
	}
	secret, line, err := tokens.New(args[0])
	if err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return 2
	}
	if _, err := fmt.Fprintln(std.out, line); err != nil {
		fmt.Fprintln(std.err, "async-repl: printing the line of the token:", err)
		return 1
	}
	fmt.Fprintf(std.err, "The token of %s, shown this once; its line is for the file of tokens:\n%s\n", args[0], secret)
	return 0
}

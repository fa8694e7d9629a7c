//go:build unix

package main

import (
	"fmt"
	"io"

	"asyncrepl/internal/tokens"
)

// tokenCommand makes a token for a tenant. Standard output gets the line for the file of tokens, so that
// it can be appended to it; the token itself is shown once, on stderr.
func tokenCommand(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "async-repl: token takes the name of a tenant: async-repl token TENANT >>FILE")
		return 2
	}
	secret, line, err := tokens.New(args[0])
	if err != nil {
		fmt.Fprintln(stderr, "async-repl:", err)
		return 2
	}
	if _, err := fmt.Fprintln(stdout, line); err != nil {
		fmt.Fprintln(stderr, "async-repl: printing the line of the token:", err)
		return 1
	}
	fmt.Fprintf(stderr, "The token of %s, shown this once; its line is for the file of tokens:\n%s\n", args[0], secret)
	return 0
}

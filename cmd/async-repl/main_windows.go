// Command async-repl is an MCP server for Linux and macOS. On Windows it only says how to run it in
// WSL.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "async-repl does not run on Windows: it needs the terminals, signals and processes of Unix. Use WSL: install it "+
		"inside a Linux distribution, and give your client the command \"wsl async-repl\".")
	os.Exit(1)
}

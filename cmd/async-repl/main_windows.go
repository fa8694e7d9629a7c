// Command async-repl is an MCP server for Linux and macOS. This is what it is on
// Windows: a program that says where to run the other one.
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

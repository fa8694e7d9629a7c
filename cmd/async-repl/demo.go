//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"asyncrepl/internal/demo"
)

// runDemo runs the demo with this program as its server, and returns the exit status.
func runDemo(ctx context.Context, _ []string, std standardStreams) int {
	self, err := os.Executable()
	if err == nil {
		err = demo.Program{Path: self, Env: withoutSettings(os.Environ())}.Run(ctx, demo.Session, std.out, std.err)
	}
	if err != nil {
		fmt.Fprintln(std.err, "demo:", err)
		return 1
	}
	return 0
}

// withoutSettings returns env without the variables that would change the replies.
func withoutSettings(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "REPL_") || name == "VIRTUAL_ENV" || name == "CONDA_PREFIX" || name == "CLAUDE_PROJECT_DIR" {
			continue
		}
		out = append(out, kv)
	}
	return out
}

//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"asyncrepl/internal/demo"
)

// demoCommand runs the demo with this program as its server, and returns the exit status.
func demoCommand(ctx context.Context, env []string, stdout, stderr io.Writer) int {
	self, err := os.Executable()
	if err == nil {
		err = demo.Program{Path: self, Env: withoutSettings(env)}.Run(ctx, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "demo:", err)
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

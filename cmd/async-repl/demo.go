//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"asyncrepl/internal/demo"
)

// runDemo runs the demo with this program as its server, and returns the exit status.
func runDemo(ctx context.Context, _ []string, std standardStreams) int {
	self, err := os.Executable()
	if err == nil {
		env := append(withoutSettings(os.Environ()), "REPL_KEEPER="+demoKeeper())
		err = demo.Program{Path: self, Env: env}.Run(ctx, demo.Session, std.out, std.err)
	}
	if err != nil {
		fmt.Fprintln(std.err, "demo:", err)
		return 1
	}
	return 0
}

// demoKeeper returns whether the demo's engine is a process of its own: yes, unless that is not possible or the
// environment says no, as that of a container does.
func demoKeeper() string {
	if runtime.GOOS == "darwin" || os.Getenv("REPL_KEEPER") == "off" {
		return "off"
	}
	return "on"
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

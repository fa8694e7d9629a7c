package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/serve/tokens"
)

// probeCommand is there so that the table of commands is the same on every system.
const probeCommand = "sandbox-probe"

var errNoSandbox = errors.New("the sandbox needs Linux: run the server in a container, or set REPL_SANDBOX=none")

// An inside is never made on this system.
type inside struct{ sockets.Surroundings }

func (inside) noteDenials(*engine.Engine) {}

func (inside) environ(env []string) []string { return env }

func (s *settings) checkSandbox() error {
	if s.sandbox.On {
		return errNoSandbox
	}
	return nil
}

func (*settings) probe(context.Context, io.Writer) error { return errNoSandbox }

func serveConfined(context.Context, settings, caughtSignals, standardStreams) error {
	return errNoSandbox
}

// newApart is never called on this system.
func newApart(*settings, *tokens.File, io.Writer) processes { return nil }

// noSandbox says that there is no sandbox on this system.
func noSandbox(_ context.Context, _ []string, std standardStreams) int {
	fmt.Fprintln(std.err, "async-repl:", errNoSandbox)
	return 1
}

// The commands of a sandbox.
var probeSandbox, outerOfClients, inner = noSandbox, noSandbox, noSandbox

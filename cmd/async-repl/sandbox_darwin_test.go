package main

import (
	"bytes"
	"testing"
)

// Whoever wants a sandbox here learns what to do, and nothing runs without it.
func TestNoSandboxHere(t *testing.T) {
	t.Setenv("REPL_SANDBOX", "workspace")
	const cure = "the sandbox needs Linux: run the server in a container, or set REPL_SANDBOX=none\n"
	for _, args := range [][]string{{}, {"-sandbox", "workspace"}, {"serve"}, {"sandbox", "check"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, nopCloser{&out}, &errs); code == 0 || errs.String() != "async-repl: "+cure || out.Len() > 0 {
			t.Errorf("%q: exit %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}

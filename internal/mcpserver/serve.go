package mcpserver

import (
	"context"
	"io"
)

// Serve serves one connection until the client goes or ctx is done.
func Serve(ctx context.Context, rwc io.ReadWriteCloser, e *Engine, sc Scope) error {
	panic("skeleton")
}

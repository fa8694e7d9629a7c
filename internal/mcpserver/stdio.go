package mcpserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Transport serves MCP as newline-delimited JSON over one stream. It makes one connection.
type Transport struct {
	Stream io.ReadWriteCloser

	// Cut, when done, ends the connection as an end of input would, without the wait for calls in flight.
	Cut context.Context
	// Leave is called once, when calls in flight should answer at once with what they have: Cut is done, or the drain is over.
	Leave func()
	// Drain is how long after the end of input calls in flight are waited for. 0 is 5 s.
	Drain time.Duration
	// MaxLine is the longest line that is taken. 0 is 16 MiB.
	MaxLine int
	Log     *slog.Logger
}

// Connect implements mcp.Transport.
func (t *Transport) Connect(context.Context) (mcp.Connection, error) {
	return nil, errors.New("connecting: not built")
}

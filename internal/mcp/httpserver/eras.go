package httpserver

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newerEra is the first version of the protocol that has no sessions. A request of it, or of a later
// one, says so in its header. A client of the older era says its version in its first message only,
// and then in the header.
const newerEra = "2026-07-28"

func isNewer(r *http.Request) bool { return r.Header.Get("Mcp-Protocol-Version") >= newerEra }

// eraOf returns the name of the era of a request: its first version, or the message that each
// connection of the older one begins with. Requests for files are of none.
func eraOf(r *http.Request) string {
	if r.URL.Path != mcpPath {
		return ""
	}
	if isNewer(r) {
		return newerEra
	}
	return "initialize"
}

// eras returns the handlers of both eras. The SDK has none that serves both: with sessions, it
// refuses the newer era; without, it can ask clients of the older one nothing. There is no event
// store: clients resume by job and cursor.
func eras() (newer, older *mcp.StreamableHTTPHandler) {
	newer = mcp.NewStreamableHTTPHandler(serverFrom, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		PropagateRequestCancellation: true, // a closed request ends the wait of its call
		MaxRequestBodyBytes:          bodySize,
		DisableLocalhostProtection:   true, // origin.go checks
	})
	older = mcp.NewStreamableHTTPHandler(serverFrom, &mcp.StreamableHTTPOptions{
		SessionTimeout:             sessionTime,
		MaxRequestBodyBytes:        bodySize,
		DisableLocalhostProtection: true,
	})
	return newer, older
}

// The SDK asks for the server of every request, even in a session that has one. It is in the
// request's context.
type serverKey struct{}

func with(r *http.Request, server *mcp.Server) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), serverKey{}, server))
}

func serverFrom(r *http.Request) *mcp.Server {
	server, _ := r.Context().Value(serverKey{}).(*mcp.Server)
	return server
}

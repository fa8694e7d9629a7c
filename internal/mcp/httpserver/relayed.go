package httpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/serve/relay"
)

// The requests of a tenant can be served by another process (Config.Relay). The server then checks
// them, bounds them and reports them as it does otherwise, and passes them on where it would handle
// them. That process has a server, too (Config.Counts): to it each token is a caller, of which it
// learns the name only.

// serveRelayed passes on a request for messages or files.
func (s *Server) serveRelayed(w http.ResponseWriter, r *http.Request, c *caller) {
	to := s.config.Relay(c.Caller)
	if to == nil {
		unavailable(w)
		return
	}
	p := &relayed{s: s, r: r, x: exchangeOf(r)}
	how := relay.Request{Token: cmp.Or(c.Token, defaultTenant), Refuse: p.refuse, Broken: p.broken, Seen: p.seen}
	if r.URL.Path == mcpPath {
		room := claim{own: c.bodies, all: s.bodies}
		defer room.release()
		var ok bool
		if p.body, ok = readMessage(w, r, &room); !ok {
			return
		}
		if how.Message = p.body; p.body == nil {
			how.Message = []byte{} // if there is a body, nothing reads it
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if r.Method == http.MethodPost {
		s.calls.Add(1)
		defer s.calls.Add(-1)
		// The process answers the calls of a revoked token, or else they end without an answer.
		defer context.AfterFunc(c.ctx, func() { time.AfterFunc(answerTime, cancel) })()
	} else {
		defer context.AfterFunc(c.ctx, cancel)()
	}
	// What does not end by itself: a stream, and a connection that speaks another protocol.
	if r.Method == http.MethodGet && (r.URL.Path == mcpPath || r.Header.Get("Upgrade") != "") {
		defer context.AfterFunc(s.waits, cancel)()
	}
	defer p.end()
	r = r.WithContext(ctx)
	if s.listed(r) {
		r = r.Clone(ctx)
		r.Header.Del("Sec-Fetch-Site") // which says no more than that the page is from elsewhere
	}
	to.Pass(w, r, how)
}

// A relayed is a request that is passed on.
type relayed struct {
	s    *Server
	r    *http.Request
	x    *exchange
	body []byte // the message; nil: none
}

// A relayedCall is what is read of a message that the process has not answered.
type relayedCall struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
}

// call returns the call that the request makes, or no method if it makes none, or several.
func (p *relayed) call() (c relayedCall) {
	if json.Unmarshal(p.body, &c) != nil {
		return relayedCall{}
	}
	return c
}

// refuse answers a request that the process has not answered.
func (p *relayed) refuse(w http.ResponseWriter, err error) {
	var unread *relay.BodyError
	switch {
	case errors.As(err, &unread):
		refuseBody(w, unread.Err)
	case p.x.client.Err() != nil: // the client has left, or only sends no more: an empty answer would say that all went well
		panic(http.ErrAbortHandler)
	default:
		if text := p.failure(err); text != nil {
			w.Header().Set("Content-Type", "application/json")
			w.Write(text)
		} else {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}
}

// broken returns the event that answers a call whose stream has ended too early.
func (p *relayed) broken(err error) []byte {
	text := p.failure(err)
	if text == nil {
		return nil
	}
	return slices.Concat([]byte("event: message\ndata: "), text, []byte("\n\n"))
}

// failure returns the answer to a call that has failed: a tool's error, which models read, or an error
// of the protocol. It is nil for what is no call.
func (p *relayed) failure(err error) []byte {
	c := p.call()
	if c.Method == "" || len(c.ID) == 0 || string(c.ID) == "null" {
		return nil
	}
	answer := struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  map[string]any  `json:"result,omitempty"`
		Error   *jsonrpc.Error  `json:"error,omitempty"`
	}{JSONRPC: "2.0", ID: c.ID}
	note := relay.Note{Result: string(metrics.Error)}
	if c.Method == "tools/call" {
		note.Method, note.Tool = c.Method, c.Params.Name
		answer.Result = map[string]any{"content": []mcp.Content{&mcp.TextContent{Text: err.Error()}}, "isError": true}
		if isNewer(p.r) {
			answer.Result["resultType"] = "complete" // the type of the SDK can't set it
		}
	} else {
		answer.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	p.seen(note)
	text, _ := json.Marshal(answer) // can't fail: the id is valid
	return text
}

// seen notes what a request was. The process is in the hands of its jobs, so its words are checked as
// those of a client are.
func (p *relayed) seen(n relay.Note) {
	results := []metrics.Result{metrics.OK, metrics.Error, metrics.Closed, metrics.Cancelled}
	if !slices.Contains(results, metrics.Result(n.Result)) || !isWord(n.Method) || !isWord(n.Job) {
		return
	}
	p.x.update(func(s *state) {
		s.seen.Method, s.seen.Job, s.seen.Result, s.first = cmp.Or(n.Method, s.seen.Method), n.Job, metrics.Result(n.Result), handled
		if slices.Contains(p.s.config.Tools, n.Tool) {
			s.seen.Tool = n.Tool
		}
	})
}

// isWord reports whether a text can be a method or the id of a job.
func isWord(text string) bool {
	return len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/") == ""
}

// end notes what a call was of which the process has said nothing: its client has left before the
// answer, or the answer was too short to have a trailer.
func (p *relayed) end() {
	var known bool
	p.x.update(func(s *state) { known = s.first == handled })
	if known || p.body == nil {
		return
	}
	if c := p.call(); c.Method == "tools/call" {
		p.x.update(func(s *state) {
			if s.seen.Method = c.Method; slices.Contains(p.s.config.Tools, c.Params.Name) {
				s.seen.Tool = c.Params.Name
			}
		})
	}
}

// revokeRelayed has the process of a caller's tenant end what it has of the caller's token. A request
// that was let in before can reach the process after that. It ends here in time; a session that it
// begins is left, of which no client knows the id.
func (s *Server) revokeRelayed(who Caller) {
	if s.config.Relay == nil {
		return
	}
	if to := s.config.Relay(who); to != nil {
		s.revoking.Go(func() { to.Revoke(who.Token) }) // joined by Shutdown; ends with the answer, or without one in time
	}
}

// serveRevoke revokes a token, as the relay asks.
func (s *Server) serveRevoke(w http.ResponseWriter, r *http.Request) {
	if token, err := io.ReadAll(io.LimitReader(r.Body, headerSize)); err == nil {
		s.Revoke(string(token))
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveCounts answers the relay with what is counted here.
func (s *Server) serveCounts(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(s.config.Counts()) // an error: the relay has left
}

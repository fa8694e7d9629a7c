package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
)

// HTTP says how a client reaches a server over HTTP.
type HTTP struct {
	URL     string // the server's MCP endpoint
	Version string // the protocol version: Older or Newer
	Token   string // the bearer token; "" if the server needs none

	// Transport makes the connections. The default keeps all of them for later requests.
	Transport http.RoundTripper
}

// NewHTTP returns a client of the server that h describes. Requests travel apart from each other: a
// request that must come after another one has to wait for its answer.
func NewHTTP(h HTTP) *Client {
	if h.Transport == nil {
		h.Transport = &http.Transport{MaxIdleConnsPerHost: 1 << 14}
	}
	p := &posts{HTTP: h, http: http.Client{Transport: h.Transport}}
	p.client = newClient(h.Version, p)
	return p.client
}

// posts carry each message in a separate request.
type posts struct {
	HTTP
	http    http.Client
	client  *Client
	session atomic.Pointer[string] // the server's name of the connection, in the older era
}

// carry posts a message. It waits for the server only if the message is a notification.
func (p *posts) carry(m outgoing) (withdraw func(), err error) {
	body, err := p.introduced(m).marshal()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := p.request(ctx, http.MethodPost, bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if p.Version >= Newer {
		req.Header.Set("Mcp-Method", m.method)
		if name := subject(m); name != "" {
			req.Header.Set("Mcp-Name", name)
		}
	}
	if m.id == 0 {
		defer cancel()
		return cancel, p.exchange(req, 0)
	}
	go func() { // owned by the client; ends with the answer, or when the request is withdrawn
		defer cancel()
		if err := p.exchange(req, m.id); err != nil {
			p.client.deliver(message{ID: &m.id, lost: err})
		}
	}()
	return cancel, nil
}

// introduced returns m with what each request of the newer era says about its client.
func (p *posts) introduced(m outgoing) outgoing {
	if p.Version < Newer {
		return m
	}
	params := maps.Clone(m.params)
	if params == nil {
		params = make(map[string]any)
	}
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    p.Version,
		"io.modelcontextprotocol/clientInfo":         clientInfo,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}
	if more, ok := params["_meta"].(map[string]any); ok {
		maps.Copy(meta, more)
	}
	params["_meta"] = meta
	m.params = params
	return m
}

// subject returns what a request is about, for those whose headers say it.
func subject(m outgoing) string {
	key := map[string]string{"tools/call": "name", "resources/read": "uri"}[m.method]
	name, _ := m.params[key].(string)
	return name
}

// request returns a request to the endpoint, with the headers that every request has.
func (p *posts) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.URL, body)
	if err != nil {
		return nil, err
	}
	if p.Token != "" {
		req.Header.Set("Authorization", "Bearer "+p.Token)
	}
	session := p.session.Load()
	if session != nil {
		req.Header.Set("Mcp-Session-Id", *session)
	}
	if session != nil || p.Version >= Newer { // not yet negotiated before that
		req.Header.Set("Mcp-Protocol-Version", p.Version)
	}
	return req, nil
}

// errNoAnswer is about a response that ended before the answer.
var errNoAnswer = errors.New("the response ended without an answer")

// exchange sends a request and delivers the messages of its response. It returns an error if the
// answer to the request id, unless that is 0, is not among them.
func (p *posts) exchange(req *http.Request, id int) error {
	res, err := p.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if session := res.Header.Get("Mcp-Session-Id"); session != "" {
		p.session.Store(&session)
	}
	if res.StatusCode >= 300 {
		return p.refusal(res, id)
	}
	next := wholeBody(res.Body)
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "text/event-stream" {
		next = events(res.Body)
	}
	for answered := id == 0; !answered; {
		raw, err := next()
		if err != nil {
			return fmt.Errorf("%w: %v", errNoAnswer, err)
		}
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("the server sent what is not a message: %q", raw)
		}
		p.client.deliver(m)
		answered = m.ID != nil && *m.ID == id
	}
	io.Copy(io.Discard, res.Body) // the connection can then be used again
	return nil
}

// refusal handles a response whose status is an error. It is an answer if its body is one.
func (p *posts) refusal(res *http.Response, id int) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	var m message
	if json.Unmarshal(body, &m) == nil && m.Error != nil && id != 0 {
		m.ID = &id // the server may not have read it
		p.client.deliver(m)
		return nil
	}
	return fmt.Errorf("HTTP status %s: %s", res.Status, bytes.TrimSpace(body))
}

// wholeBody returns a body as one message.
func wholeBody(body io.Reader) func() ([]byte, error) {
	return func() ([]byte, error) {
		raw, err := io.ReadAll(body)
		if err == nil && len(raw) == 0 {
			err = io.EOF
		}
		return raw, err
	}
}

// events returns the data of each event of a stream that has any, in order.
func events(body io.Reader) func() ([]byte, error) {
	lines := bufio.NewReader(body)
	return func() ([]byte, error) {
		var data []byte
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return nil, err
			}
			line = strings.TrimRight(line, "\r\n")
			switch text, ok := strings.CutPrefix(line, "data:"); {
			case ok:
				data = append(data, strings.TrimPrefix(text, " ")...)
			case line == "" && len(data) > 0:
				return data, nil
			}
		}
	}
}

// Leave ends the session that the server has for the client in the older era. Jobs and Python
// sessions stay.
func (p *posts) Leave(ctx context.Context) error {
	defer p.http.CloseIdleConnections()
	if p.session.Load() == nil {
		return nil
	}
	req, err := p.request(ctx, http.MethodDelete, nil)
	if err != nil {
		return err
	}
	p.session.Store(nil)
	return p.exchange(req, 0)
}

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Versions of the protocol, one of each era. In the older era a client opens a session; in the newer
// one each request says all that the server must know about the client.
const (
	Older = "2025-06-18"
	Newer = "2026-07-28"
)

// ErrTool is wrapped by the error of a call that the tool itself refused.
var ErrTool = errors.New("tool error")

// A Refusal is the error of a request that the server has answered with an error.
type Refusal struct {
	What string // the method or the tool
	Code int    // the code of a JSON-RPC error; 0: the tool itself has refused the call
	Text string // the server's words
}

func (r *Refusal) Error() string {
	if r.Code == 0 {
		return fmt.Sprintf("%s: %v: %s", r.What, ErrTool, r.Text)
	}
	return fmt.Sprintf("%s: error %d: %s", r.What, r.Code, r.Text)
}

// Is makes a refusal of a tool an ErrTool.
func (r *Refusal) Is(target error) bool { return target == ErrTool && r.Code == 0 }

// A Client is one connection to a server. New and NewHTTP make one.
type Client struct {
	carrier
	version string // the protocol version

	// Guarded by mu.
	mu      sync.Mutex
	last    int                    // the id of the last request
	waiting map[int]chan<- message // calls by id; nil once err is set
	err     error                  // why no more answers will come
}

// A carrier takes a client's messages to the server. Answers go to Client.deliver.
type carrier interface {
	// carry sends a message. The returned function withdraws a request whose answer no caller wants
	// any more; it can be called more than once.
	carry(m outgoing) (withdraw func(), err error)
	// Leave ends the connection. Only HTTP needs that.
	Leave(ctx context.Context) error
}

// An outgoing message is a request, or a notification if its id is 0.
type outgoing struct {
	id     int
	method string
	params map[string]any
}

// marshal returns the message as JSON.
func (m outgoing) marshal() ([]byte, error) {
	fields := map[string]any{"jsonrpc": "2.0", "method": m.method}
	if m.id != 0 {
		fields["id"] = m.id
	}
	if m.params != nil {
		fields["params"] = m.params
	}
	return json.Marshal(fields)
}

// A message is an answer, or anything else that a server may send.
type message struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	lost error // why there is no answer to the request ID
}

func newClient(version string, by carrier) *Client {
	return &Client{carrier: by, version: version, waiting: make(map[int]chan<- message)}
}

// New returns a client that reads the server's messages from r and writes its own to w.
func New(r io.Reader, w io.Writer) *Client {
	c := newClient(Older, &lines{w: w})
	go c.read(r) // owned by the client; ends with r, which the caller closes
	return c
}

// lines carry messages over a stream, one a line.
type lines struct {
	// Guarded by writing, which is apart from the client's mu: a server can stop reading until its
	// answers are read, and reading needs mu.
	writing sync.Mutex
	w       io.Writer
}

func (l *lines) carry(m outgoing) (withdraw func(), err error) {
	line, err := m.marshal()
	if err != nil {
		return nil, err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err = l.w.Write(append(line, '\n'))
	return func() {}, err
}

func (l *lines) Leave(context.Context) error { return nil }

// read hands each answer to the request that waits for it, until r ends.
func (c *Client) read(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			c.fail(fmt.Errorf("the server closed its output: %w", err))
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			c.fail(fmt.Errorf("the server wrote a line that is not a message: %q", line))
			return
		}
		c.deliver(m)
	}
}

// deliver hands an answer to the request that waits for it.
func (c *Client) deliver(m message) {
	if m.ID == nil {
		return // a notification
	}
	c.mu.Lock()
	answer := c.waiting[*m.ID]
	delete(c.waiting, *m.ID)
	c.mu.Unlock()
	if answer != nil {
		answer <- m // has room: one answer for each request
	}
}

// fail ends every request in flight with err, and every later one.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, answer := range c.waiting {
		close(answer)
	}
	c.waiting = nil
}

// Initialize opens the connection. It must be the first call.
func (c *Client) Initialize(ctx context.Context) error {
	if c.version >= Newer {
		_, err := c.Request(ctx, "server/discover", nil)
		return err
	}
	_, err := c.Request(ctx, "initialize", map[string]any{
		"protocolVersion": c.version,
		"capabilities":    map[string]any{},
		"clientInfo":      clientInfo,
	})
	if err != nil {
		return err
	}
	_, err = c.carry(outgoing{method: "notifications/initialized"})
	return err
}

var clientInfo = map[string]any{"name": "async-repl", "version": "0"}

// Request sends a request and returns its result.
func (c *Client) Request(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	p, err := c.send(method, params)
	if err != nil {
		return nil, err
	}
	return p.result(ctx)
}

// Call calls a tool and returns its reply.
func (c *Client) Call(ctx context.Context, tool string, args map[string]any) (Reply, error) {
	p, err := c.Start(tool, args)
	if err != nil {
		return "", err
	}
	return p.Reply(ctx)
}

// Start calls a tool and does not wait for its reply.
func (c *Client) Start(tool string, args map[string]any) (*Pending, error) {
	p, err := c.send("tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return nil, err
	}
	p.what = tool
	return p, nil
}

func (c *Client) send(method string, params map[string]any) (*Pending, error) {
	answer := make(chan message, 1) // one answer for each request
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.err
	}
	c.last++
	id := c.last
	c.waiting[id] = answer
	c.mu.Unlock()
	withdraw, err := c.carry(outgoing{id, method, params})
	if err != nil {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return nil, err
	}
	return &Pending{client: c, what: method, answer: answer, withdraw: withdraw}, nil
}

// failure returns why no more answers will come.
func (c *Client) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// A Pending is a request in flight.
type Pending struct {
	client   *Client
	what     string         // the method or the tool, for errors
	answer   <-chan message // closed if there will be none
	withdraw func()
}

// Reply waits for the reply of the tool. Call it once.
func (p *Pending) Reply(ctx context.Context) (Reply, error) {
	raw, err := p.result(ctx)
	if err != nil {
		return "", err
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return "", fmt.Errorf("%s: %w", p.what, err)
	}
	var text strings.Builder
	for _, block := range result.Content {
		text.WriteString(block.Text)
	}
	if result.IsError {
		return "", &Refusal{What: p.what, Text: text.String()}
	}
	return Reply(text.String()), nil
}

func (p *Pending) result(ctx context.Context) (json.RawMessage, error) {
	select {
	case m, ok := <-p.answer:
		switch {
		case !ok:
			return nil, p.client.failure()
		case m.lost != nil:
			return nil, fmt.Errorf("%s: %w", p.what, m.lost)
		case m.Error != nil:
			return nil, &Refusal{What: p.what, Code: m.Error.Code, Text: m.Error.Message}
		}
		return m.Result, nil
	case <-ctx.Done():
		p.withdraw()
		return nil, ctx.Err()
	}
}

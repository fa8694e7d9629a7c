//go:build unix

package main

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

// A client speaks to a server as a coding agent's client does: JSON-RPC, a
// message a line. It serves the demo, the tests and the benchmarks.
type Client struct {
	w io.Writer

	// Guarded by mu.
	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	err     error // why nothing more will come
}

type message struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// newClient starts reading r, until it ends.
func NewClient(r io.Reader, w io.Writer) *Client {
	c := &Client{w: w, waiting: make(map[int]chan message)}
	go c.read(r) // ends with r, which is the caller's to close
	return c
}

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
			c.fail(fmt.Errorf("the server wrote a line that is not JSON: %q", line))
			return
		}
		if m.ID == nil {
			continue // a notification
		}
		c.mu.Lock()
		answer := c.waiting[*m.ID]
		delete(c.waiting, *m.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- m // has room: one answer for each request
		}
	}
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, answer := range c.waiting {
		close(answer)
	}
	c.waiting = nil
}

// request sends a request and waits for its result.
func (c *Client) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer, err := c.send(method, params)
	if err != nil {
		return nil, err
	}
	return c.result(ctx, method, answer)
}

// send sends a request. Its answer comes over the channel, which is closed if
// there will be none.
func (c *Client) send(method string, params any) (answer <-chan message, err error) {
	ch := make(chan message, 1) // one answer for each request
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	c.last++
	c.waiting[c.last] = ch
	return ch, c.write(map[string]any{"jsonrpc": "2.0", "id": c.last, "method": method, "params": params})
}

// result waits for the answer to a request.
func (c *Client) result(ctx context.Context, method string, answer <-chan message) (json.RawMessage, error) {
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, c.err
		case m.Error != nil:
			return nil, fmt.Errorf("%s: error %d: %s", method, m.Error.Code, m.Error.Message)
		}
		return m.Result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *Client) write(m any) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = c.w.Write(append(line, '\n'))
	return err
}

// open does what a client does first.
func (c *Client) Initialize(ctx context.Context) error {
	_, err := c.Request(ctx, "initialize", map[string]any{
		"protocolVersion": "2025-06-18",
		"capabilities":    map[string]any{},
		"clientInfo":      map[string]any{"name": "async-repl", "version": "0"},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
}

// ErrTool is the error of a call that the tool itself refused.
var ErrTool = errors.New("tool error")

// A reply is the text that a tool answered.
type Reply string

// call calls a tool.
func (c *Client) Call(ctx context.Context, tool string, args map[string]any) (Reply, error) {
	answer, err := c.Start(tool, args)
	if err != nil {
		return "", err
	}
	return c.Reply(ctx, tool, answer)
}

// ask calls a tool without waiting for the answer.
func (c *Client) Start(tool string, args map[string]any) (answer <-chan message, err error) {
	return c.send("tools/call", map[string]any{"name": tool, "arguments": args})
}

// reply waits for what a tool answers.
func (c *Client) Reply(ctx context.Context, tool string, answer <-chan message) (Reply, error) {
	raw, err := c.result(ctx, "tools/call", answer)
	if err != nil {
		return "", err
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, part := range result.Content {
		text.WriteString(part.Text)
	}
	if result.IsError {
		return "", fmt.Errorf("%s: %w: %s", tool, ErrTool, text.String())
	}
	return Reply(text.String()), nil
}

// header returns the value of the first header line of that name.
func (r Reply) Header(name string) string {
	head, _, _ := strings.Cut(string(r), "\n\n")
	for line := range strings.Lines(head) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSuffix(value, "\n")
		}
	}
	return ""
}

// section returns the text under the first mark of that name.
func (r Reply) Section(name string) string {
	_, text, _ := strings.Cut(string(r), "--- "+name+" ---\n")
	text, _, _ = strings.Cut(text, "\n--- ")
	return text
}

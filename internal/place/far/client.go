package far

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A Client sends requests to the engine with one start. Its methods can be called by several goroutines at once.
type Client struct {
	do    func(*http.Request) (*http.Response, error)
	start string
}

// NewClient returns a client. do sends a request over the present connection, as [http.ClientConn.RoundTrip] does.
func NewClient(do func(*http.Request) (*http.Response, error), start string) *Client {
	return &Client{do, start}
}

// Refused is the error of a request that the engine at the place has answered with a refusal.
type Refused struct {
	Code   int    // the status of HTTP
	Text   string // the reason in words; if a tool has refused a call, its text
	reason error
}

func (e *Refused) Error() string { return e.Text }

// Unwrap returns the error of package jobs for which input was refused, or nil.
func (e *Refused) Unwrap() error { return e.reason }

const (
	maxAnswer  = 4 << 20  // bytes of an answer, other than a life
	maxRefusal = 64 << 10 // bytes of the text of a refusal
)

// Start starts a job under an id, unless it exists, and follows it from a position on. The caller closes the Closer
// when it reads no more, and ends ctx then at the latest.
func (c *Client) Start(ctx context.Context, id, tool string, args json.RawMessage, keep bool, from stream.Position) (*stream.Reader, io.Closer, error) {
	return c.life(ctx, http.MethodPut, id, startRequest{callRequest{tool, args}, keep}, from)
}

// Follow is Start for a job that exists: it starts none. If there is no such job, the error is a *[Refused] with the
// code 404.
func (c *Client) Follow(ctx context.Context, id string, from stream.Position) (*stream.Reader, io.Closer, error) {
	return c.life(ctx, http.MethodGet, id, nil, from)
}

func (c *Client) life(ctx context.Context, method, id string, body any, from stream.Position) (*stream.Reader, io.Closer, error) {
	resp, err := c.send(ctx, method, fmt.Sprintf("%s?cursor=%d&displays=%d&quick=%d", jobPath(id), from.Cursor, from.Displays, from.Quick.Milliseconds()), body)
	if err != nil {
		return nil, nil, err
	}
	return stream.NewReader(resp.Body, id, from), resp.Body, nil
}

// Record returns the present record of a job. If there is no such job, the error is a *[Refused] with the code 404.
func (c *Client) Record(ctx context.Context, id string) (*jobs.Record, error) {
	resp, err := c.send(ctx, http.MethodGet, jobPath(id)+"/record", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	f, err := stream.NewReader(resp.Body, id, stream.Position{}).Next()
	if err == nil && f.Record == nil {
		err = errors.New("the engine at the place has sent no record")
	}
	return f.Record, err
}

// Stop asks a job to end.
func (c *Client) Stop(ctx context.Context, job string, st jobs.Stop) error {
	return c.ask(ctx, http.MethodPost, jobPath(job)+"/stop", st, nil)
}

// Cleanup ends what an ended job has left, as [jobs.Job.Cleanup] does. If ctx is done first, it continues there.
func (c *Client) Cleanup(ctx context.Context, job string, st jobs.Stop) (jobs.Remains, error) {
	var a remains
	if err := c.ask(ctx, http.MethodPost, jobPath(job)+"/cleanup", st, &a); err != nil {
		return jobs.Remains{}, err
	}
	if err := stream.Tidy(&a); err != nil {
		return jobs.Remains{}, err
	}
	return jobs.Remains{Ended: a.Ended, Survivors: a.Survivors, Pending: a.Pending, Err: errorOf(a.Error)}, nil
}

// Call calls a tool that starts no job, and calls begun once that has taken effect. Its text has no control characters
// but newlines and tabs.
func (c *Client) Call(ctx context.Context, tool string, args json.RawMessage, begun func()) (text string, isError bool, err error) {
	resp, err := c.send(ctx, http.MethodPost, "/link/call", callRequest{tool, args})
	if err != nil {
		return "", false, err
	}
	begun()
	var a callAnswer
	if err := readJSON(resp, &a); err != nil {
		return "", false, err
	}
	return plain(a.Text), a.IsError, nil
}

// State returns the state of the engine.
func (c *Client) State(ctx context.Context) (State, error) {
	var s State
	if err := c.ask(ctx, http.MethodGet, "/link/state", nil, &s); err != nil {
		return State{}, err
	}
	s.Since, s.Jobs = max(0, s.Since), max(0, s.Jobs)
	return s, stream.Tidy(&s)
}

// End says goodbye: the engine ends what was not started to be kept, and itself if nothing is kept.
func (c *Client) End(ctx context.Context) error {
	return c.ask(ctx, http.MethodPost, "/link/end", nil, nil)
}

// Trim ends what is not kept, as a goodbye does, but the engine stays for its server. The receipts of the jobs name the
// cause.
func (c *Client) Trim(ctx context.Context, cause jobs.By) error {
	return c.ask(ctx, http.MethodPost, "/link/trim", jobs.Stop{By: cause}, nil)
}

func jobPath(id string) string { return "/link/jobs/" + url.PathEscape(id) }

// ask sends a request and reads the JSON of its answer into v, if that is not nil.
func (c *Client) ask(ctx context.Context, method, path string, body, v any) error {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	if v == nil {
		resp.Body.Close()
		return nil
	}
	return readJSON(resp, v)
}

// readJSON reads the JSON of an answer into v, and closes it.
func readJSON(resp *http.Response, v any) error {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(b) > maxAnswer:
		return fmt.Errorf("the engine at the place has answered with more than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("the engine at the place has sent an answer that can't be read: %s", view.Line(err.Error(), maxLine))
	}
	return nil
}

// send sends a request, with the JSON of body if that is not nil, and returns the answer if it is no refusal.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://place"+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set(engineHeader, c.start)
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil, err
	}
	status := fmt.Sprintf("The engine at the place has answered with the status %d.", resp.StatusCode)
	return nil, &Refused{resp.StatusCode, cmp.Or(plain(strings.TrimSpace(string(text))), status), reasons[resp.Header.Get(reasonHeader)]}
}

// plain escapes all control and format characters of a text but newlines and tabs.
func plain(text string) string {
	var b strings.Builder
	for text != "" {
		n := strings.IndexAny(text, "\n\t")
		if n < 0 {
			n = len(text)
		}
		b.WriteString(view.Line(text[:n], maxAnswer))
		text = text[n:]
		if text != "" {
			b.WriteByte(text[0])
			text = text[1:]
		}
	}
	return b.String()
}

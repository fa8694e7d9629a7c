package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// PutFile sends a file up to the workspace, by the requests for files that the server has beside its
// MCP endpoint.
func (h HTTP) PutFile(ctx context.Context, path, content string) error {
	_, err := h.ask(ctx, http.MethodPut, "files/"+path, strings.NewReader(content))
	return err
}

// PostAPI makes a request of the page's with a body of JSON. The path is below /api/.
func (h HTTP) PostAPI(ctx context.Context, path string, body any) error {
	b, err := json.Marshal(body)
	if err == nil {
		_, err = h.ask(ctx, http.MethodPost, "api/"+path, bytes.NewReader(b))
	}
	return err
}

// GetFile fetches a file of the workspace.
func (h HTTP) GetFile(ctx context.Context, path string) (content string, err error) {
	return h.ask(ctx, http.MethodGet, "files/"+path, nil)
}

// ask makes a request beside the MCP endpoint, and returns the body of the answer.
func (h HTTP) ask(ctx context.Context, method, path string, body io.Reader) (string, error) {
	at, err := url.Parse(h.URL)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, method, at.JoinPath("..", path).String(), body)
	if err != nil {
		return "", err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if h.Token != "" {
		req.Header.Set("Authorization", "Bearer "+h.Token)
	}
	res, err := cmp.Or(h.Transport, http.DefaultTransport).RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("HTTP status %s: %s", res.Status, bytes.TrimSpace(content))
	}
	return string(content), err
}

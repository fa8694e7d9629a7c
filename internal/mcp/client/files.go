package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// PutFile sends a file up to the workspace, by the requests for files that the server has beside its
// MCP endpoint.
func (h HTTP) PutFile(ctx context.Context, path, content string) error {
	_, err := h.file(ctx, http.MethodPut, path, strings.NewReader(content))
	return err
}

// GetFile fetches a file of the workspace.
func (h HTTP) GetFile(ctx context.Context, path string) (content string, err error) {
	return h.file(ctx, http.MethodGet, path, nil)
}

func (h HTTP) file(ctx context.Context, method, path string, body io.Reader) (string, error) {
	at, err := url.Parse(h.URL)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, method, at.JoinPath("..", "files", path).String(), body)
	if err != nil {
		return "", err
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

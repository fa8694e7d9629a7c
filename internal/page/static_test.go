//go:build unix

package page_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"asyncrepl/internal/page"
	"asyncrepl/internal/test/must"
)

// The page's files are there by their paths, with their types, and are not sent again if they are the same.
func TestStaticServesThePage(t *testing.T) {
	t.Parallel()
	login := false
	serve := func(method, path, tag string) *http.Response {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
		r.Header.Set("If-None-Match", tag)
		if !page.Static(w, r, login) {
			return nil
		}
		return w.Result()
	}
	for _, path := range []string{"/", "/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/sessions/lab", "/index.html"} {
		r := serve("GET", path, "")
		if r == nil || r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("%s: %+v", path, r)
		}
		if !strings.Contains(r.Header.Get("Content-Security-Policy"), "script-src 'self'") || r.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", path, r.Header)
		}
		again := serve("GET", path, r.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified || again.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s again: %+v", path, again)
		}
	}
	for _, path := range []string{"/nothing", "/static/index.html", "/../page.go", "/vendor", "/api/jobs", "/mcp"} {
		if r := serve("GET", path, ""); r != nil {
			t.Errorf("%s is served: %v", path, r.Header)
		}
	}
	if serve("POST", "/", "") != nil || serve("HEAD", "/", "") == nil {
		t.Error("POST is served, or HEAD is not")
	}
	without := serve("GET", "/", "")
	login = true
	with := serve("GET", "/", without.Header.Get("ETag"))
	if body := string(must.Get(io.ReadAll(with.Body))(t)); with.StatusCode != http.StatusOK || !strings.Contains(body, "<html data-login ") {
		t.Errorf("the page of a login is %d: %s", with.StatusCode, body)
	}
}

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
)

// The time of a call through all of it. Aim: 1.3x of the same server without a sandbox through a reverse proxy that
// does nothing but read the body first, in the process of the client. Beside is that server without any proxy.
func BenchmarkTenantInASandbox(b *testing.B) {
	for _, version := range []string{client.Older, client.Newer} {
		for name, call := range map[string][]any{
			"list_jobs": nil, "execute_python": {"code", "x=1"}, "execute_command_async": {"command", "echo hi", "wait_seconds", 60},
		} {
			f := newTokens(b, "alice")
			start := func(b *testing.B, apart, proxied bool) func() {
				s := prepareTenants(b, apart, f, "-python", realPython())
				s.begin()
				c := *s
				at := s.url()
				if proxied {
					at = proxyTo(b, at)
				}
				c.Client = client.NewHTTP(client.HTTP{URL: at, Version: version, Token: f.tokens["alice"]})
				must.Do(b, c.Initialize(c.ctx()))
				c.do(name, call...)
				return func() { c.do(name, call...) }
			}
			for floor, proxied := range map[string]bool{"beside a proxy": true, "beside no proxy": false} {
				b.Run(version+"/"+name+"/"+floor, func(b *testing.B) {
					comparePaired(b, start(b, true, false), start(b, false, proxied))
				})
			}
		}
	}
}

// proxyTo returns the URL of a reverse proxy.
func proxyTo(b *testing.B, to string) string {
	target := must.Get(url.Parse(to))(b)
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", target.Host },
		Transport: transport, FlushInterval: -1,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(w, r)
		}
	}))
	b.Cleanup(s.Close)
	return s.URL + target.Path
}

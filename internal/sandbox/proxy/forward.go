//go:build linux

package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
)

// forward passes on a request for http://HOST and its response.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, source int) *failure {
	switch {
	case r.URL.Scheme != "http" || r.URL.Host == "":
		return bad("this is a proxy for http://HOST and for CONNECT, and not for %.100q", r.RequestURI)
	case r.URL.User != nil:
		return bad("%.100q has a user before its host", r.RequestURI)
	}
	to, f := parseTarget(r.URL.Host, 80)
	if f != nil {
		return f
	}
	// Upgrades are not passed on. One to h2c is an offer of clients that do without it, such as Java's.
	if to := r.Header.Get("Upgrade"); to != "" && !strings.EqualFold(to, "h2c") {
		return &failure{http.StatusNotImplemented, fmt.Sprintf("an upgrade to %.100q needs CONNECT", to)}
	}
	server, f := p.reach(r.Context(), "HTTP", to, source)
	if f != nil {
		return f
	}
	defer server.Close()
	// Otherwise the server reads the rest of a request when its response begins, and what is passed on of
	// the request is cut.
	http.NewResponseController(w).EnableFullDuplex()
	host := strings.TrimSuffix(net.JoinHostPort(to.Name, strconv.Itoa(to.Port)), ":80")
	(&httputil.ReverseProxy{
		Transport: &http.Transport{
			DialContext:            func(context.Context, string, string) (net.Conn, error) { return server, nil },
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 8 * mostHeader,
		},
		Rewrite:        func(pr *httputil.ProxyRequest) { rewrite(pr, host) },
		ModifyResponse: func(answer *http.Response) error { return addNothing(w, answer) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			f := failure{http.StatusBadGateway, fmt.Sprintf("%s: %v", host, err)}
			http.Error(w, f.line(), f.status)
		},
		FlushInterval: -1,
		ErrorLog:      p.server.ErrorLog,
	}).ServeHTTP(w, r)
	return nil
}

// rewrite makes a request as its client would have sent it without a proxy. Its header Host is that of
// the URL: another one could name a host that the list does not allow, at the same address.
func rewrite(pr *httputil.ProxyRequest, host string) {
	pr.Out.URL.Host, pr.Out.Host = host, host
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	for name, values := range pr.In.Header {
		switch {
		case strings.HasPrefix(name, "Proxy-"):
			pr.Out.Header.Del(name)
		case name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-"):
			pr.Out.Header[name] = values
		}
	}
	pr.Out.Header.Del("Connection")
	pr.Out.Header.Del("Upgrade") // and ReverseProxy refuses a switch that was not asked for
}

// addNothing keeps the server from adding headers that a response lacks.
func addNothing(w http.ResponseWriter, answer *http.Response) error {
	for _, name := range []string{"Content-Type", "Date"} {
		if answer.Header[name] == nil {
			w.Header()[name] = nil
		}
	}
	return nil
}

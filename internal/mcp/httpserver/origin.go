package httpserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// foreign returns why a request is refused for the page or the name that it comes through, or "". A
// browser sends the Origin of the page that makes a request. A page whose name leads to this machine
// only since it was loaded (DNS rebinding) sends its name as the Host.
func (s *Server) foreign(r *http.Request) string {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && isLoopback(local.String()) && !isLoopback(r.Host) && !sameHost(s.config.PublicURL, r.Host) {
		return fmt.Sprintf("the Host %q is not a name of this server: use 127.0.0.1 or localhost, or start the server with -public-url", r.Host)
	}
	for _, origin := range r.Header["Origin"] {
		if !sameHost(origin, r.Host) && !sameOrigin(s.config.PublicURL, origin) && !slices.Contains(s.config.Origins, strings.ToLower(origin)) {
			return fmt.Sprintf("requests of pages from %q are not allowed", origin)
		}
	}
	return ""
}

// answerPage tells the browser of a listed page that the page may read the answer. It reports whether
// the request asks for nothing else: browsers ask before they send what a page from elsewhere wants
// to send, and without the token.
func (s *Server) answerPage(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if !s.listed(r) {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, ETag, Content-Range")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	w.WriteHeader(http.StatusNoContent)
	return true
}

// listed reports whether a request says that it comes from a page of Config.Origins.
func (s *Server) listed(r *http.Request) bool {
	return slices.Contains(s.config.Origins, strings.ToLower(r.Header.Get("Origin")))
}

// ParseOrigins parses a list of origins, with commas between them, as browsers write them.
func ParseOrigins(list string) (origins []string, err error) {
	for origin := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(origin))
		if err != nil || !isServer(u) || u.Path != "" {
			return nil, errors.New("one or more of the form https://HOST or http://HOST:PORT, with commas between them")
		}
		origins = append(origins, strings.ToLower(u.String()))
	}
	return origins, nil
}

// ParseURL parses the URL of a server, which can have a path, and returns it without a slash at its
// end. It can also be the URL that clients are given, which ends in that of the protocol.
func ParseURL(text string) (string, error) {
	u, err := url.Parse(strings.TrimRight(strings.TrimSuffix(strings.TrimRight(text, "/"), mcpPath), "/"))
	if err != nil || !isServer(u) {
		return "", errors.New("a URL like https://HOST or http://HOST:PORT/PATH")
	}
	return u.String(), nil
}

// isServer reports whether a URL names a server of pages, and perhaps a path, and nothing more.
func isServer(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// isLoopback reports whether a host, with or without a port, is this machine and nothing else.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// sameOrigin reports whether the pages of a URL have an origin. A proxy need not pass on the Host by
// which the browser knows the server.
func sameOrigin(page, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && strings.HasPrefix(page, u.Scheme+"://") && sameHost(page, u.Host)
}

// sameHost reports whether a URL or an origin is of the server that a request calls host.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || !isServer(u) {
		return false
	}
	port := ":80"
	if u.Scheme == "https" {
		port = ":443"
	}
	return strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}

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

// whyForeign returns why the Host or the Origin of a request is refused, or "" if both are allowed.
// A browser sends the page that makes a request as the Origin. If an attacker points the name of
// the page to this machine after the page was loaded (DNS rebinding), the browser sends that name
// as the Host.
func (s *Server) whyForeign(r *http.Request) string {
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

// answerPage lets a listed page read the answer to its request. It reports whether it has answered
// the request itself: a browser first asks, without the token, whether a page may send a request to
// another server (https://developer.mozilla.org/en-US/docs/Glossary/Preflight_request).
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

// listed reports whether the Origin of a request is one of Config.Origins.
func (s *Server) listed(r *http.Request) bool {
	return slices.Contains(s.config.Origins, strings.ToLower(r.Header.Get("Origin")))
}

// ParseOrigins parses a list of origins, separated by commas, and returns them as browsers write
// them.
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

// ParseURL parses the URL of a server and returns it without a slash at its end. The URL can have a
// path. It can also be the URL that clients use, which ends with the path of the protocol.
func ParseURL(text string) (string, error) {
	u, err := url.Parse(strings.TrimRight(strings.TrimSuffix(strings.TrimRight(text, "/"), mcpPath), "/"))
	if err != nil || !isServer(u) {
		return "", errors.New("a URL like https://HOST or http://HOST:PORT/PATH")
	}
	return u.String(), nil
}

// isServer reports whether a URL consists of http or https, a host and perhaps a path.
func isServer(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// isLoopback reports whether a host, with or without a port, is localhost or a loopback address.
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

// sameOrigin reports whether the page at a URL has this origin. It compares with the public URL
// because a proxy can replace the Host that the browser sends.
func sameOrigin(page, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && strings.HasPrefix(page, u.Scheme+"://") && sameHost(page, u.Host)
}

// sameHost reports whether the host of a URL or an origin is the Host of a request. The default
// port of the scheme makes no difference.
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

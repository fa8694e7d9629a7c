package httpserver

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// allowed returns why a request is refused for the page or the name that it comes through, or "". A
// browser sends the Origin of the page that makes a request. A page whose name leads to this machine
// only since it was loaded (DNS rebinding) sends its name as the Host.
func allowed(r *http.Request) string {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isLoopback(local.String()) && !isLoopback(r.Host) {
		return fmt.Sprintf("the Host %q is not a name of this machine's loopback: use 127.0.0.1 or localhost", r.Host)
	}
	if origin, given := r.Header["Origin"]; given && !sameHost(strings.Join(origin, " "), r.Host) {
		return fmt.Sprintf("requests of pages from %q are not allowed", origin)
	}
	return ""
}

// isLoopback reports whether a host, with or without a port, is this machine and nothing else.
func isLoopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && ip.IsLoopback()
}

// sameHost reports whether a page of origin is of the server that it calls as host.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	port := ":80"
	if u.Scheme == "https" {
		port = ":443"
	}
	return strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}

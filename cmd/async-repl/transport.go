//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// These settings choose how clients connect: one over standard input and output, or many over HTTP.
// The subcommand serve, an address and -transport http each ask for HTTP.

// unset is the SessionTTL of settings that name none.
const unset = time.Duration(-1)

// serveTTL is how long a Python session can be idle under HTTP, where no end of input ends it.
const serveTTL = 2 * time.Hour

// pageCommand is what serves the page if the server does not.
const pageCommand = "async-repl page"

func setTransport(to *string, v string) error {
	switch v {
	case "stdio", "http":
		*to = v
	case "streamable-http":
		*to = "http"
	default:
		return errors.New("stdio, http or streamable-http")
	}
	return nil
}

func setPort(to *string, v string) error {
	if n, err := strconv.ParseUint(v, 10, 16); err != nil || n == 0 && v != "0" {
		return errors.New("a whole number from 0 to 65535; 0 means any free port")
	}
	*to = v
	return nil
}

// chooseTransport sets listen if clients connect over HTTP, and the settings that depend on that.
func (s *settings) chooseTransport(serve bool) error {
	address := s.listen != "" || s.host != "" || s.port != ""
	switch {
	case s.transport == "stdio" && serve:
		return errors.New("serve can't serve over stdio: leave the word serve out, or -transport (REPL_TRANSPORT)")
	case s.transport == "stdio" && address:
		return errors.New("an address can't be served over stdio: leave -listen, -host and -port (REPL_LISTEN, REPL_HOST, REPL_PORT) out, or choose -transport http")
	case serve || address || s.transport == "http":
		return s.overHTTP()
	}
	return s.overStdio()
}

func (s *settings) overHTTP() error {
	if s.listen != "" && (s.host != "" || s.port != "") {
		return fmt.Errorf("-listen %s (REPL_LISTEN) has the whole address: leave -host and -port (REPL_HOST, REPL_PORT) out", s.listen)
	}
	if s.listen == "" {
		host := cmp.Or(s.host, "127.0.0.1")
		// The colons of an IPv6 address need brackets before a port:
		// https://www.rfc-editor.org/rfc/rfc3986#section-3.2.2
		if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
			host = "[" + host + "]"
		}
		s.listen = host + ":" + cmp.Or(s.port, "8000")
	}
	if s.SessionTTL == unset {
		s.SessionTTL = serveTTL
	}
	if u, err := url.Parse(s.publicURL); s.page == "on" && (err != nil || u.Path != "") {
		return fmt.Errorf("-page (REPL_PAGE=on) can't be served below the path of -public-url %s (REPL_PUBLIC_URL): give the server a name or a port of its own", s.publicURL)
	}
	if s.page == "" && s.access.tokens == "" { // the clients are of this user and machine
		s.pageAt = pageCommand
	}
	return s.access.check()
}

func (s *settings) overStdio() error {
	if s.publicURL != "" || s.origins != nil {
		return errors.New("-public-url and -origin (REPL_PUBLIC_URL, REPL_ORIGIN) are about HTTP: start async-repl serve, or leave them out")
	}
	if s.metrics != "" || s.accessLog != "" {
		return errors.New("-metrics and -access-log (REPL_METRICS, REPL_ACCESS_LOG) are about HTTP: start async-repl serve, or leave them out")
	}
	if s.access != (accessSettings{}) {
		return errors.New("-tokens, -trusted-tenants, -tls-cert, -tls-key and -behind-proxy (REPL_TOKENS, …) are about HTTP: start async-repl serve, or leave them out")
	}
	if s.page == "on" {
		return errors.New("-page (REPL_PAGE=on) is about HTTP: start async-repl serve -page, or leave it out and run async-repl page, which shows servers over stdio")
	}
	if s.page == "" {
		s.pageAt = pageCommand
	}
	s.SessionTTL = max(s.SessionTTL, 0)
	return nil
}

//go:build linux

package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"asyncrepl/internal/sandbox"
)

// A failure is why a request reaches no host.
type failure struct {
	status int
	text   string
}

func bad(format string, args ...any) *failure {
	return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func (f *failure) line() string { return "async-repl's sandbox: " + f.text }

// answer writes a failure as the last response of a connection. The text is the reason phrase, too,
// because that is all that pip, wget and programs in Go show of the answer to CONNECT.
func (f *failure) answer(to io.Writer) {
	body := f.line() + "\n"
	fmt.Fprintf(to, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", f.status, f.line(), len(body), body)
}

// parseTarget reads the host of a request. If port is 0, it must name one.
func parseTarget(text string, port int) (sandbox.Host, *failure) {
	to, err := sandbox.ParseHost(text)
	if to.Port == 0 {
		to.Port = port
	}
	switch {
	case err != nil:
		return to, bad("%.100q %v", text, err)
	case to.Below:
		return to, bad("%.100q is no name", text)
	case to.Port == 0:
		return to, bad("%.100q has no port", text)
	}
	return to, nil
}

func (p *Proxy) allows(to sandbox.Host) bool {
	return slices.ContainsFunc(p.config.Hosts, func(h sandbox.Host) bool { return h.Allows(to) })
}

// reach connects to a host if the list allows it.
func (p *Proxy) reach(ctx context.Context, method string, to sandbox.Host, source int) (*net.TCPConn, *failure) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	port := strconv.Itoa(to.Port)
	refused := func(host, format string, args ...any) *failure {
		ctx, cancel := context.WithTimeout(ctx, noteLimit)
		defer cancel()
		p.config.Refused(ctx, Refusal{Method: method, Host: host, Port: to.Port, Source: source})
		return &failure{http.StatusForbidden, fmt.Sprintf(format, args...)}
	}
	unreached := func(err error) *failure {
		return &failure{http.StatusBadGateway, fmt.Sprintf("%s: %v", net.JoinHostPort(to.Name, port), err)}
	}

	if !p.allows(to) {
		return nil, refused(to.Name, "%s is not in %s", net.JoinHostPort(to.Name, port), p.config.Setting)
	}
	addresses := []netip.Addr{}
	if a, err := netip.ParseAddr(to.Name); err == nil {
		addresses = append(addresses, a)
	} else {
		all, err := p.config.Resolve(ctx, to.Name)
		if err == nil && len(all) == 0 {
			err = &net.DNSError{Err: "no address", Name: to.Name}
		}
		if err != nil {
			return nil, unreached(err)
		}
		for _, a := range all {
			if a = a.Unmap(); public(a) || p.allows(sandbox.Host{Name: a.String(), Port: to.Port}) {
				addresses = append(addresses, a)
			}
		}
		if len(addresses) == 0 {
			a := all[0].Unmap().WithZone("").String()
			return nil, refused(a, "%s is at %s, which is not of the Internet: %s must name that address, too", to.Name, a, p.config.Setting)
		}
	}
	// A network whose IPv6 leads nowhere costs one try.
	if i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() != addresses[0].Is4() }); i > 1 {
		addresses[1], addresses[i] = addresses[i], addresses[1]
	}
	var err error
	for i, a := range addresses {
		end, _ := ctx.Deadline()
		each, done := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(addresses)-i))
		var server *net.TCPConn
		server, err = p.config.Dial(each, netip.AddrPortFrom(a, uint16(to.Port)))
		done()
		if err == nil {
			return server, nil
		}
	}
	return nil, unreached(err)
}

//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/httpserver"
	"asyncrepl/internal/serve/listener"
	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/serve/relay"
)

// Observers show the people who run a server over HTTP how it is used.
type observers struct {
	access *metrics.Log     // nil: no access log
	counts *metrics.Metrics // nil: no metrics
	log    *slog.Logger

	at          net.Listener // of the metrics; nil: they are not served
	serveCounts func() error
	server      *httpserver.Server // set by serve, before the counts are read
	url         string             // the address of the metrics, for people
}

// openObservers opens the access log and the address of the metrics.
func (s *settings) openObservers(ctx context.Context, counts func(httpserver.Load) metrics.Counts, stderr io.Writer) (*observers, error) {
	o := &observers{log: s.Log}
	var err error
	switch s.accessLog {
	case "":
	case "/dev/stderr": // not opened: in a container it can belong to another user
		o.access = metrics.NewLog(stderr, s.Log)
	default:
		if o.access, err = metrics.Open(s.accessLog, s.Log); err != nil {
			return nil, fmt.Errorf("opening the access log (-access-log): %w", err)
		}
	}
	if s.metrics == "" {
		return o, nil
	}
	at, err := listener.Listen(ctx, s.metrics)
	if err != nil {
		return nil, fmt.Errorf("serving metrics (-metrics): %w", err)
	}
	local := listener.Local(at)
	if err = s.access.checkReach(s.metrics, local); !local && s.access.tokens == "" {
		err = fmt.Errorf("other machines can reach %s (-metrics, REPL_METRICS): set -tokens (REPL_TOKENS), or serve metrics on 127.0.0.1", s.metrics)
	}
	if err != nil {
		at.Close()
		return nil, err
	}
	o.at = at
	o.counts = metrics.New(s.Version, func() metrics.Counts { return counts(o.server.Load()) })
	o.serveCounts = func() error { return o.server.ServeMetrics(at, o.counts, local) }
	switch {
	case at.Addr().Network() == "unix":
		o.url = fmt.Sprintf("unix:%s, path /metrics", at.Addr())
	case !local && s.access.cert != "":
		o.url = fmt.Sprintf("https://%s/metrics", at.Addr())
	default:
		o.url = fmt.Sprintf("http://%s/metrics", at.Addr())
	}
	return o, nil
}

// counts returns what the tenants and the server of their connections have counted.
func (k *keys) counts(l httpserver.Load) metrics.Counts {
	if k.apart == nil {
		return countsOf(k.tenants.Totals(), l)
	}
	c := relay.Sum(k.apart.relays())
	for status := range k.tenants.Totals().Now { // statuses that no job has count as 0
		c.Jobs[string(status)] += 0
	}
	c.Connections, c.Strangers, c.Calls = l.Connections, l.Strangers, l.Calls
	return c
}

func countsOf(t engine.Totals, l httpserver.Load) metrics.Counts {
	c := metrics.Counts{
		Jobs: make(map[string]int), Ended: make(map[string]int64), Sessions: t.Sessions, Output: t.Output,
		Connections: l.Connections, Strangers: l.Strangers, Calls: l.Calls, MCPSessions: l.Sessions,
	}
	for status, n := range t.Now {
		c.Jobs[string(status)] = n
	}
	for status, n := range t.Ended {
		c.Ended[string(status)] = n
	}
	return c
}

// observe returns the function that receives each request, or nil if there is neither an access log
// nor metrics.
func (o *observers) observe() func(metrics.Request) {
	if o.access == nil && o.counts == nil {
		return nil
	}
	return func(r metrics.Request) {
		if o.access != nil {
			o.access.Observe(r)
		}
		if o.counts != nil {
			o.counts.Observe(r)
		}
	}
}

// serve serves the metrics, if they are wanted. Its error goes to served and ends the server.
func (o *observers) serve(server *httpserver.Server, served chan<- error, stderr io.Writer) {
	if o.serveCounts == nil {
		return
	}
	o.server = server
	fmt.Fprintln(stderr, "async-repl: serving metrics at", o.url)
	go func() { // owned by serveMany; ends with the server
		served <- o.serveCounts()
	}()
}

// close removes the socket of the metrics, also if they were never served.
func (o *observers) close() {
	if o.at != nil {
		o.at.Close() // an error: it is closed already
	}
}

// reopen opens the access log again, and reports whether there is one.
func (o *observers) reopen() bool {
	if o.access == nil {
		return false
	}
	if err := o.access.Reopen(); err != nil {
		o.log.Error("access log not opened again; the file before stays in use", "error", err)
	}
	return true
}

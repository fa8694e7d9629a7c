package relay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/serve/metrics"
)

// A Backend is the process of one tenant. Its methods can be used by several goroutines.
type Backend interface {
	// Dial connects to the process. If none runs, Dial starts one. Clients read the error, so it says
	// what to do.
	Dial(ctx context.Context) (net.Conn, error)
	// Running reports whether a process runs. It starts none.
	Running() bool
	// Lost says what is lost with a process that ended during a request, as a full sentence.
	// It is called when a connection has failed with err, which can be before the process was reaped.
	Lost(err error) string
}

// A Tenant is a tenant whose requests are served by another process. [New] makes one.
type Tenant struct {
	backend   Backend
	isStatus  func(string) bool // reports whether jobs can have a status
	transport *http.Transport
	log       *log.Logger

	// Guarded by mu.
	mu   sync.Mutex
	last metrics.Counts // the counts that the process has last answered
	past metrics.Counts // the counts of processes that have ended
}

// idleTime is how long a connection to a process stays open without a request. The process closes its
// end later (httpserver waits for 120 s), so that no request meets a connection that is being closed.
const idleTime = 90 * time.Second

// New returns a tenant without connections. isStatus reports whether jobs can have a status.
func New(b Backend, isStatus func(string) bool, logger *slog.Logger) *Tenant {
	return &Tenant{
		backend: b, isStatus: isStatus, log: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, err := b.Dial(ctx)
				if err != nil {
					return nil, &dialError{err}
				}
				return c, nil
			},
			DisableCompression:     true, // what is passed on is not changed
			MaxIdleConnsPerHost:    256,
			IdleConnTimeout:        idleTime,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// A dialError is an error of Backend.Dial. No request was sent.
type dialError struct{ error }

// Close closes the connections that no request uses.
func (t *Tenant) Close() { t.transport.CloseIdleConnections() }

// The paths that the relay asks the process at. No client can: their requests are only passed on if
// they are for others.
const (
	CountsPath = "/relay/counts" // GET: [metrics.Counts] as JSON
	RevokePath = "/relay/revoke" // POST: the name of a token that is revoked
	ReadyPath  = "/healthz"      // GET: 200, or why no job can be started
)

const (
	askTime = 5 * time.Second // bounds a question to a process
	askSize = 64 << 10        // bounds its answer
)

// ask asks the process, which must be running.
func (t *Tenant) ask(method, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := t.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode < 200 { // ctx would not end the reading of a connection that was switched
		return nil, errAnswer
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, askSize))
	if err == nil && res.StatusCode >= 300 {
		err = errors.New(strings.TrimSpace(string(answer[:min(len(answer), 500)]))) // any client can read it at /healthz
	}
	return answer, err
}

// Revoke ends the requests, streams and sessions that the process has of a token, given by its name.
// The process can fail to do it, so the caller must end the requests, too.
func (t *Tenant) Revoke(token string) {
	if !t.backend.Running() {
		return
	}
	if _, err := t.ask(http.MethodPost, RevokePath, token); err != nil {
		t.log.Print("token not revoked in a tenant's process: ", err)
	}
}

// ready returns why the process can start no job. If none runs, the next request starts one.
func (t *Tenant) ready() error {
	if !t.backend.Running() {
		return nil
	}
	_, err := t.ask(http.MethodGet, ReadyPath, "")
	return err
}

// Ready returns nil if a tenant can start a job. A process that does not answer keeps no other from
// being asked.
func Ready(tenants []*Tenant) error {
	answers := make(chan error, len(tenants)) // buffered: not all are waited for
	for _, t := range tenants {
		go func() { answers <- t.ready() }() // no owner; ends with its answer, after askTime at most
	}
	var first error
	for range tenants {
		err := <-answers
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Sum returns what the processes of all tenants have counted. It takes askTime at most.
func Sum(tenants []*Tenant) metrics.Counts {
	counts := make([]metrics.Counts, len(tenants))
	var asking sync.WaitGroup
	for i, t := range tenants {
		asking.Go(func() { counts[i] = t.counts() }) // joined below; ends with the answer
	}
	asking.Wait()
	return sum(counts...)
}

// counts returns what the processes of the tenant have counted so far. Counts of a process that has
// ended are kept, as those that it answered last. So are those of one that does not answer.
func (t *Tenant) counts() metrics.Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	var now metrics.Counts
	if t.backend.Running() {
		text, err := t.ask(http.MethodGet, CountsPath, "")
		if err == nil {
			err = json.Unmarshal(text, &now)
		}
		if err != nil {
			t.log.Print("no counts of a tenant's process: ", err)
			return sum(t.past, t.last)
		}
	}
	maps.DeleteFunc(now.Jobs, func(status string, _ int) bool { return !t.isStatus(status) })
	maps.DeleteFunc(now.Ended, func(status string, _ int64) bool { return !t.isStatus(status) })
	fewer := now.Output < t.last.Output
	for status, n := range t.last.Ended {
		fewer = fewer || now.Ended[status] < n
	}
	if fewer { // another process counts from 0 on
		t.past = sum(t.past, metrics.Counts{Ended: t.last.Ended, Output: t.last.Output})
	}
	t.last = sum(now)
	return sum(t.past, t.last)
}

// sum adds what processes have counted. What the server outside counts of clients is left out.
func sum(counts ...metrics.Counts) metrics.Counts {
	all := metrics.Counts{Jobs: make(map[string]int), Ended: make(map[string]int64)}
	for _, c := range counts {
		for status, n := range c.Jobs {
			all.Jobs[status] += bounded(n)
		}
		for status, n := range c.Ended {
			all.Ended[status] += bounded(n)
		}
		all.Output += bounded(c.Output)
		all.Sessions += bounded(c.Sessions)
		all.MCPSessions += bounded(c.MCPSessions)
	}
	return all
}

// bounded returns a count that a process can have, and of which a sum can't overflow.
func bounded[N int | int64](n N) N { return min(max(n, 0), 1<<50) }

// host is the host of all requests to a process. It is never looked up.
const host = "tenant"

var errAnswer = errors.New("the process of this tenant does not speak HTTP as it should")

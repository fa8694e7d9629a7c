package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Counts are what the jobs and sessions of all tenants add up to.
type Counts struct {
	Jobs     map[string]int   // jobs that have not ended, by status
	Ended    map[string]int64 // jobs that have ended since the start of the server, by status
	Sessions int              // Python sessions
	Output   int64            // bytes that jobs have written since the start of the server

	Connections int // connections known to be a caller's
	Strangers   int // all other connections
	Calls       int // calls in flight
	MCPSessions int // MCP sessions, which only the older era has
}

// Metrics count requests. [New] makes one.
type Metrics struct {
	version string
	read    func() Counts
	process func() process // ownProcess, except in tests

	// Guarded by mu.
	mu       sync.Mutex
	requests map[series]*histogram
}

// A series is the values of the labels of a histogram.
type series struct {
	tool   string
	result Result
}

// bounds are the upper bounds of the buckets: of calls that wait for nothing, for a job within the
// grace, and for as long as a call can wait.
var bounds = [...]time.Duration{
	5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	2500 * time.Millisecond, 10 * time.Second, 60 * time.Second,
}

// A histogram counts durations. The last bucket is for those beyond all bounds.
type histogram struct {
	buckets [len(bounds) + 1]int64
	sum     time.Duration
}

// New returns the metrics of a server of that version. read returns the counts of its engine.
func New(version string, read func() Counts) *Metrics {
	return &Metrics{version: version, read: read, process: ownProcess, requests: make(map[series]*histogram)}
}

// Observe counts a request.
func (m *Metrics) Observe(r Request) {
	bucket, _ := slices.BinarySearch(bounds[:], r.Duration)
	m.mu.Lock()
	defer m.mu.Unlock()
	key := series{r.Tool, r.Result}
	h := m.requests[key]
	if h == nil {
		h = &histogram{}
		m.requests[key] = h
	}
	h.buckets[bucket]++
	h.sum += r.Duration
}

// ServeHTTP writes the metrics in the text format of Prometheus, version 0.0.4.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "metrics can only be read", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(m.text())
}

func (m *Metrics) text() []byte {
	var t text
	c := m.read()
	t.family("async_repl_info", "gauge", "The version of the server.")
	t.sample("async_repl_info", 1, "version", m.version)
	t.family("async_repl_jobs", "gauge", "Jobs that have not ended.")
	for _, status := range slices.Sorted(maps.Keys(c.Jobs)) {
		t.sample("async_repl_jobs", c.Jobs[status], "status", status)
	}
	t.family("async_repl_jobs_ended_total", "counter", "Jobs that have ended.")
	for _, status := range slices.Sorted(maps.Keys(c.Ended)) {
		t.sample("async_repl_jobs_ended_total", c.Ended[status], "status", status)
	}
	t.family("async_repl_sessions", "gauge", "Python sessions.")
	t.sample("async_repl_sessions", c.Sessions)
	t.family("async_repl_output_bytes_total", "counter", "Bytes of output that jobs have written.")
	t.sample("async_repl_output_bytes_total", c.Output)
	t.family("async_repl_connections", "gauge", "Open connections, by whether their caller is known.")
	t.sample("async_repl_connections", c.Connections, "caller", "known")
	t.sample("async_repl_connections", c.Strangers, "caller", "unknown")
	t.family("async_repl_calls_in_flight", "gauge", "Messages of clients that are not answered yet.")
	t.sample("async_repl_calls_in_flight", c.Calls)
	t.family("async_repl_mcp_sessions", "gauge", "MCP sessions of the older era of the protocol.")
	t.sample("async_repl_mcp_sessions", c.MCPSessions)
	m.process().write(&t)
	m.durations(&t)
	return t.Bytes()
}

// durations writes the histograms of requests. Requests that call no tool have an empty label.
func (m *Metrics) durations(t *text) {
	const name = "async_repl_request_duration_seconds"
	t.family(name, "histogram", "Time until requests were answered or given up.")
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(m.requests), func(a, b series) int {
		return cmp.Or(cmp.Compare(a.tool, b.tool), cmp.Compare(a.result, b.result))
	})
	for _, key := range keys {
		h, labels := m.requests[key], []string{"tool", key.tool, "result", string(key.result)}
		count := int64(0)
		for i, n := range h.buckets {
			count += n
			le := "+Inf"
			if i < len(bounds) {
				le = fmt.Sprint(bounds[i].Seconds())
			}
			t.sample(name+"_bucket", count, append(labels, "le", le)...)
		}
		t.sample(name+"_sum", h.sum.Seconds(), labels...)
		t.sample(name+"_count", count, labels...)
	}
}

// A text is the text format of Prometheus.
type text struct{ bytes.Buffer }

// family begins the samples of a metric.
func (t *text) family(name, kind, help string) {
	fmt.Fprintf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// sample writes a value. Labels are pairs of name and value.
func (t *text) sample(name string, value any, labels ...string) {
	t.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		fmt.Fprintf(t, `%s%s="%s"`, sep, labels[i], escaped.Replace(labels[i+1]))
	}
	if len(labels) > 0 {
		t.WriteByte('}')
	}
	fmt.Fprintf(t, " %v\n", value)
}

package metrics

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	m := New("1.2 \"x\"\n", func() Counts {
		return Counts{Jobs: map[string]int{"running": 2, "queued": 0}, Ended: map[string]int64{"failed": 1}, Sessions: 3, Output: 1 << 40,
			Connections: 5, Strangers: 1, Calls: 4, MCPSessions: 2}
	})
	m.process = func() process { return process{1 << 40, 9, 1024, 0} } // 0: unknown
	for _, r := range []Request{
		{Tool: "list_jobs", Result: OK, Duration: time.Millisecond},
		{Tool: "list_jobs", Result: OK, Duration: 5 * time.Millisecond},
		{Tool: "list_jobs", Result: OK, Duration: 80 * time.Second},
		{Result: Refused},
	} {
		m.Observe(r)
	}
	rec := httptest.NewRecorder()
	m.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	const want = `# HELP async_repl_info The version of the server.
# TYPE async_repl_info gauge
async_repl_info{version="1.2 \"x\"\n"} 1
# HELP async_repl_jobs Jobs that have not ended.
# TYPE async_repl_jobs gauge
async_repl_jobs{status="queued"} 0
async_repl_jobs{status="running"} 2
# HELP async_repl_jobs_ended_total Jobs that have ended.
# TYPE async_repl_jobs_ended_total counter
async_repl_jobs_ended_total{status="failed"} 1
# HELP async_repl_sessions Python sessions.
# TYPE async_repl_sessions gauge
async_repl_sessions 3
# HELP async_repl_output_bytes_total Bytes of output that jobs have written.
# TYPE async_repl_output_bytes_total counter
async_repl_output_bytes_total 1099511627776
# HELP async_repl_connections Open connections, by whether their caller is known.
# TYPE async_repl_connections gauge
async_repl_connections{caller="known"} 5
async_repl_connections{caller="unknown"} 1
# HELP async_repl_calls_in_flight Messages of clients that are not answered yet.
# TYPE async_repl_calls_in_flight gauge
async_repl_calls_in_flight 4
# HELP async_repl_mcp_sessions MCP sessions of the older era of the protocol.
# TYPE async_repl_mcp_sessions gauge
async_repl_mcp_sessions 2
# HELP process_resident_memory_bytes Resident memory of the server itself, without its jobs.
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1099511627776
# HELP process_open_fds Open descriptors of the server.
# TYPE process_open_fds gauge
process_open_fds 9
# HELP process_max_fds The most descriptors that the server can have.
# TYPE process_max_fds gauge
process_max_fds 1024
# HELP async_repl_request_duration_seconds Time until requests were answered or given up.
# TYPE async_repl_request_duration_seconds histogram
async_repl_request_duration_seconds_bucket{tool="",result="refused",le="0.005"} 1
async_repl_request_duration_seconds_bucket{tool="",result="refused",le="0.025"} 1
async_repl_request_duration_seconds_bucket{tool="",result="refused",le="0.1"} 1
async_repl_request_duration_seconds_bucket{tool="",result="refused",le="0.5"} 1
async_repl_request_duration_seconds_bucket{tool="",result="refused",le="2.5"} 1
async_repl_request_duration_seconds_bucket{tool="",result="refused",le="10"} 1
async_repl_request_duration_seconds_bucket{tool="",result="refused",le="60"} 1
async_repl_request_duration_seconds_bucket{tool="",result="refused",le="+Inf"} 1
async_repl_request_duration_seconds_sum{tool="",result="refused"} 0
async_repl_request_duration_seconds_count{tool="",result="refused"} 1
async_repl_request_duration_seconds_bucket{tool="list_jobs",result="ok",le="0.005"} 2
async_repl_request_duration_seconds_bucket{tool="list_jobs",result="ok",le="0.025"} 2
async_repl_request_duration_seconds_bucket{tool="list_jobs",result="ok",le="0.1"} 2
async_repl_request_duration_seconds_bucket{tool="list_jobs",result="ok",le="0.5"} 2
async_repl_request_duration_seconds_bucket{tool="list_jobs",result="ok",le="2.5"} 2
async_repl_request_duration_seconds_bucket{tool="list_jobs",result="ok",le="10"} 2
async_repl_request_duration_seconds_bucket{tool="list_jobs",result="ok",le="60"} 2
async_repl_request_duration_seconds_bucket{tool="list_jobs",result="ok",le="+Inf"} 3
async_repl_request_duration_seconds_sum{tool="list_jobs",result="ok"} 80.006
async_repl_request_duration_seconds_count{tool="list_jobs",result="ok"} 3
`
	if got := rec.Body.String(); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := rec.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("type %s", got)
	}
	rec = httptest.NewRecorder()
	m.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", rec.Code)
	}
}

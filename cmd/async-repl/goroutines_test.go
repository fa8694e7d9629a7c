package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goroutines names the row in the table of docs/how-it-works.md for each go statement of a file, in
// order.
var goroutines = map[string][]string{
	"cmd/async-repl/http.go":    {"the accepting of connections, also for metrics, and of those that are relayed"},
	"cmd/async-repl/observe.go": {"the accepting of connections, also for metrics, and of those that are relayed"},
	"cmd/async-repl/doors.go":   {"the keeper of a tenant"},
	"cmd/async-repl/place.go":   {"the wait of dial for the engine that it has started", "the accepting of links at a place"},
	"cmd/async-repl/front.go":   {"the front of a client", "the wait for an engine, and the copy of its log", "the wait for an engine, and the copy of its log"},
	"cmd/async-repl/confine_linux.go": {
		"the sandbox: bwrap, its channel, and the end that a signal asks for",
		"the sandbox: bwrap, its channel, and the end that a signal asks for",
		"the wait for the process that has started the outer one",
		"the sandbox: bwrap, its channel, and the end that a signal asks for",
	},
	"cmd/async-repl/inner_linux.go": {"what the proxy has refused, on its way to the job", "the wait for a signal of the outer process"},
	"cmd/async-repl/tenants_linux.go": {
		"the accepting of connections, also for metrics, and of those that are relayed", "the life of a process that serves a tenant",
	},
	"cmd/async-repl/serve.go": {"the keeper of a server of one process", "the connection", "the end of the engine after a signal", "the catching of signals", "the wait for a signal"},

	"internal/page/live.go": {"the reader of a live connection of the page", "the typing of the keys of a page", "the question whether a page is there"},

	"internal/engine/away.go":    {"the end of what is at other places"},
	"internal/engine/engine.go":  {"the end of all jobs"},
	"internal/engine/keep.go":    {"the end of what ended jobs have left, except kept ones"},
	"internal/engine/leave.go":   {"the end of a tenant that left"},
	"internal/engine/tenants.go": {"the end of one tenant of several"},

	"internal/mcp/httpserver/sessions.go": {"one per MCP session over HTTP"},
	"internal/mcp/httpserver/relayed.go":  {"the revocation of a token in the process of a tenant"},
	"internal/serve/relay/pass.go":        {"what a client sends over a WebSocket that is passed on"},
	"internal/serve/relay/tenant.go":      {"a question to the process of a tenant", "a question to the process of a tenant"},

	"internal/client/channel/outer.go": {
		"what accepts connections for an engine in a sandbox, and the question to other engines",
		"what accepts connections for an engine in a sandbox, and the question to other engines",
	},
	"internal/client/channel/inner.go": {
		"the channel of an engine in a sandbox, and what waits in it for the engine",
		"the channel of an engine in a sandbox, and what waits in it for the engine",
		"the channel of an engine in a sandbox, and what waits in it for the engine",
	},
	"internal/client/keeper/door.go":   {"a connection to an engine, and what accepts them", "a connection to an engine, and what accepts them", "the question to other engines what they keep"},
	"internal/client/front/front.go":   {"the answers to calls that have no engine", "the reader of an engine"},
	"internal/client/keeper/conn.go":   {"the question to other engines whether they wait", "the wait for a second goodbye"},
	"internal/client/keeper/keeper.go": {"a connection to an engine, and what accepts them", "the wait for the connections of an engine"},
	"internal/place/door/find.go":      {"what a carrier sends to the engine at a place"},
	"internal/people/engines.go":       {"one per engine that a command asks"},
	"internal/people/send.go":          {"the reading of a secret"},
	"internal/people/page.go":          {"the search for engines, and the accepting of a page's connections", "what opens a browser", "the search for engines, and the accepting of a page's connections"},
	"internal/people/hub/hub.go":       {"the meeting of an engine that was found", "the list of an engine, and what is written to an engine"},
	"internal/people/hub/server.go":    {"the list of an engine, and what is written to an engine"},
	"internal/people/hub/api.go":       {"a question of a page to an engine"},
	"internal/people/hub/live.go":      {"the stream of a tab: its reader, and the open job at its engine", "the stream of a tab: its reader, and the open job at its engine"},
	"internal/people/wait.go":          {"one per job that a command waits for"},
	"internal/people/attach.go":        {"the printing and the typing of attach", "the printing and the typing of attach"},

	"internal/place/era.go":        {"what a host does for jobs that have ended"},
	"internal/place/host.go":       {"the link to an engine at a place", "what a host does for jobs that have ended"},
	"internal/place/mirror.go":     {"what a mirror does beside following its job"},
	"internal/place/places.go":     {"a look at each place, and the end of each"},
	"internal/place/reach.go":      {"the opening of a link that is tried"},
	"internal/place/carry/pipe.go": {"the last words of a carrier", "the reaping of a carrier"},

	"internal/demo/demo.go": {"the log of the server over HTTP"},
	"internal/demo/home.go": {"who is called by a job of the demo"},

	"internal/mcp/client/client.go": {"the reader of a client"},
	"internal/mcp/client/http.go":   {"a request of a client over HTTP"},

	"internal/reply/waits/waits.go": {"one per awaited job"},
	"internal/reply/waits/watch.go": {"one per awaited job", "the wait for a job's next output"},

	"internal/mcp/stdio/transport.go": {"reader and writer of a connection", "reader and writer of a connection"},

	"internal/process/reaper.go": {"the scan for orphans"},
	"internal/process/guard.go":  {"the waiter of a child, and of the guard"},
	"internal/process/start.go":  {"the waiter of a child, and of the guard"},

	"internal/kernel/pystack/stack.go": {"a look at a Python stack"},

	"internal/terminal/pump/pump.go": {"a pump per open pipe or terminal"},

	"internal/terminal/queries/queries.go": {"the answers to queries of a terminal"},
	"internal/terminal/tty/typist.go":      {"the typing of keys one at a time"},

	"internal/kernel/listening/tree.go":   {"the poller of listening ports"},
	"internal/terminal/waiting/poller.go": {"the poller of all sleeping watchers"},

	"internal/sandbox/proxy/proxy.go":  {"the proxy of a sandbox"},
	"internal/sandbox/proxy/tunnel.go": {"the two directions of a tunnel out of a sandbox", "the two directions of a tunnel out of a sandbox"},

	"jobs/registry.go": {"one per job"},

	"pyrepl/exec.go":          {"the stop of a Python job, and its repeated interrupts"},
	"pyrepl/interrupt.go":     {"the stop of a Python job, and its repeated interrupts"},
	"pyrepl/worker/worker.go": {"the reader of a worker's channel"},
	"pyrepl/exit.go":          {"those that ask idle sessions to exit"},
	"pyrepl/reset.go":         {"one per restart"},

	"shell/command.go": {"the cleanup after a command", "the wait for what a command left behind"},
}

// A comment beside every go statement names the goroutine's owner and its end, and
// docs/how-it-works.md has a row for it.
func TestEveryGoroutineIsAccountedFor(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-it-works.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := []string{"main", "one per tool call", "one per connection and request over HTTP", "one per client of a sandbox's proxy", "the progress of a waiting call", "the watcher of a terminal or a standard input"} // the runtime's, the SDK's, two of net/http and two of timers
	sources(t, func(path string, _ *ast.File) {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join("..", "..", path), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		said := make(map[int]string) // by line
		for _, group := range file.Comments {
			for _, c := range group.List {
				said[set.Position(c.Pos()).Line] = c.Text
			}
		}
		statements := 0
		ast.Inspect(file, func(n ast.Node) bool {
			if !startsGoroutine(n) {
				return true
			}
			statements++
			line := set.Position(n.Pos()).Line
			if c := said[line]; !strings.Contains(c, "ends") && !strings.Contains(c, "joined") {
				t.Errorf("%s:%d starts a goroutine and does not name its owner and its end", path, line)
			}
			return true
		})
		if rows := goroutines[path]; statements != len(rows) {
			t.Errorf("%s has %d go statements, and %d rows of the table are named for it here", path, statements, len(rows))
		}
		named = append(named, goroutines[path]...)
	})
	_, table, _ := strings.Cut(string(raw), "| goroutine | started by | its owner waits in | ends when |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []string
	for line := range strings.Lines(table) {
		row, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		rows = append(rows, row)
		if !slices.Contains(named, row) {
			t.Errorf("the table has a row for a goroutine that nothing starts: %s", row)
		}
	}
	for _, row := range named {
		if !slices.Contains(rows, row) {
			t.Errorf("the table has no row for %s", row)
		}
	}
}

// startsGoroutine reports whether n is a go statement, or the Go of a group.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Go"
	}
	return false
}

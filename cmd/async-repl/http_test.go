package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/polltest"
)

// TestServe: one server answers clients of both eras over HTTP, which see the same jobs, and ends
// by a signal.
func TestServe(t *testing.T) {
	s := prepare(t, "REPL_PYTHON="+realPython())
	s.cmd.Args = append(s.cmd.Args, "serve", "-listen", "127.0.0.1:0")
	s.begin()
	url := s.url()

	newer := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "execute_python"}
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	_, reply := post(t, url, newer, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+meta+`,"name":"execute_python","arguments":{"code":"x = 6","wait_seconds":60}}}`)
	if !strings.Contains(reply, "Status: completed") {
		t.Errorf("newer era: %s", reply)
	}

	older := map[string]string{}
	header, _ := post(t, url, older, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	older["Mcp-Session-Id"], older["Mcp-Protocol-Version"] = header.Get("Mcp-Session-Id"), "2025-06-18"
	post(t, url, older, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	_, reply = post(t, url, older, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_python","arguments":{"code":"x * 7","wait_seconds":60}}}`)
	if !strings.Contains(reply, "--- RESULT ---\\n42") {
		t.Errorf("older era: %s", reply)
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	if got := s.exit(); got != "exit status 0" {
		t.Errorf("%s, log %q", got, s.log)
	}
}

// url returns where a server that serves HTTP does so. It waits until it does.
func (s *server) url() (url string) {
	s.t.Helper()
	polltest.Until(s.t, "the address of the server", func() bool {
		_, rest, _ := strings.Cut(s.log.String(), "serving MCP at ")
		line, _, whole := strings.Cut(rest, "\n")
		url = line
		return whole
	})
	return url
}

// post sends one message and returns the headers and the body of the answer.
func post(t testing.TB, url string, header map[string]string, message string) (http.Header, string) {
	t.Helper()
	if !json.Valid([]byte(message)) {
		t.Fatalf("no JSON: %s", message)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(message)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Header, fmt.Sprintf("%s\n%s", answer.Status, body)
}

package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"asyncrepl/internal/test/readmetest"
)

// A launch says how a client's configuration starts a server.
type launch struct {
	Type    string
	Command string
	Args    []string
}

// The configurations in README.md and docs/clients.md can be parsed, have the keys that the client's
// documentation names, and start this program with valid arguments.
func TestInstallConfigurations(t *testing.T) {
	tops := map[string]string{"Claude Code": "mcpServers", "Claude Desktop": "mcpServers", "Cursor": "mcpServers", "Codex": "mcp_servers", "VS Code": "servers", "OpenAI Agents SDK": ""}
	checkConfigurations(t, "docs/clients.md", tops)
	checkConfigurations(t, "README.md", map[string]string{"Claude Code": tops["Claude Code"], "Codex": tops["Codex"]})
}

// checkConfigurations checks the first block of each client that a page shows below a heading or in
// a paragraph. tops has the keys under which the clients list their servers.
func checkConfigurations(t *testing.T, page string, tops map[string]string) {
	t.Helper()
	tops = maps.Clone(tops)
	for _, section := range regexp.MustCompile(`(?m)^(?:\*\*|#+ )`).Split(readmetest.Text(t, page), -1) {
		client, text, _ := strings.Cut(section, "\n")
		client, _, _ = strings.Cut(client, "**")
		_, block, found := strings.Cut(text, "\n```")
		if !found {
			continue
		}
		top, ok := tops[client]
		if !ok {
			t.Errorf("%s has a block of %q, which is not tried", page, client)
			continue
		}
		delete(tops, client)
		language, block, _ := strings.Cut(block, "\n")
		block, _, closed := strings.Cut(block, "\n```")
		if !closed {
			t.Errorf("%s: a block that does not end", client)
		}
		switch language {
		case "json":
			var config map[string]map[string]launch
			if err := json.Unmarshal([]byte(block), &config); err != nil {
				t.Errorf("%s: %v", client, err)
			}
			checkLaunch(t, client, config[top]["async-repl"])
		case "toml":
			checkLaunch(t, client, parseTable(t, block, "["+top+".async-repl]"))
		case "python": // whose literals are JSON here
			_, params, _ := strings.Cut(block, "params=")
			params, _, _ = strings.Cut(params, ",\n")
			var l launch
			if err := json.Unmarshal([]byte(params), &l); err != nil {
				t.Errorf("%s: %v", client, err)
			}
			checkLaunch(t, client, l)
		default:
			t.Errorf("%s: a block of %q", client, language)
		}
	}
	for client := range tops {
		t.Errorf("%s has no configuration of %s", page, client)
	}
}

func checkLaunch(t *testing.T, client string, l launch) {
	t.Helper()
	if filepath.Base(l.Command) != "async-repl" || l.Type != "" && l.Type != "stdio" {
		t.Errorf("%s: starts %+v", client, l)
	}
	for i, arg := range l.Args {
		l.Args[i] = strings.ReplaceAll(arg, "${workspaceFolder}", "/workspace")
	}
	if _, err := parseSettings(l.Args, func(string) string { return "" }, "/", false); err != nil {
		t.Errorf("%s: %v", client, err)
	}
}

// parseTable parses a TOML file of one table whose values are written as in JSON.
func parseTable(t *testing.T, text, header string) launch {
	t.Helper()
	var l launch
	var names []string
	var seconds float64
	keys := map[string]any{"command": &l.Command, "args": &l.Args, "env_vars": &names, "tool_timeout_sec": &seconds}
	head, rest, _ := strings.Cut(text, "\n")
	if head != header {
		t.Errorf("the table is %s, want %s", head, header)
	}
	for line := range strings.Lines(rest) {
		key, value, _ := strings.Cut(line, " = ")
		to, ok := keys[key]
		if !ok {
			t.Errorf("no such key: %q", key)
			continue
		}
		if err := json.Unmarshal([]byte(value), to); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if seconds <= 110 {
		t.Errorf("calls are given up after %v s, and may wait 110", seconds)
	}
	return l
}

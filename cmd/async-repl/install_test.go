package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A launch says how a client's configuration starts a server.
type launch struct {
	Type    string
	Command string
	Args    []string
}

// The configurations in the README can be parsed, have the keys that the client's documentation
// names, and start this program with valid arguments.
func TestInstallConfigurations(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, install, _ := strings.Cut(string(raw), "\n## Install\n")
	install, _, _ = strings.Cut(install, "\n## ")
	tops := map[string]string{"Claude Code": "mcpServers", "Claude Desktop": "mcpServers", "Cursor": "mcpServers", "Codex": "mcp_servers", "VS Code": "servers", "OpenAI Agents SDK": ""}
	sections := regexp.MustCompile(`(?m)^\*\*`).Split(install, -1)
	for _, section := range sections {
		client, text, _ := strings.Cut(section, "**")
		_, block, found := strings.Cut(text, "\n```")
		if !found {
			continue
		}
		language, block, _ := strings.Cut(block, "\n")
		block, _, closed := strings.Cut(block, "\n```")
		if !closed {
			t.Errorf("%s: a block that does not end", client)
		}
		top := tops[client]
		delete(tops, client)
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
		t.Errorf("%s: no configuration", client)
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

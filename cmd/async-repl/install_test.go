package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/readmetest"
)

// A launch says how a client's configuration starts a server.
type launch struct {
	Type    string
	Command words
	Args    []string
}

// words are a command, or a list of a command and its arguments, as opencode has it.
type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(w))
	}
	*w = []string{""}
	return json.Unmarshal(b, &(*w)[0])
}

// The configurations in README.md and docs/clients.md can be parsed, have the keys that the client's
// documentation names, and start this program with valid arguments.
func TestInstallConfigurations(t *testing.T) {
	tops := map[string]string{
		"Claude Code": "mcpServers", "Claude Desktop": "mcpServers", "Cursor": "mcpServers", "VS Code": "servers",
		"Codex": "mcp_servers", "Gemini CLI": "mcpServers", "opencode": "mcp", "Cline": "mcpServers", "Continue": "",
		"LangChain": "", "LlamaIndex": "", "pydantic-ai": "", "OpenAI Agents SDK": "", "Vercel AI SDK": "",
	}
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
			var config map[string]json.RawMessage
			var servers map[string]launch
			if err := json.Unmarshal([]byte(block), &config); err != nil {
				t.Errorf("%s: %v", client, err)
			}
			if err := json.Unmarshal(config[top], &servers); err != nil {
				t.Errorf("%s: %v", client, err)
			}
			checkLaunch(t, client, servers["async-repl"])
		case "toml":
			checkLaunch(t, client, parseTable(t, block, "["+top+".async-repl]"))
		case "python", "js", "yaml":
			checkLaunch(t, client, findLaunch(t, block))
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
	if len(l.Command) == 0 || filepath.Base(l.Command[0]) != "async-repl" || !slices.Contains([]string{"", "stdio", "local"}, l.Type) {
		t.Errorf("%s: starts %+v", client, l)
		return
	}
	args := append(l.Command[1:], l.Args...)
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "${workspaceFolder}", "/workspace")
	}
	if _, err := parseSettings(args, func(string) string { return "" }, "/", false); err != nil {
		t.Errorf("%s: %v", client, err)
	}
}

var (
	namesCommand = regexp.MustCompile(`\bcommand["']?[:=] ?["']?([^"',\s]+)`)
	namesArgs    = regexp.MustCompile(`\bargs["']?[:=] ?(\[.*?\])`)
)

// findLaunch finds the command in a program or a YAML file, and its arguments, written as in JSON.
func findLaunch(t *testing.T, block string) launch {
	t.Helper()
	var l launch
	if m := namesCommand.FindStringSubmatch(block); m != nil {
		l.Command = words{m[1]}
	}
	if m := namesArgs.FindStringSubmatch(block); m != nil {
		if err := json.Unmarshal([]byte(m[1]), &l.Args); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
	return l
}

// parseTable parses a TOML file of one table whose values are written as in JSON.
func parseTable(t *testing.T, text, header string) launch {
	t.Helper()
	var l launch
	var names []string
	keys := map[string]any{"command": &l.Command, "args": &l.Args, "env_vars": &names}
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
	return l
}

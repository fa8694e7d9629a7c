package main

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/readmetest"
)

var update = flag.Bool("update", false, "rewrite the generated parts of the README")

// settingsTable returns the README's table of settings, made from the table of flags.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| variable | flag | what | default |\n|---|---|---|---|\n")
	for _, row := range table {
		if row.flag != "" {
			fmt.Fprintf(&b, "| `%s` | `-%s` | %s | %s |\n", row.env, row.flag, row.about, row.fallback)
		}
	}
	return b.String()
}

// commandList returns the README's list of commands, made from the table of commands.
func commandList() string {
	var b strings.Builder
	b.WriteString("| command | what it does |\n|---|---|\n")
	for _, c := range commands() {
		if c.summary != "" {
			fmt.Fprintf(&b, "| `%s` | %s |\n", c.line(), c.summary)
		}
	}
	return b.String()
}

func TestDocs(t *testing.T) {
	readmetest.Part(t, "README.md", "commands", commandList(), *update)
	readmetest.Part(t, "README.md", "settings", settingsTable(), *update)
}

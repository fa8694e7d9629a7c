package main

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/test/readmetest"
)

var update = flag.Bool("update", false, "rewrite the generated parts of README.md and docs")

// settingsTable returns the table of settings in docs/settings.md, made from the table of flags.
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

// commandList returns the list of commands there, made from the table of commands.
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
	readmetest.Part(t, "docs/settings.md", "commands", commandList(), *update)
	readmetest.Part(t, "docs/settings.md", "settings", settingsTable(), *update)
}

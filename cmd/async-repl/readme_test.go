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

func TestReadme(t *testing.T) { readmetest.Part(t, "settings", settingsTable(), *update) }

//go:build unix

package config

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/test/readmetest"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/places.md")

// The table of keys in docs/places.md is made from that in the code.
func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString("| key | what | default |\n|---|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.name, k.about, k.fallback)
	}
	readmetest.Part(t, "docs/places.md", "keys", b.String(), *update)
}

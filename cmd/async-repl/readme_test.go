package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/mcpserver"
)

var update = flag.Bool("update", false, "rewrite the generated parts of the README")

// settingsTable is the README's, from the table that the flags are made from.
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

func TestReadme(t *testing.T) {
	path := filepath.Join("..", "..", "README.md")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(raw)
	for name, text := range map[string]string{"tools": mcpserver.ToolTable(), "settings": settingsTable(), "record": mcpserver.RecordExample()} {
		begin, end := "<!-- "+name+": generated, see TestReadme -->\n", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("the README has no place for %s", name)
		}
		want = before + begin + text + end + after
	}
	if string(raw) == want {
		return
	}
	if !*update {
		t.Fatal("the README's tables are not what the code says: run this test with -update")
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

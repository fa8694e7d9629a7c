package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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

// The README says what each header line of a reply about a job means.
func TestReplyLinesAreExplained(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Replies\n")
	section, _, _ = strings.Cut(section, "\n## ")
	found := 0
	explain := func(path string, e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		found++
		if name := strings.Trim(lit.Value, `"`); !strings.Contains(section, "`"+name+":`") {
			t.Errorf("%s writes a line %q, which the README does not explain under Replies", path, name)
		}
	}
	sources(t, func(path string, file *ast.File) {
		// The rest are lines of lists, which explain themselves.
		if dir, name := filepath.Split(path); dir != "internal/mcpserver/" || !slices.Contains([]string{"report.go", "news.go", "input.go"}, name) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "line" || sel.Sel.Name == "processes") && len(n.Args) > 1 {
					explain(path, n.Args[0])
				}
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok && id.Name == "fact" && len(n.Elts) > 0 {
					explain(path, n.Elts[0])
				}
			}
			return true
		})
	})
	if found < 15 {
		t.Errorf("only %d lines were found", found)
	}
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

// TestReadmeNamesWhatProgramsRead holds the words about resources to the code.
func TestReadmeNamesWhatProgramsRead(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []any{mcpserver.Stretch{}, mcpserver.RecordQuestion{}, mcpserver.RecordUsage{}} {
		for typ, i := reflect.TypeOf(part), 0; i < typ.NumField(); i++ {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(string(raw), "`"+name+"`") {
				t.Errorf("the README does not name %s of a %s", name, typ.Name())
			}
		}
	}
	if size := fmt.Sprintf("at most %d KiB", mcpserver.ReadBytes>>10); !strings.Contains(string(raw), size) {
		t.Errorf("the README does not say %q", size)
	}
}

package mcpserver

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/readmetest"
	"asyncrepl/internal/report"
)

var update = flag.Bool("update", false, "rewrite the golden files and the generated parts of the README")

// TestToolList compares the list of tools with a golden file, so that changes are seen in review,
// and bounds its size.
func TestToolList(t *testing.T) {
	w := newWorld(t)
	w.grace = 0 // the default
	raw := w.dial(engine.Scope{}).request("tools/list", nil).Result
	if n := len(raw) / 4; n > 1800 {
		t.Errorf("tools/list costs about %d tokens, more than 1800", n)
	}
	var list struct {
		Tools []json.RawMessage
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, tool := range list.Tools {
		if err := json.Indent(&got, tool, "", "  "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
	}
	golden(t, filepath.Join("testdata", "tools.json"), got.Bytes())
}

// golden compares with a file, or rewrites it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s has changed (-update rewrites it):\n%s", path, got)
	}
}

func TestToolRules(t *testing.T) {
	all := tools(engine.DefaultGrace)
	if !slices.IsSortedFunc(all, func(a, b *tool) int { return strings.Compare(a.name, b.name) }) {
		t.Error("the tools are not in the order in which clients see them")
	}
	used := map[string]bool{}
	var readOnly, always []string
	for _, tool := range all {
		if n := utf8.RuneCountInString(tool.about); n > 160 {
			t.Errorf("%s is described in %d characters", tool.name, n)
		}
		if tool.hints.readOnly && (tool.hints.destructive || tool.hints.openWorld) {
			t.Errorf("%s is read-only and yet changes something", tool.name)
		}
		if tool.hints.readOnly {
			readOnly = append(readOnly, tool.name)
		}
		if tool.definition().Meta["anthropic/alwaysLoad"] == true {
			always = append(always, tool.name)
		}
		for _, name := range slices.Concat(tool.required, tool.optional) {
			used[name] = true
			p := tool.parameter(name)
			if p == nil {
				t.Fatalf("%s takes %s, which is no parameter", tool.name, name)
			}
			about, _ := p.schema["description"].(string)
			if n := len(about); n > 40 {
				t.Errorf("%s of %s is described in %d characters", name, tool.name, n)
			}
			if _, ok := p.schema["type"].(string); !ok {
				t.Errorf("%s of %s has several types, which some clients refuse", name, tool.name)
			}
		}
	}
	if got := strings.Join(readOnly, " "); got != "check_job_status check_python_status list_jobs list_variables server_status wait_for_jobs" {
		t.Errorf("read-only: %s", got)
	}
	if got := strings.Join(always, " "); got != "cancel_job check_job_status execute_command_async execute_python send_command_input send_python_input wait_for_jobs" {
		t.Errorf("always loaded: %s", got)
	}
	for name := range parameters {
		if !used[name] {
			t.Errorf("no tool takes %s", name)
		}
	}
	if len(instructions) > 2000 {
		t.Errorf("the instructions take %d bytes, clients cut them at 2,048", len(instructions))
	}
}

func TestBlocksFollowTheText(t *testing.T) {
	r := report.Textf("a figure")
	r.Blocks = []report.Block{{MIMEType: "image/png", Data: []byte("one")}, {MIMEType: "image/svg+xml", Data: []byte("two")}}
	const want = `{"content":[{"type":"text","text":"a figure"},{"type":"image","mimeType":"image/png","data":"b25l"},` +
		`{"type":"image","mimeType":"image/svg+xml","data":"dHdv"}]}`
	if got := string(marshal(result(r, false))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// toolList returns the tools as a list in Markdown, in lines that can be read as plain text too.
func toolList() string {
	const width = 118
	var b strings.Builder
	for _, t := range tools(engine.DefaultGrace) {
		fmt.Fprintf(&b, "- **`%s`** %s", t.name, t.parameterList())
		if t.hints.readOnly {
			b.WriteString(" *(read-only)*")
		}
		b.WriteString("  \n ") // two blanks: a line break
		column := 1
		for _, word := range strings.Fields(t.about) {
			if column += 1 + len(word); column > width {
				b.WriteString("\n ")
				column = 2 + len(word)
			}
			b.WriteString(" " + word)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestReadmeListsTheTools(t *testing.T) { readmetest.Part(t, "tools", toolList(), *update) }

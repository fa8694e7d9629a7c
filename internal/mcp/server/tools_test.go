package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/test/readmetest"
)

// usual are the defaults of a server without settings.
var usual = defaults{grace: engine.DefaultGrace, chars: defaultText}

var update = flag.Bool("update", false, "rewrite the golden files and the generated parts of README.md and docs")

// TestToolList compares the list of all tools with a golden file, so that changes are seen in
// review, and bounds what the list costs a model.
func TestToolList(t *testing.T) {
	t.Parallel()
	listOf := func(toolsets []string, tokens int) json.RawMessage {
		w := newWorld(t)
		w.grace = 0 // the default
		w.config.Toolsets = toolsets
		raw := w.dial(engine.Scope{}).request("tools/list", nil).Result
		if n := len(raw) / 4; n >= tokens {
			t.Errorf("tools/list of %v costs about %d tokens, not less than %d", toolsets, n, tokens)
		}
		return raw
	}
	listOf(nil, 2400)
	raw := listOf(toolsets, 3600)
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
	t.Parallel()
	all := tools(usual)
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
		if tool.define(usual).Meta["anthropic/alwaysLoad"] == true {
			always = append(always, tool.name)
		}
		if !slices.Contains(toolsets, tool.toolset) {
			t.Errorf("%s is in no toolset: %q", tool.name, tool.toolset)
		}
	}
	for _, tool := range tools(defaults{places: "gpu"}) {
		for _, name := range slices.Concat(tool.required, tool.optional) {
			used[name] = true
		}
	}
	if got := strings.Join(readOnly, " "); got != "check_job_status check_python_status list_files list_jobs list_sessions list_variables read_file search_job_output server_status wait_for_jobs" {
		t.Errorf("read-only: %s", got)
	}
	if got := strings.Join(always, " "); got != "cancel_job check_job_status execute_command_async execute_python restart_python_worker send_command_input send_python_input wait_for_jobs" {
		t.Errorf("always loaded: %s", got)
	}
	for _, name := range parameterNames(t) {
		if !used[name] {
			t.Errorf("no tool takes %s", name)
		}
	}
	if len(allInstructions) > 2000 {
		t.Errorf("the instructions take %d bytes, clients cut them at 2,048", len(allInstructions))
	}
}

// A client that takes the defaults of the protocol for hints that are left out has the hints of each
// tool. None that is stated has its default value.
func TestAnnotationsStateWhatDiffersFromTheDefaults(t *testing.T) {
	t.Parallel()
	defaults := map[string]bool{"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}
	for _, tool := range tools(usual) {
		var wire struct{ Annotations map[string]bool }
		if err := json.Unmarshal(rawjson.Of(tool.define(usual)), &wire); err != nil {
			t.Fatal(err)
		}
		got := maps.Clone(defaults)
		for hint, value := range wire.Annotations {
			if byDefault, ok := defaults[hint]; !ok || value == byDefault {
				t.Errorf("%s states %s=%t", tool.name, hint, value)
			}
			got[hint] = value
		}
		want := map[string]bool{
			"readOnlyHint": tool.hints.readOnly, "destructiveHint": tool.hints.destructive,
			"idempotentHint": tool.hints.idempotent, "openWorldHint": tool.hints.openWorld,
		}
		if tool.hints.readOnly { // they have no meaning for it
			for _, hint := range []string{"destructiveHint", "idempotentHint"} {
				want[hint] = got[hint]
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s is taken for %v, not %v", tool.name, got, want)
		}
	}
}

// parameterNames returns the names in the table of all parameters.
func parameterNames(t *testing.T) (names []string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "arguments", "parameters.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile(`(?m)^\t\t"(\w+)": `).FindAllSubmatch(source, -1) {
		names = append(names, string(row[1]))
	}
	if len(names) < 20 {
		t.Fatalf("only %d parameters found", len(names))
	}
	return names
}

func TestBlocksFollowTheText(t *testing.T) {
	t.Parallel()
	r := report.Textf("a figure")
	r.Blocks = []report.Block{blockOf("image/png", "one"), blockOf("image/svg+xml", "two")}
	w := newWorld(t)
	res, _ := newConn(w.config, engine.Scope{}).unread.Result(t.Context(), delivery.TicketOf(nil), r, false)
	const want = `{"content":[{"type":"text","text":"a figure"},{"type":"image","mimeType":"image/png","data":"b25l"},` +
		`{"type":"image","mimeType":"image/svg+xml","data":"dHdv"}]}`
	if got := string(rawjson.Of(res)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// toolList returns the tools as a list in Markdown, in lines that can be read as plain text too.
func toolList() string {
	var b strings.Builder
	for _, t := range tools(usual) {
		head := fmt.Sprintf("- **`%s`** %s", t.name, t.signature().List())
		if notes := t.notes(); notes != "" {
			head += " *(" + notes + ")*"
		}
		fmt.Fprintf(&b, "%s  \n  %s\n", wrapped(head), wrapped(t.about)) // two blanks: a line break
	}
	return b.String()
}

// toolLines returns the name and the first sentence of each tool, by toolset.
func toolLines() string {
	var b strings.Builder
	for _, set := range toolsets {
		when := "if `-toolsets` names it"
		if slices.Contains(defaultToolsets, set) {
			when = "offered by default"
		}
		fmt.Fprintf(&b, "**%s** (%s)\n\n", set, when)
		for _, t := range tools(usual) {
			if t.toolset == set {
				about, _, _ := strings.Cut(t.about, ". ")
				b.WriteString(wrapped(fmt.Sprintf("- `%s`: %s.", t.name, strings.TrimSuffix(about, "."))) + "\n")
			}
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// wrapped breaks text into lines of at most 118 characters. All but the first are indented by two
// blanks.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > 118:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// notes returns what the list says of a tool besides its description.
func (t *tool) notes() string {
	var notes []string
	if t.toolset != core {
		notes = append(notes, "toolset "+t.toolset)
	}
	if t.hints.readOnly {
		notes = append(notes, "read-only")
	}
	return strings.Join(notes, ", ")
}

func TestDocsListTheTools(t *testing.T) {
	readmetest.Part(t, "docs/tools.md", "tools", toolList(), *update)
	readmetest.Part(t, "README.md", "tools", toolLines(), *update)
}

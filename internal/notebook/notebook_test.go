package notebook_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/notebook"
)

var update = flag.Bool("update", false, "write the files of testdata again")

// sample has a cell of each kind.
func sample() *notebook.Notebook {
	return &notebook.Notebook{Session: "lab", Cells: []notebook.Cell{
		{ID: "left-out", Text: "2 earlier jobs are left out."},
		{ID: "01A", Code: "from __future__ import annotations\r\nimport sys\r\nprint('a < b & c')\nprint('é', file=sys.stderr)", Count: 1, Title: "01A completed", Outputs: []notebook.Output{
			{Stream: "stdout", Text: "a < b & c\n"}, {Stream: "stderr", Text: "é\n"},
		}},
		{ID: "01B", Code: "await thing()\n", Count: 2, Title: "01B completed", Awaits: true, Outputs: []notebook.Output{
			{Result: true, Items: []notebook.Item{{MIME: "text/plain", Data: []byte("[1,\n 2]")}}},
		}},
		{ID: "01C", Code: "from __future__ import division\nif True:\n\tx = (1,\n2)\n\n1/0", Count: 3,
			Raises: "Exception", Title: "01C failed (ZeroDivisionError: division by zero)", Outputs: []notebook.Output{
				{Name: "ZeroDivisionError", Text: "division by zero",
					Traceback: []string{"Traceback (most recent call last):", "ZeroDivisionError: division by zero"}},
			}},
		{ID: "01D", Code: "plot()", Count: 4, Title: "01D completed", Outputs: []notebook.Output{
			{Items: []notebook.Item{{MIME: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")}, {MIME: "text/plain", Data: []byte("figure 1")}}},
			{Items: []notebook.Item{{MIME: "image/svg+xml", Data: []byte("<svg>\n</svg>")}}},
			{Items: []notebook.Item{{MIME: "application/vnd.plotly.v1+json", Data: []byte(`{"data": [1]}`)}}},
			{Items: []notebook.Item{{MIME: "application/json", Data: []byte(`{broken`)}}},
		}},
		{ID: "01E", Code: "if True print('\x00')\r\ny = (", Count: 5, Title: "01E failed (SyntaxError: invalid\nsyntax)",
			Comment: "Python does not run this", Raises: "Exception"},
		{ID: "restart-1", Text: "**Python was restarted**: x and y were lost.\n\nSecond line."},
		{ID: "01F", Code: "# why\n\nfrom __future__ import division, generators\nx = 1\n# %% no cell of its own\nfrom __future__ import late", Title: "01F running"},
		{ID: "01H", Code: "x = \"\"\"a\nb\"\"\"; import sys; sys.exit(x)", Title: "01H failed (exit 1; variables kept)", Raises: "SystemExit"},
		{ID: "01I", Code: "await f(\"\"\"\n\"\"\")", Title: "01I failed", Awaits: true, Raises: "Exception"},
		{ID: "01J", Code: "from __future__ import division\ny = 1; exit(2)", Title: "01J failed (exit 2; variables kept)", Raises: "SystemExit"},
		{ID: "01G", Code: "", Count: 1, Title: "01G completed"},
	}}
}

// encode returns the text of a file of that name.
func encode(t *testing.T, name string, n *notebook.Notebook) string {
	t.Helper()
	b, err := n.Encode(filepath.Ext(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The files are those of testdata. The notebook there was validated with the package nbformat, and
// Jupyter has run it.
func TestFiles(t *testing.T) {
	for _, name := range []string{"sample.ipynb", "sample.py"} {
		got := encode(t, name, sample())
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// The notebook is valid by the rules of nbformat 4.5: cells have the fields of their type and no
// others, ids are unique, and texts are lists of lines.
func TestNotebookIsValid(t *testing.T) {
	var doc struct {
		Cells       []map[string]any
		Metadata    map[string]map[string]any
		Format      int `json:"nbformat"`
		FormatMinor int `json:"nbformat_minor"`
	}
	if err := json.Unmarshal([]byte(encode(t, "x.ipynb", sample())), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Format != 4 || doc.FormatMinor != 5 || doc.Metadata["kernelspec"]["name"] != "python3" || doc.Metadata["language_info"]["name"] != "python" {
		t.Errorf("format %d.%d, %v", doc.Format, doc.FormatMinor, doc.Metadata)
	}
	fields := map[string]string{
		"code": "cell_type execution_count id metadata outputs source", "markdown": "cell_type id metadata source",
		"stream": "name output_type text", "error": "ename evalue output_type traceback",
		"display_data": "data metadata output_type", "execute_result": "data execution_count metadata output_type",
	}
	check := func(object map[string]any, kind any) {
		t.Helper()
		want := fields[kind.(string)]
		for _, field := range strings.Fields(want) {
			if _, ok := object[field]; !ok {
				t.Errorf("%v has no %s", object, field)
			}
		}
		if len(object) != len(strings.Fields(want)) {
			t.Errorf("%v has fields besides %q", object, want)
		}
	}
	seen := map[any]bool{}
	for _, cell := range doc.Cells {
		check(cell, cell["cell_type"])
		if id := cell["id"]; seen[id] || !regexp.MustCompile(`^[a-zA-Z0-9-_]{1,64}$`).MatchString(id.(string)) {
			t.Errorf("id %q", id)
		} else {
			seen[id] = true
		}
		if _, ok := cell["source"].([]any); !ok {
			t.Errorf("source %v", cell["source"])
		}
		outputs, _ := cell["outputs"].([]any)
		for _, o := range outputs {
			check(o.(map[string]any), o.(map[string]any)["output_type"])
		}
	}
}

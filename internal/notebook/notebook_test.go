package notebook_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
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

// saveIn saves n in a workspace.
func saveIn(workspace, path string, n *notebook.Notebook, overwrite bool) (notebook.Saved, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return notebook.Saved{}, err
	}
	defer root.Close()
	return notebook.Save(root, workspace, path, n, overwrite)
}

// save saves n in a new workspace and returns the text of the file.
func save(t *testing.T, name string, n *notebook.Notebook) string {
	t.Helper()
	dir := t.TempDir()
	saved, err := saveIn(dir, name, n, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if want := (notebook.Saved{Path: filepath.Join(dir, name), Bytes: len(b)}); err != nil || saved != want {
		t.Errorf("saved %+v, want %+v; %v", saved, want, err)
	}
	return string(b)
}

// The files are those of testdata. The notebook there was validated with the package nbformat, and
// Jupyter has run it.
func TestFiles(t *testing.T) {
	for _, name := range []string{"sample.ipynb", "sample.py"} {
		got := save(t, name, sample())
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
	if err := json.Unmarshal([]byte(save(t, "x.ipynb", sample())), &doc); err != nil {
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

// A file that exists is replaced only by overwrite, and keeps its permissions. A refusal leaves the
// file as it was.
func TestExistingFileIsReplacedByOverwriteOnly(t *testing.T) {
	for _, ext := range []string{".ipynb", ".py"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x"+ext)
		check := func(overwrite bool, wantErr string, want string) {
			t.Helper()
			saved, err := saveIn(dir, path, sample(), overwrite)
			got, _ := os.ReadFile(path)
			if text := fmt.Sprint(err); text != wantErr || string(got) != want || err == nil && !saved.Replaced {
				t.Errorf("%s, overwrite %t: %+v, error %q, want %q; the file has %.50q", ext, overwrite, saved, text, wantErr, got)
			}
		}
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		check(false, "writing "+path+": file already exists", "mine")
		check(true, "<nil>", save(t, "x"+ext, sample()))
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", ext, fi.Mode(), err)
		}
		if err := errors.Join(os.WriteFile(path, []byte("mine"), 0), os.Chmod(path, 0o400)); err != nil {
			t.Fatal(err)
		}
		check(true, "writing "+path+": it is read-only: give another path", "mine")
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("files remain: %v", entries)
		}
	}
}

// Of several exports to a new file at once, one writes it, and the others are refused.
func TestNewFileIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	results := make(chan error)
	for range 20 {
		go func() {
			_, err := saveIn(dir, "x.py", sample(), false)
			results <- err
		}()
	}
	wrote := 0
	for range 20 {
		if err := <-results; err == nil {
			wrote++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	if entries, _ := os.ReadDir(dir); wrote != 1 || len(entries) != 1 {
		t.Errorf("%d exports wrote the file; the directory has %v", wrote, entries)
	}
}

// A new file has the permissions that the umask allows, as one of any editor has.
func TestNewFileHasUsualPermissions(t *testing.T) {
	dir := t.TempDir()
	usual, path := filepath.Join(dir, "usual"), filepath.Join(dir, "x.ipynb")
	if err := os.WriteFile(usual, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := saveIn(dir, "x.ipynb", sample(), false); err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(usual)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Stat(path); err != nil || got.Mode() != want.Mode() {
		t.Errorf("%v, want %v; %v", got.Mode(), want.Mode(), err)
	}
}

// A path that can't be written says why and what to do.
func TestPaths(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "workspace")
	for _, sub := range []string{"sub", "sub.py"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink(outer, filepath.Join(dir, "out"))
	os.Symlink("sub", filepath.Join(dir, "in"))
	os.Symlink("none.py", filepath.Join(dir, "link.py"))
	os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)
	linked := filepath.Join(outer, "linked")
	os.Symlink(dir, linked)
	outside := " is outside the workspace, " + dir + ": give a path in it"
	for _, test := range []struct{ workspace, path, want string }{
		{dir, "x.ipynb", ""},
		{dir, "sub/x.py", ""},
		{dir, filepath.Join(dir, "sub", "..", "in", "y.py"), ""},
		{linked, filepath.Join(dir, "z.py"), ""},
		{linked, filepath.Join(linked, "y.py"), ""},
		{dir, "x.txt", "the path must end in .ipynb, for a Jupyter notebook, or in .py"},
		{dir, "", "the path must end in .ipynb, for a Jupyter notebook, or in .py"},
		{dir, "sub/", "the path must end in .ipynb, for a Jupyter notebook, or in .py"},
		{dir, "../x.py", "the path ../x.py" + outside},
		{dir, filepath.Join(outer, "x.py"), "the path " + filepath.Join(outer, "x.py") + outside},
		{dir, "out/x.py", "the path out/x.py" + outside},
		{dir, "sub.py", "writing sub.py: it is a directory: give the path of a file in it"},
		{dir, "link.py", "writing link.py: it is no regular file: give another path"},
		{dir, "none/x.py", "writing none/x.py: there is no directory none in the workspace: make it first"},
		{dir, "file/x.py", "writing file/x.py: not a directory"},
		{dir, "a\x00.py", "writing a\x00.py: invalid argument"},
	} {
		_, err := saveIn(test.workspace, test.path, sample(), false)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%q: error %q, want %q", test.path, got, test.want)
		}
	}
	if entries, _ := os.ReadDir(outer); len(entries) != 2 {
		t.Errorf("outside the workspace: %v", entries)
	}
}

// Package readmetest checks the README and the pages of docs/ against the code. Begin with Part.
package readmetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Text returns a page. Its file is relative to the root of the module, such as README.md.
func Text(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(path(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Part fails the test if the generated part of a page is not text. With update it replaces the part
// instead. Tests of several packages that update one page must run one at a time (go test -p 1).
func Part(t *testing.T, file, name, text string, update bool) {
	t.Helper()
	begin, end := "<!-- "+name+": generated, see TestDocs -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(Text(t, file), begin)
	old, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no place for the part %s", file, name)
	case old == text:
	case !update:
		t.Fatalf("the part %s of %s is not what the code says; run this test with -update", name, file)
	default:
		if err := os.WriteFile(path(t, file), []byte(before+begin+text+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// path returns the path of a file that is relative to the root of the module.
func path(t *testing.T, file string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, file)
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no directory above this package has a go.mod")
		}
		dir = up
	}
}

// Package readmetest checks the README against the code. Begin with Part.
package readmetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Text returns the README.
func Text(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(path(t))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Part fails the test if the generated part of that name is not text. With update it replaces the
// part instead. Tests of several packages that update the README must run one at a time
// (go test -p 1).
func Part(t *testing.T, name, text string, update bool) {
	t.Helper()
	readme := Text(t)
	begin, end := "<!-- "+name+": generated, see TestReadme -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(readme, begin)
	old, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("the README has no place for %s", name)
	case old == text:
	case !update:
		t.Fatalf("the README's part %s is not what the code says; run this test with -update", name)
	default:
		if err := os.WriteFile(path(t), []byte(before+begin+text+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// path returns the README's path, which is at the root of the module.
func path(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "README.md")
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no directory above this package has a go.mod")
		}
		dir = up
	}
}

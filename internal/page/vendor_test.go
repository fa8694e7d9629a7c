//go:build unix

package page_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
)

// The files of others are those that vendor/FILES names, unchanged, each with the licence of its package.
func TestVendoredFiles(t *testing.T) {
	const dir = "static/vendor"
	line := regexp.MustCompile(`^(\S+) (\S+) (\d+\.\d+\.\d+) (\S+) (MIT|Apache-2\.0|Apache-2\.0\+MIT) ([0-9a-f]{64})$`)
	names, licensed := []string{"FILES"}, map[string]bool{}
	var packages []string
	for _, text := range strings.Split(strings.TrimSpace(string(must.Get(os.ReadFile(dir+"/FILES"))(t))), "\n") {
		if strings.HasPrefix(text, "#") {
			continue
		}
		m := line.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("FILES: %q is no line of a file", text)
		}
		name, pkg, path, sum := m[1], m[2], m[4], m[6]
		data := must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != sum {
			t.Errorf("%s: its SHA-256 is %s, want %s", name, got, sum)
		}
		names, packages = append(names, name), append(packages, pkg)
		if path == "LICENSE" {
			licensed[pkg] = true
		}
	}
	for _, pkg := range packages {
		if !licensed[pkg] {
			t.Errorf("package %s has no licence here", pkg)
		}
	}
	var found []string
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		found = append(found, e.Name())
	}
	slices.Sort(names)
	if !slices.Equal(found, names) {
		t.Errorf("the directory has %s, FILES names %s", found, names)
	}
}

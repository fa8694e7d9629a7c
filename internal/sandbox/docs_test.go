//go:build linux

package sandbox

import (
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/readmetest"
)

// The pages name what is read of a home, and what is protected in a workspace.
func TestPagesNameWhatHolds(t *testing.T) {
	for page, names := range map[string][]string{"docs/limits.md": tools, "README.md": slices.Concat(obeyed, []string{".git/hooks", ".git/config"})} {
		text := readmetest.Text(t, page)
		_, text, _ = strings.Cut(text, "\n## Sandbox\n")
		text, _, _ = strings.Cut(text, "\n## ")
		for _, name := range names {
			for _, above := range []string{".local/share/", ".config/git/"} {
				name = strings.TrimPrefix(name, above)
			}
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("the sandbox in %s does not name %s", page, name)
			}
		}
	}
}

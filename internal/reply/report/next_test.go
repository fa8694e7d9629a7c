package report

import (
	"regexp"
	"slices"
	"testing"
)

// No Next line names a tool that a client may not have loaded.
func TestNextNamesOnlyToolsThatAreAlwaysLoaded(t *testing.T) {
	tool := regexp.MustCompile(`[a-z]+(_[a-z]+)+`) // no parameter that these texts name has an underscore
	for key, text := range nexts {
		names := tool.FindAllString(text, -1)
		if len(names) == 0 {
			t.Errorf("%s: %q names no tool", key, text)
		}
		for _, name := range names {
			if !slices.Contains(NextTools, name) {
				t.Errorf("%s: %q names %s, which is not always loaded", key, text, name)
			}
		}
	}
}

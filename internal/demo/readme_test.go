//go:build unix

package demo

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/readmetest"
)

var update = flag.Bool("update", false, "rewrite the generated parts of README.md and docs")

// Pages show the calls of the scripts that are marked for them. README.md also names the steps of
// the demo that it does not show.
func TestDocs(t *testing.T) {
	day, err := os.ReadFile("day.txt")
	if err != nil {
		t.Fatal(err)
	}
	parts := make(map[string]string)
	for _, script := range []string{Session, string(day)} {
		steps, err := parse(script)
		if err != nil {
			t.Fatal(err)
		}
		addShown(parts, steps)
	}
	steps, _ := parse(Session)
	parts["README.md session"] += others(steps)
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		page, name, _ := strings.Cut(part, " ")
		readmetest.Part(t, page, name, parts[part], *update)
	}
}

// addShown adds the calls that each part of a page shows to parts, in Markdown, below the titles of
// their steps.
func addShown(parts map[string]string, steps []step) {
	for _, s := range steps {
		part, as, setting := "", "", "" // where the call before is shown, who made it, and the setting of its server
		left := ""                      // a sign for the calls that are left out before the next one
		for _, c := range s.calls {
			if c.shown == "" {
				left = "    …\n"
				continue
			}
			if c.shown != part {
				part = c.shown
				if parts[part] != "" {
					parts[part] += "\n"
				}
				parts[part] += "**" + s.title + "**\n\n"
			}
			text := "> " + strings.Join(c.lines, "\n  ") + "\n"
			if c.after != "" {
				text = "the " + c.after + "; another one comes\n" + text
			}
			if c.as != as {
				as = c.as
				text = "as " + as + "\n" + text
			}
			if c.setting != setting {
				setting = c.setting
				text = "with " + setting + "\n" + text
			}
			if c.want != nil {
				text += "< " + strings.Join(c.want, "\n  ") + "\n"
			}
			text = regexp.MustCompile(`(?m) +$`).ReplaceAllString(text, "")
			parts[part] += left + regexp.MustCompile(`(?m)^.`).ReplaceAllString(text, "    $0")
			left = ""
		}
	}
}

// others names the steps of which README.md shows no call.
func others(steps []step) string {
	var titles []string
	for _, s := range steps {
		if !slices.ContainsFunc(s.calls, func(c call) bool { return strings.HasPrefix(c.shown, "README.md ") }) {
			titles = append(titles, s.title)
		}
	}
	text := "\n"
	line := fmt.Sprintf("The demo has %d steps more:", len(titles))
	for _, word := range strings.Fields(strings.Join(titles, "; ") + ".") {
		if len(line)+1+len(word) > 120 {
			text += line + "\n"
			line = word
			continue
		}
		line += " " + word
	}
	return text + line + "\n"
}

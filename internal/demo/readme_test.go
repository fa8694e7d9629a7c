//go:build unix

package demo

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/readmetest"
)

var update = flag.Bool("update", false, "rewrite the generated part of the README")

// README's sixty seconds are the calls of the script that are marked for it, and the titles of the
// steps without any.
func TestDocs(t *testing.T) {
	steps, err := parse(Session)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var others []string
	for _, s := range steps {
		if !slices.ContainsFunc(s.calls, func(c call) bool { return c.readme }) {
			others = append(others, s.title)
			continue
		}
		fmt.Fprintf(&b, "**%s**\n\n", s.title)
		before := "" // a sign for the calls that are left out before the next one
		for _, c := range s.calls {
			if !c.readme {
				before = "…\n"
				continue
			}
			fmt.Fprintf(&b, "%s> %s\n< %s\n", before, strings.Join(c.lines, "\n  "), strings.Join(c.want, "\n  "))
			before = ""
		}
		b.WriteString("\n")
	}
	line := fmt.Sprintf("The demo has %d steps more:", len(others))
	for _, word := range strings.Fields(strings.Join(others, "; ") + ".") {
		if len(line)+1+len(word) > 120 {
			b.WriteString(line + "\n")
			line = word
			continue
		}
		line += " " + word
	}
	text := regexp.MustCompile(`(?m)^(> |< |  |…)`).ReplaceAllString(b.String(), "    $1")
	text = regexp.MustCompile(`(?m) +$`).ReplaceAllString(text, "")
	readmetest.Part(t, "README.md", "session", text+line+"\n", *update)
}

package client

import (
	"fmt"
	"strings"
)

// A Reply is the text of a tool's reply: header lines, a blank line, then sections.
type Reply string

// Header returns the value of the first header line of that name, or "" if there is none.
func (r Reply) Header(name string) string {
	head, _, _ := strings.Cut(string(r), "\n\n")
	for line := range strings.Lines(head) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSuffix(value, "\n")
		}
	}
	return ""
}

// Section returns the text of the first section of that name, or "" if there is none.
func (r Reply) Section(name string) string {
	_, text, _ := strings.Cut(string(r), "--- "+name+" ---\n")
	text, _, _ = strings.Cut(text, "\n--- ")
	return text
}

// Expect returns an error unless the reply has that status and contains the texts.
func (r Reply) Expect(status string, texts ...string) error {
	if got := r.Header("Status"); got != status {
		return fmt.Errorf("status is %q, not %q", got, status)
	}
	for _, text := range texts {
		if !strings.Contains(string(r), text) {
			return fmt.Errorf("the reply does not contain %q", text)
		}
	}
	return nil
}

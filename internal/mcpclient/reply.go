package mcpclient

import "strings"

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

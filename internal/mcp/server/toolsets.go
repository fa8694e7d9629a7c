package server

import (
	"fmt"
	"slices"
	"strings"
)

// A toolset is a group of tools that a person can offer to clients or leave out, because a model
// pays for the description of each.
const (
	core      = "core"      // jobs, Python and shell
	sessions  = "sessions"  // making, listing and ending sessions
	namespace = "namespace" // the variables of a session, one by one

	FilesToolset = "files" // the files of the workspace
)

// toolsets are all toolsets, and defaultToolsets those that are offered unless a person names
// others.
var (
	toolsets        = []string{core, sessions, namespace, FilesToolset}
	defaultToolsets = []string{core, sessions}
)

// ParseToolsets reads a list of toolsets such as "core,namespace". The word all stands for each.
// The error says what is allowed.
func ParseToolsets(list string) (chosen []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "all":
			chosen = append(chosen, toolsets...)
		case slices.Contains(toolsets, name):
			chosen = append(chosen, name)
		default:
			return nil, fmt.Errorf("all, or one or more of %s, with commas between them", strings.Join(toolsets, ", "))
		}
	}
	return chosen, nil
}

// ToolNames returns the names of all tools, offered or not.
func ToolNames() (names []string) {
	for _, t := range tools(defaults{}) {
		names = append(names, t.name)
	}
	return names
}

// offers reports whether clients see the tools of a toolset.
func (c *Config) offers(toolset string) bool {
	chosen := c.Toolsets
	if chosen == nil {
		chosen = defaultToolsets
	}
	return slices.Contains(chosen, toolset)
}

package mcpserver

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/engine"
)

func TestToolsetsDecideWhatClientsSee(t *testing.T) {
	for _, tt := range []struct {
		chosen []string // nil: no setting
		want   []string
	}{
		{nil, []string{core, sessions}},
		{[]string{core}, []string{core}},
		{[]string{namespace}, []string{namespace}},
		{[]string{core, FilesToolset}, []string{core, FilesToolset}},
	} {
		w := newWorld(t)
		w.config.Toolsets = tt.chosen
		c := w.dial(engine.Scope{})
		var list struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal(c.request("tools/list", nil).Result, &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tool := range list.Tools {
			got = append(got, tool.Name)
		}
		for _, tool := range tools(engine.DefaultGrace) {
			offered := slices.Contains(got, tool.name)
			if offered != slices.Contains(tt.want, tool.toolset) {
				t.Errorf("with %v, %s of toolset %s is offered: %v", tt.chosen, tool.name, tool.toolset, offered)
			}
			if !offered && tool.toolset != core && strings.Contains(w.config.instructions(), tool.name) {
				t.Errorf("with %v, the instructions name %s", tt.chosen, tool.name)
			}
		}
	}
}

func TestToolThatIsLeftOutNamesItsToolset(t *testing.T) {
	w := newWorld(t)
	w.config.Toolsets = []string{namespace}
	c := w.dial(engine.Scope{})
	const want = "execute_python is in the toolset core, which this server does not offer. A person can add it to REPL_TOOLSETS."
	if got := c.refused("execute_python", given{"code": `out "x"`}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if m := c.request("tools/call", map[string]any{"name": "no_such_tool", "arguments": given{}}); m.Error == nil {
		t.Errorf("a tool that does not exist is answered with %s", m.Result)
	}
}

func TestParseToolsets(t *testing.T) {
	for list, want := range map[string][]string{
		"core": {core}, " core , namespace ": {core, namespace}, "all": toolsets, "sessions,all": {sessions, core, sessions, namespace, FilesToolset},
		"": nil, "core,": nil, "every": nil, "Core": nil, "core sessions": nil,
	} {
		got, err := ParseToolsets(list)
		if (err != nil) != (want == nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q is %v, %v; want %v", list, got, err, want)
		}
	}
}

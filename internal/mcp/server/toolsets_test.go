package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/engine"
)

func TestToolsetsDecideWhatClientsSee(t *testing.T) {
	t.Parallel()
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
		for _, tool := range tools(usual) {
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
	t.Parallel()
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
	t.Parallel()
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

// Over HTTP a session of the older era has a server of its own, and there can be a thousand.
func TestConnectionsShareTheDefinitionsOfTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := func() []*definition {
		res, err := newConn(w.config, w.scope(engine.Scope{})).listTools(nil)
		if err != nil {
			t.Fatal(err)
		}
		return res.(*listing).Tools
	}
	if one, other := list(), list(); len(one) == 0 || !slices.Equal(one, other) {
		t.Error("each connection has definitions of its own")
	}
}

func TestListsOfOnePageRefuseCursors(t *testing.T) {
	t.Parallel()
	c := newWorld(t).dial(engine.Scope{})
	for _, method := range []string{"tools/list", "resources/templates/list"} {
		if m := c.request(method, given{"cursor": ""}); m.Error != nil {
			t.Errorf("%s refuses an empty cursor: %s", method, m.Error.Message)
		}
		if m := c.request(method, given{"cursor": "x"}); m.Error == nil || m.Error.Message != "invalid params" {
			t.Errorf("%s takes a cursor that it never gave: %s", method, m.Result)
		}
	}
}

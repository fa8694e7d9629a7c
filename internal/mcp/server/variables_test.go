package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/text/view"
)

func TestVariablesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	count := func(n int64) *int64 { return &n }
	some := engine.Variables{
		Total: 12, Vars: []engine.Variable{
			{Name: "df", Type: "DataFrame", Shape: []int64{5000000, 2}}, {Name: "empty", Type: "list", Len: count(0), Value: "[]"},
			{Name: "log", Type: "str", Len: count(1200), Value: "'a...'"}, {Name: "o", Type: "Odd"},
			{Name: "one", Type: "dict", Len: count(1), Value: "{1: 2}"}, {Name: "s", Type: "Series", Shape: []int64{7}},
			{Name: "scalar", Type: "ndarray", Shape: []int64{}}, {Name: "x", Type: "int", Value: "42"},
		},
	}
	some.Modules, some.Functions, some.Classes = []string{"np", "os"}, []string{"f"}, []string{"C"}
	w.vars["default"] = some
	w.vars["busy"] = engine.Variables{Total: 2, AsOf: "01A", Busy: "01B", Vars: []engine.Variable{{Name: "a"}, {Name: "b"}}}
	w.vars["first"] = engine.Variables{Busy: "01B"}
	many := engine.Variables{Total: 100_000}
	for i := range 5000 {
		many.Vars = append(many.Vars, engine.Variable{Name: fmt.Sprintf("name%d", i), Type: "int", Value: "7"})
	}
	many.Modules = strings.Fields(strings.Repeat("module ", 1000))
	w.vars["many"] = many
	c := w.dial(engine.Scope{})

	want := "Session: default\nVariables: 12\n\ndf: DataFrame, shape (5000000, 2)\nempty: list, 0 items = []\n" +
		"log: str, 1,200 characters = 'a...'\no: Odd\none: dict, 1 item = {1: 2}\ns: Series, shape (7,)\n" +
		"scalar: ndarray, shape ()\nx: int = 42\n\nModules: np, os\nFunctions: f\nClasses: C\n"
	if diff := cmp.Diff(want, c.call("list_variables", nil)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	want = "Session: busy\nVariables: 2\nAs of: job 01A; the session is busy with job 01B\n\na\nb\n"
	if diff := cmp.Diff(want, c.call("list_variables", given{"session": "busy"})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	want = "No variables are known in session first yet; it is busy with job 01B."
	if got := c.call("list_variables", given{"session": "first"}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.vars["none"] = engine.Variables{}
	for pattern, want := range map[string]string{"alpha": "0 that match alpha, which stands for the whole name; try alpha*", "alpha*": "0 that match alpha*"} {
		if got := field(c.call("list_variables", given{"session": "none", "pattern": pattern}), "Variables"); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	got := c.call("list_variables", given{"session": "many"})
	shown := strings.Count(got, ": int = 7\n") + strings.Count(got, "module")
	if chars(got) > defaultText+200 || field(got, "Omitted") != view.Count(100_000-shown)+" variables" {
		t.Errorf("%d characters, %d shown, omitted %s", chars(got), shown, field(got, "Omitted"))
	}
}

package arguments

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"asyncrepl/internal/mcp/rawjson"
)

// Every model pays for the description of each parameter.
func TestParametersAreDescribedInFewWords(t *testing.T) {
	for name, p := range parameters() {
		about, _ := p.schema["description"].(string)
		if n := len(about); n > 40 {
			t.Errorf("%s is described in %d characters", name, n)
		}
	}
}

// The schema of value names the type of every JSON value whose arrays are nested three deep, and an
// integer's before a number's: mcp-use 1.7.1 builds a class from it that makes 5.0 of an integer that
// meets number first, and refuses what the schema does not name.
func TestSchemaTakesValuesAsTheyAre(t *testing.T) {
	var value schemaOfValue
	if err := json.Unmarshal(rawjson.Of(parameters()["value"].schema), &value); err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		`5`: "integer", `-1`: "integer", `2.5`: "number", `"5"`: "string", `""`: "string", `true`: "boolean", `null`: "null",
		`{}`: "object", `{"a": null, "b": [[[[1]]]]}`: "object", `[]`: "array", `[1, null, "a"]`: "array", `[[1, 2], [3]]`: "array",
		`[{"a": [1]}, true, 2.5]`: "array", `[[[1, null], []], [["a"]]]`: "array",
	} {
		var v any
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatal(err)
		}
		if got := value.typeOf(v); got != want {
			t.Errorf("%s is taken as %q, not %q", raw, got, want)
		}
	}
	checkOrder(t, value)
}

// A schemaOfValue is one type, or several of which the first that fits is taken.
type schemaOfValue struct {
	Type  string
	AnyOf []schemaOfValue
	Items *schemaOfValue
}

// typeOf returns the first type that takes a value, or "" if none does.
func (s schemaOfValue) typeOf(v any) string {
	for _, of := range s.AnyOf {
		if typ := of.typeOf(v); typ != "" {
			return typ
		}
	}
	fits := false
	switch v := v.(type) {
	case nil:
		fits = s.Type == "null"
	case string:
		fits = s.Type == "string"
	case bool:
		fits = s.Type == "boolean"
	case float64:
		fits = s.Type == "number" || s.Type == "integer" && v == math.Trunc(v)
	case map[string]any:
		fits = s.Type == "object"
	case []any:
		fits = s.Type == "array" && !slices.ContainsFunc(v, func(e any) bool { return s.Items.typeOf(e) == "" })
	}
	if !fits {
		return ""
	}
	return s.Type
}

// checkOrder checks that integer stands before number at every depth.
func checkOrder(t *testing.T, s schemaOfValue) {
	t.Helper()
	if got := s.typeOf(1.0); got != "integer" {
		t.Errorf("1 is taken as %q", got)
	}
	for _, of := range s.AnyOf {
		if of.Items != nil {
			checkOrder(t, *of.Items)
		}
	}
}

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/jobs/jobstest"
)

// waysNotSet are the values by which clients that can't leave an optional parameter out say that it
// is not set. In OpenAI's strict mode a value must have the parameter's own type.
var waysNotSet = map[string]func(name string, s schema) any{
	"null":     func(string, schema) any { return nil },
	"text":     func(string, schema) any { return "" },
	"spaces":   spaces,
	"list":     func(string, schema) any { return []any{} },
	"object":   func(string, schema) any { return map[string]any{} },
	"own type": ofItsType,
}

// spaces returns a text of spaces for a parameter that is no text, and no list of texts.
func spaces(_ string, s schema) any {
	if s.Type == "string" || s.Items.Type == "string" {
		return nil
	}
	return " "
}

// A schema is as much of a parameter's schema as decides on its blank.
type schema struct {
	Type        string
	Enum        []string
	Items       struct{ Type string }
	Description string
}

// ofItsType returns the value of a parameter's own type that means that it is not set or, if it has
// none, the default: only true ends at the usual place, for one.
func ofItsType(name string, s schema) any {
	switch {
	case slices.Contains(s.Enum, "none"):
		return "none"
	case slices.Contains(s.Enum, "any"):
		return "any"
	case s.Enum != nil:
		return s.Enum[0]
	case name == "wait_seconds":
		return 60
	case strings.HasPrefix(s.Description, "default true"):
		return true
	}
	return map[string]any{"string": "", "integer": 0, "number": 0, "boolean": false, "array": []any{}, "object": map[string]any{}}[s.Type]
}

// varying matches what differs between replies to the same call.
var varying = regexp.MustCompile(`(?m)^(Elapsed|Waited|Also): .*\n|[0-9A-HJKMNP-TV-Z]{26}|[0-9][0-9.]*( s\b|s\b|ms\b)?|just now`)

// TestEachWayToSayNotSet calls every tool over stdio and HTTP, in both eras of the protocol, and
// gives each of its optional parameters in each way that means that it is not set. The reply must be
// the one to a call that leaves them out.
func TestEachWayToSayNotSet(t *testing.T) {
	racetest.Skip(t)
	t.Parallel()
	for _, name := range []string{"stdio", "http"} {
		connect := transports[name]
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.config.Toolsets = toolsets
				if err := os.WriteFile(filepath.Join(w.workspace, "file"), []byte("old"), 0o600); err != nil {
					t.Fatal(err)
				}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				session := connectSDK(t, connect(t, New(ctx, w.config, w.scope(engine.Scope{})), leave), version)
				list, err := session.ListTools(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				call := func(tool string, a map[string]any) string {
					t.Helper()
					os.Remove(filepath.Join(w.workspace, "x.py")) // an export makes a new file
					r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: a})
					if err != nil {
						t.Fatalf("%s: %v", tool, err)
					}
					return r.Content[0].(*mcp.TextContent).Text
				}
				python := field(call("execute_python", given{"code": `out "x"`}), "Job ID")
				shell := field(call("execute_command_async", given{"command": code(`ask line "? "`, "hang"), "wait_seconds": 60}), "Job ID")
				base := map[string]given{
					"cancel_job":            {"job_id": python},
					"check_job_status":      {"job_id": python},
					"check_python_status":   {},
					"complete_code":         {"code": `result "x"`},
					"create_session":        {"name": "default"},
					"delete_file":           {"path": "none"},
					"delete_session":        {"session": "none"},
					"delete_variables":      {"all": true},
					"edit_file":             {"path": "file", "old": "old", "new": "older"},
					"execute_command_async": {"command": `out "x"`},
					"execute_python":        {"code": `out "x"`},
					"export_session":        {"path": "x.py"},
					"get_variable":          {"name": `result "x"`},
					"inspect_object":        {"name": `result "x"`},
					"install_package_async": {"package": "six"},
					"list_files":            {},
					"list_jobs":             {"limit": 1},
					"list_variables":        {},
					"read_file":             {"path": "file"},
					"restart_python_worker": {"session": "none"},
					"search_job_output":     {"job_id": python, "pattern": "x"},
					"send_command_input":    {"job_id": python, "text": "x"},
					"send_python_input":     {"text": "x"},
					"set_variable":          {"name": "x", "value": ""},
					"wait_for_jobs":         {"job_ids": []string{shell}},
					"write_file":            {"path": "file", "content": "old"},
				}
				for _, tool := range list.Tools {
					var s struct {
						Properties map[string]schema
						Required   []string
					}
					if err := json.Unmarshal(rawjson.Of(tool.InputSchema), &s); err != nil {
						t.Fatal(err)
					}
					want := varying.ReplaceAllString(call(tool.Name, base[tool.Name]), "#")
					if len(s.Properties) == 0 {
						if got := call(tool.Name, given{"random_string": "x"}); strings.Contains(got, "random_string") {
							t.Errorf("%s with a filler: %s", tool.Name, got)
						}
						continue
					}
					if base[tool.Name] == nil {
						t.Errorf("%s is not called", tool.Name)
					}
					if tool.Name == "edit_file" { // the first call has changed the file
						call("write_file", base["write_file"])
					}
					for way, value := range waysNotSet {
						a := maps.Clone(base[tool.Name])
						for name, of := range s.Properties {
							if a[name] == nil && !slices.Contains(s.Required, name) {
								a[name] = value(name, of)
							}
						}
						if got := varying.ReplaceAllString(call(tool.Name, a), "#"); got != want {
							t.Errorf("%s, not set by %s: %s\ngot:\n%s\nwant:\n%s", tool.Name, way, rawjson.Of(a), got, want)
						}
						if tool.Name == "edit_file" {
							call("write_file", base["write_file"])
						}
					}
				}
			})
		}
	}
}

// A blank beside what is given in its place is not set.
func TestBlankBesideItsAlternative(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	shell := field(c.call("execute_command_async", given{"command": code(`ask line "? "`, "keys", `out "takes keys\n"`, "hang"), "wait_seconds": 60}), "Job ID")
	if got := c.call("execute_python", given{"code": "", "path": "x.py", "args": []string{}, "from_job": ""}); field(got, "Status") != "completed" {
		t.Errorf("a path:\n%s", got)
	}
	for _, a := range []given{{"eof": true}, {"keys": []string{"enter"}}, {"signal": "INT"}} {
		a["job_id"], a["text"], a["wait_seconds"] = shell, "", 0
		if got := c.call("send_command_input", a); field(got, "Input") == "" {
			t.Errorf("%v:\n%s", a, got)
		}
		jobstest.Prints(t, w.job("Job ID: "+shell+"\n"), "takes keys\n")
	}
	if got := c.refused("send_command_input", given{"job_id": shell, "text": "", "keys": []string{}, "signal": "none", "size": []int{}}); !strings.HasPrefix(got, "There is nothing to send") {
		t.Errorf("nothing: %s", got)
	}
}

// A model can only be offered tools whose schemas its API accepts: one that is refused costs it all
// of them. Gemini takes one type for each schema, only texts in an enum and none that is empty, and
// nothing beside anyOf. OpenAI wants items for each array. google-genai takes no boolean for a schema.
func TestSchemasAreOfTheSubsetThatModelsAccept(t *testing.T) {
	t.Parallel()
	for _, tool := range tools(usual) {
		var root map[string]any
		if err := json.Unmarshal(tool.define(usual).InputSchema.(json.RawMessage), &root); err != nil {
			t.Fatal(err)
		}
		if root["type"] != "object" || root["properties"] == nil {
			t.Errorf("%s has no object for its parameters", tool.name)
		}
		for _, flaw := range flaws(tool.name, root, false) {
			t.Error(flaw)
		}
	}
	for _, bad := range []string{
		`{}`, `{"type":["string","null"]}`, `{"type":"null"}`, `{"type":"any"}`, `{"type":"array"}`, `{"type":"array","items":{}}`, `{"type":"array","items":true}`,
		`{"type":"string","enum":[""]}`, `{"type":"integer","enum":["1"]}`, `{"type":"string","default":"x"}`, `{"anyOf":[{"type":"string"}],"description":"x"}`,
		`{"anyOf":[]}`, `{"anyOf":[{"type":"array"}]}`, `{"type":"object","additionalProperties":false}`, `{"type":"object","properties":{"a":{}}}`, `{"$ref":"#"}`,
	} {
		var s map[string]any
		if err := json.Unmarshal([]byte(bad), &s); err != nil || flaws("", s, false) == nil {
			t.Errorf("%s is accepted, %v", bad, err)
		}
	}
}

// flaws returns what is outside the subset in a schema and those in it.
func flaws(at string, value any, alternative bool) (all []string) {
	s, ok := value.(map[string]any)
	if !ok {
		return []string{at + " is no object"}
	}
	flaw := func(format string, a ...any) { all = append(all, at+" "+fmt.Sprintf(format, a...)) }
	for key := range s {
		if !slices.Contains([]string{"type", "description", "enum", "items", "properties", "required", "additionalProperties", "anyOf"}, key) {
			flaw("has %s", key)
		}
	}
	if anyOf, ok := s["anyOf"].([]any); ok {
		if len(s) > 1 || len(anyOf) == 0 {
			flaw("has something beside anyOf, or nothing in it")
		}
		for i, of := range anyOf {
			all = append(all, flaws(fmt.Sprintf("%s.%d", at, i), of, true)...)
		}
		return all
	}
	types := []string{"string", "integer", "number", "boolean", "array", "object"}
	if alternative {
		types = append(types, "null")
	}
	typ, _ := s["type"].(string)
	if !slices.Contains(types, typ) {
		flaw("is of type %v", s["type"])
	}
	if enum, ok := s["enum"]; ok && (typ != "string" || slices.Contains(enum.([]any), any(""))) {
		flaw("has an enum of %v", enum)
	}
	if items, ok := s["items"]; ok || typ == "array" {
		all = append(all, flaws(at+"[]", items, false)...)
	}
	if more, ok := s["additionalProperties"]; ok {
		all = append(all, flaws(at+".*", more, false)...)
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		for name, of := range properties {
			all = append(all, flaws(at+"."+name, of, false)...)
		}
	}
	return all
}

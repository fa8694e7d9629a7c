package arguments_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/jobs"
)

// Each type of value is read as JSON means it, with white space around it, and as nothing else.
func TestValuesAreRead(t *testing.T) {
	s := arguments.Signature{Tool: "test", Optional: []string{
		"session", "force", "tty", "limit", "cursor", "wait_seconds", "timeout_seconds", "job_ids", "env",
		"size", "code",
	}}
	yes, no := true, false
	limit, cursor, wait := int64(200), int64(16_000), 250*time.Millisecond
	for raw, want := range map[string]*arguments.Args{
		`{}`:                                 {},
		"{ \"session\" : \n \"a\\u002db\" }": {Session: "a-b"},
		`{"force": true}`:                    {Force: true},
		"{\"force\":\t false\n}":             {},
		`{"tty": false}`:                     {TTY: &no},
		`{"tty": true }`:                     {TTY: &yes},
		`{"limit": 200}`:                     {Limit: &limit},
		`{"limit": 2e2}`:                     {Limit: &limit},
		`{"cursor": 16000.0}`:                {Cursor: &cursor},
		`{"wait_seconds": 0.25}`:             {Wait: &wait},
		`{"job_ids": ["a", "b"]}`:            {JobIDs: []string{"a", "b"}},
		`{"env": {"A": "b=c", "D": ""}}`:     {Env: map[string]string{"A": "b=c", "D": ""}},
	} {
		got, err := s.Decode([]byte(raw))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", raw, err, diff)
		}
	}
	for raw, want := range map[string]string{
		`{"session": 1}`:                "session must be a string, not a number.",
		`{"force": "yes"}`:              "force must be true or false, not a string.",
		`{"force": 1}`:                  "force must be true or false, not a number.",
		`{"limit": "five"}`:             "limit must be a whole number, not a string.",
		`{"limit": "[5]"}`:              "limit must be a whole number, not a string.",
		`{"limit": "0x5"}`:              "limit must be a whole number, not a string.",
		`{"limit": 1.5}`:                "limit must be a whole number.",
		`{"limit": "1.5"}`:              "limit must be a whole number.",
		`{"limit": -1}`:                 "limit must be 1 or more.",
		`{"limit": 201}`:                "limit may be 200 at most.",
		`{"limit": "201"}`:              "limit may be 200 at most.",
		`{"limit": 1e300}`:              "limit may be 200 at most.",
		`{"wait_seconds": true}`:        "wait_seconds must be a number of seconds, not a boolean.",
		`{"wait_seconds": "true"}`:      "wait_seconds must be a number of seconds, not a string.",
		`{"wait_seconds": -1}`:          "wait_seconds must be 0 or more.",
		`{"wait_seconds": 110.5}`:       "wait_seconds may be 110 at most; call again to wait longer.",
		`{"job_ids": 1}`:                "job_ids must be an array of strings, not a number.",
		`{"job_ids": ["a", 1]}`:         "job_ids[1] must be a string, not a number.",
		`{"job_ids": ["a", null]}`:      "job_ids[1] must be a string, not null.",
		`{"job_ids": "a, b"}`:           "job_ids[0] holds several ids: give each as an element of its own.",
		`{"job_ids": ["a", "b c"]}`:     "job_ids[1] holds several ids: give each as an element of its own.",
		`{"job_ids": "['a', 'b']"}`:     `job_ids must be an array of strings, such as ["a", "b"]; this text begins like one and is none.`,
		`{"job_ids": "[1]"}`:            "job_ids[0] must be a string, not a number.",
		`{"size": "24"}`:                "size must be [rows, columns], not a string.",
		`{"env": ["A=b"]}`:              `env must be an object like {"NAME": "value"}, not an array.`,
		`{"env": "A=b"}`:                `env must be an object like {"NAME": "value"}, not a string.`,
		`{"env": {"A": 1}}`:             "env.A must be a string, not a number.",
		`{"env": {"A": null}}`:          "env.A must be a string, not null.",
		`{"env": {"A": "x", "A": "y"}}`: "env.A is given twice.",
		`{"env": {"": "x"}}`:            "env: a name may not be empty or hold = or NUL.",
		`{"env": {"A": "\u0000"}}`:      "env.A may not hold NUL.",
		`{"limit": null, "limit": 5}`:   "limit is given twice.",
		`{"limits": null}`:              "Unknown parameter: limits. Did you mean limit? test takes: [session, force, tty, limit, cursor, wait_seconds, timeout_seconds, job_ids, env, size, code].",
	} {
		if got, err := s.Decode([]byte(raw)); err == nil || err.Error() != want || got != nil {
			t.Errorf("%s: %+v, %v; want %s", raw, got, err, want)
		}
	}
}

// A value of another type can be written as text, as some clients write every value. What is a text
// anyway stays as it is.
func TestValuesWrittenAsText(t *testing.T) {
	s := arguments.Signature{Tool: "set_variable", Optional: []string{
		"force", "tty", "limit", "wait_seconds", "job_ids", "env", "size", "code", "value",
	}}
	no, limit, wait := false, int64(5), 1500*time.Millisecond
	for raw, want := range map[string]*arguments.Args{
		`{"limit": "5"}`:                      {Limit: &limit},
		`{"limit": " 5.0 "}`:                  {Limit: &limit},
		`{"wait_seconds": "1.5"}`:             {Wait: &wait},
		`{"force": "true"}`:                   {Force: true},
		`{"force": "True"}`:                   {Force: true},
		`{"tty": "false"}`:                    {TTY: &no},
		`{"job_ids": "a"}`:                    {JobIDs: []string{"a"}},
		`{"job_ids": "[\"a\", \"b\"]"}`:       {JobIDs: []string{"a", "b"}},
		`{"env": "{\"A\": \"5\"}"}`:           {Env: map[string]string{"A": "5"}},
		`{"size": "[24, 80]"}`:                {Size: jobs.Size{Rows: 24, Cols: 80}},
		`{"code": "5"}`:                       {Code: "5"},
		`{"code": "[\"a\"]"}`:                 {Code: `["a"]`},
		`{"value": "5"}`:                      {Value: []byte(`"5"`)},
		`{"job_ids": ["[\"a\"]"]}`:            {JobIDs: []string{`["a"]`}},
		`{"job_ids": "[", "limit": "\u0035"}`: {JobIDs: []string{"["}, Limit: &limit},
	} {
		got, err := s.Decode([]byte(raw))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", raw, err, diff)
		}
	}
}

// Some clients can't leave a parameter out. For an optional one, null and every blank mean that it is
// not set, and so does 0 if it has no meaning of its own. A required parameter keeps its errors.
func TestNotSet(t *testing.T) {
	all := arguments.Signature{Tool: "test", Optional: []string{
		"session", "force", "tty", "max_chars", "max_matches", "max_bytes", "limit", "count", "memory_mb", "timeout_seconds", "quiet_seconds",
		"max_depth", "keys", "names", "args", "env", "size", "signal", "status", "view", "wait_seconds", "cursor", "offset", "context", "code", "path", "text",
	}}
	for _, name := range all.Optional {
		blanks := []string{`null`, `""`, `[]`, `{}`, `[ ]`, "{\n}"}
		switch name {
		case "max_chars", "max_matches", "max_bytes", "limit", "count", "memory_mb", "timeout_seconds", "quiet_seconds", "max_depth":
			blanks = append(blanks, `0`, `0.0`, `-0`, `"0"`)
		case "signal":
			blanks = append(blanks, `"none"`)
		case "status":
			blanks = append(blanks, `"any"`)
		}
		switch name {
		case "keys", "names", "args", "session", "signal", "status", "view", "code", "path", "text": // a blank is a text to them
		default:
			blanks = append(blanks, `" "`, `"\t\n"`, `"\u0020"`)
		}
		for _, blank := range blanks {
			got, err := all.Decode([]byte(`{"` + name + `": ` + blank + `}`))
			if diff := cmp.Diff(&arguments.Args{}, got); err != nil || diff != "" {
				t.Errorf("%s: %s: %v\n%s", name, blank, err, diff)
			}
		}
	}
	zero, none := int64(0), time.Duration(0)
	want := &arguments.Args{Cursor: &zero, Offset: &zero, Context: &zero, Wait: &none}
	if got, err := all.Decode([]byte(`{"cursor": 0, "offset": "0", "context": 0.0, "wait_seconds": 0}`)); err != nil || !cmp.Equal(want, got) {
		t.Errorf("where 0 has a meaning: %+v, %v", got, err)
	}
	completion := arguments.Signature{Tool: "complete_code", Required: []string{"code"}, Optional: []string{"cursor"}}
	for _, blank := range []string{`null`, `""`, `" "`, `0`, `"0"`} {
		if got, err := completion.Decode([]byte(`{"code": "x", "cursor": ` + blank + `}`)); err != nil || got.Cursor != nil {
			t.Errorf("cursor %s of complete_code: %+v, %v", blank, got, err)
		}
	}
	for raw, want := range map[string]string{
		`{"session": "", "code": "x"}`:   "session must be 1 to 64 letters, digits, dots, dashes or underscores, beginning with a letter or digit.",
		`{"session": null, "code": "x"}`: "session must be a string, not null.",
		`{"session": [], "code": "x"}`:   "session must be a string, not an array.",
		`{"session": "a", "code": ""}`:   "code is empty.",
		`{"code": "x"}`:                  "session is missing. delete_session takes: session, code [].",
	} {
		s := arguments.Signature{Tool: "delete_session", Required: []string{"session", "code"}}
		if _, err := s.Decode([]byte(raw)); err == nil || err.Error() != strings.Replace(want, " []", "", 1) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

// Some clients send a filler to a tool without parameters.
func TestToolsWithoutParametersIgnoreThem(t *testing.T) {
	s := arguments.Signature{Tool: "list_sessions"}
	for _, raw := range []string{``, `null`, `{}`, `{"random_string": "x"}`, `{"a": 1, "a": [2]}`} {
		if got, err := s.Decode([]byte(raw)); err != nil || !cmp.Equal(got, &arguments.Args{}) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	if _, err := s.Decode([]byte(`["x"]`)); err == nil {
		t.Error("arguments that are no object are taken")
	}
}

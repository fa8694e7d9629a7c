package arguments_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/arguments"
)

// Each type of value is read as JSON means it, with white space around it, and as nothing else.
func TestValuesAreRead(t *testing.T) {
	s := arguments.Signature{Tool: "test", Optional: []string{
		"session", "force", "tty", "limit", "cursor", "wait_seconds", "timeout_seconds", "job_ids", "env",
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
		`{"session": null}`:             "session must be a string, not null; leave it out if you don't want to set it.",
		`{"force": "true"}`:             "force must be true or false, not a string.",
		`{"force": 1}`:                  "force must be true or false, not a number.",
		`{"limit": "5"}`:                "limit must be a whole number, not a string.",
		`{"limit": 1.5}`:                "limit must be a whole number.",
		`{"limit": 0}`:                  "limit must be 1 or more.",
		`{"limit": 201}`:                "limit may be 200 at most.",
		`{"limit": 1e300}`:              "limit may be 200 at most.",
		`{"wait_seconds": true}`:        "wait_seconds must be a number of seconds, not a boolean.",
		`{"wait_seconds": -1}`:          "wait_seconds must be 0 or more.",
		`{"wait_seconds": 110.5}`:       "wait_seconds may be 110 at most; call again to wait longer.",
		`{"job_ids": "a"}`:              "job_ids must be an array of strings, not a string.",
		`{"job_ids": ["a", 1]}`:         "job_ids[1] must be a string, not a number.",
		`{"job_ids": []}`:               "job_ids must hold 1 to 200 job ids.",
		`{"env": []}`:                   `env must be an object like {"NAME": "value"}, not an array.`,
		`{"env": {"A": 1}}`:             "env.A must be a string, not a number.",
		`{"env": {"A": "x", "A": "y"}}`: "env.A is given twice.",
		`{"env": {"": "x"}}`:            "env: a name may not be empty or hold = or NUL.",
		`{"env": {"A": "\u0000"}}`:      "env.A may not hold NUL.",
	} {
		if got, err := s.Decode([]byte(raw)); err == nil || err.Error() != want || got != nil {
			t.Errorf("%s: %+v, %v; want %s", raw, got, err, want)
		}
	}
}

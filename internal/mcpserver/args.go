package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/rawjson"
	"asyncrepl/internal/report"
	"asyncrepl/internal/view"

	"github.com/agnivade/levenshtein"
)

// args are the checked arguments of a call. The field of a parameter that the call omits has its
// zero value or, if that would mean something else, is nil.
type args struct {
	code, command, packages, text string
	session, cwd                  string
	jobID, before                 string
	jobIDs                        []string
	status, until                 string
	env                           map[string]string
	wait, timeout                 *time.Duration
	maxChars, limit               *int64
	cursor                        *int64
	tty                           *bool
	eof, secret, force            bool
}

// A mistake is an error in the arguments of a call. Its text says how to correct it.
type mistake struct{ text string }

func (m *mistake) Error() string { return m.text }

func mistakef(format string, a ...any) error { return &mistake{fmt.Sprintf(format, a...)} }

// decode reads the arguments of a call of t. It neither guesses nor ignores anything: an unknown,
// duplicate or missing argument and one of the wrong type are mistakes. No mistake quotes a value,
// which can be a secret.
func decode(t *tool, raw json.RawMessage) (*args, error) {
	a := &args{}
	given := map[string]bool{}
	switch what := jsonType(raw); {
	case what == "nothing", what == "null": // clients use both for "no arguments"
	case what != "an object":
		return nil, mistakef("The arguments must be a JSON object, not %s.", what)
	case !json.Valid(raw):
		return nil, mistakef("The arguments are not valid JSON.")
	}
	for name, value := range rawjson.Members(raw) {
		p := t.parameter(name)
		if p == nil {
			return nil, unknownParameter(t, name)
		}
		if given[name] {
			return nil, mistakef("%s is given twice.", name)
		}
		given[name] = true
		if err := p.set(a, name, value); err != nil {
			return nil, err
		}
	}
	for _, name := range t.required {
		if !given[name] {
			return nil, mistakef("%s is missing. %s", name, t.usage())
		}
	}
	return a, nil
}

// jsonType returns the type of a JSON value in words.
func jsonType(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func unknownParameter(t *tool, name string) error {
	known := slices.Concat(t.required, t.optional)
	hint := ""
	if near := nearest(name, known); len(near) > 0 {
		hint = " Did you mean " + strings.Join(near, " or ") + "?"
	}
	return mistakef("Unknown parameter: %s.%s %s", report.OneLine(name), hint, t.usage())
}

// nearest returns the known names that resemble name: they contain it, are contained in it, or
// differ in few letters.
func nearest(name string, known []string) []string {
	const longest = 64 // a longer name is no typing error, and comparing it could take long
	if len(name) > longest {
		return nil
	}
	name = strings.ToLower(name)
	var near []string
	for _, k := range known {
		if len(name) >= 3 && (strings.Contains(k, name) || strings.Contains(name, k)) || levenshtein.ComputeDistance(name, k) <= len(k)/3 {
			near = append(near, k)
		}
	}
	return near
}

// Limits of arguments.
const (
	maxWait     = 110 * time.Second // some clients move a call that takes two minutes to the background
	maxSeconds  = 366 * 24 * 3600   // of a timeout
	maxText     = 45_000            // characters of a reply; clients put longer replies into a file
	defaultText = 16_000
	newestText  = 2_000 // of the output of a running job in a status reply, if the call sets no max_chars
	maxList     = 200
	defaultList = 20
)

func decodeString(name string, raw json.RawMessage) (string, error) {
	s, ok := rawjson.String(raw)
	if !ok {
		return "", wrongType(name, "a string", raw)
	}
	return s, nil
}

func decodeBool(name string, raw json.RawMessage) (bool, error) {
	if jsonType(raw) != "a boolean" {
		return false, wrongType(name, "true or false", raw)
	}
	return string(bytes.TrimSpace(raw)) == "true", nil
}

// decodeInt reads a whole number from least to most.
func decodeInt(name string, raw json.RawMessage, least, most int64) (*int64, error) {
	if jsonType(raw) != "a number" {
		return nil, wrongType(name, "a whole number", raw)
	}
	var n int64
	if err := json.Unmarshal(raw, &n); err != nil {
		var f float64 // 16000.0 and 1.6e4 are whole numbers too
		if json.Unmarshal(raw, &f) != nil || f != float64(int64(f)) || f > 1<<53 || f < -1<<53 {
			return nil, mistakef("%s must be a whole number.", name)
		}
		n = int64(f)
	}
	if n < least {
		return nil, mistakef("%s must be %d or more.", name, least)
	}
	if n > most {
		return nil, mistakef("%s may be %s at most.", name, view.Count(most))
	}
	return &n, nil
}

func decodeSeconds(name string, raw json.RawMessage, most time.Duration, remedy string) (*time.Duration, error) {
	if jsonType(raw) != "a number" {
		return nil, wrongType(name, "a number of seconds", raw)
	}
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil || f > most.Seconds() {
		return nil, mistakef("%s may be %s at most%s.", name, view.Count(int64(most.Seconds())), remedy)
	}
	if f < 0 {
		return nil, mistakef("%s must be 0 or more.", name)
	}
	d := time.Duration(f * float64(time.Second))
	return &d, nil
}

func decodeStrings(name string, raw json.RawMessage) ([]string, error) {
	if jsonType(raw) != "an array" {
		return nil, wrongType(name, "an array of strings", raw)
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, mistakef("%s is not a valid JSON array.", name)
	}
	list := make([]string, len(elements))
	for i, e := range elements {
		var err error
		if list[i], err = decodeString(fmt.Sprintf("%s[%d]", name, i), e); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func decodeEnv(name string, raw json.RawMessage) (map[string]string, error) {
	if jsonType(raw) != "an object" {
		return nil, wrongType(name, `an object like {"NAME": "value"}`, raw)
	}
	env := map[string]string{}
	for key, value := range rawjson.Members(raw) {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			return nil, mistakef("%s: a name may not be empty or hold = or NUL.", name)
		}
		full := name + "." + report.OneLine(key)
		if _, ok := env[key]; ok {
			return nil, mistakef("%s is given twice.", full)
		}
		s, err := decodeString(full, value)
		if err != nil {
			return nil, err
		}
		if strings.ContainsRune(s, 0) {
			return nil, mistakef("%s may not hold NUL.", full)
		}
		env[key] = s
	}
	return env, nil
}

func wrongType(name, want string, raw json.RawMessage) error {
	remedy := ""
	if jsonType(raw) == "null" {
		remedy = "; leave it out if you don't want to set it"
	}
	return mistakef("%s must be %s, not %s%s.", name, want, jsonType(raw), remedy)
}

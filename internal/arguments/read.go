package arguments

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"asyncrepl/internal/rawjson"
	"asyncrepl/internal/report"
	"asyncrepl/internal/view"
)

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

// beyond is a whole number above those that a parameter can have.
const beyond = 1 << 62

// decodeInt reads a whole number from least to most.
func decodeInt(name string, raw json.RawMessage, least, most int64) (*int64, error) {
	if jsonType(raw) != "a number" {
		return nil, wrongType(name, "a whole number", raw)
	}
	var n int64
	if err := json.Unmarshal(raw, &n); err != nil {
		var f float64 // 16000.0 and 1.6e4 are whole numbers too
		if json.Unmarshal(raw, &f) != nil || f != math.Trunc(f) {
			return nil, Mistakef("%s must be a whole number.", name)
		}
		n = int64(max(-beyond, min(f, beyond)))
	}
	if n < least {
		return nil, Mistakef("%s must be %d or more.", name, least)
	}
	if n > most {
		return nil, Mistakef("%s may be %s at most.", name, view.Count(most))
	}
	return &n, nil
}

func decodeSeconds(name string, raw json.RawMessage, most time.Duration, remedy string) (*time.Duration, error) {
	if jsonType(raw) != "a number" {
		return nil, wrongType(name, "a number of seconds", raw)
	}
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil || f > most.Seconds() {
		return nil, Mistakef("%s may be %s at most%s.", name, view.Count(int64(most.Seconds())), remedy)
	}
	if f < 0 {
		return nil, Mistakef("%s must be 0 or more.", name)
	}
	d := time.Duration(f * float64(time.Second))
	return &d, nil
}

func decodeStrings(name string, raw json.RawMessage) ([]string, error) {
	if text, ok := rawjson.String(raw); ok && strings.HasPrefix(strings.TrimSpace(text), "[") {
		return nil, Mistakef(`%s must be an array of strings, such as ["a", "b"]; this text begins like one and is none.`, name)
	}
	if jsonType(raw) != "an array" {
		return nil, wrongType(name, "an array of strings", raw)
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, Mistakef("%s is not a valid JSON array.", name)
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
			return nil, Mistakef("%s: a name may not be empty or hold = or NUL.", name)
		}
		full := name + "." + report.OneLine(key)
		if _, ok := env[key]; ok {
			return nil, Mistakef("%s is given twice.", full)
		}
		s, err := decodeString(full, value)
		if err != nil {
			return nil, err
		}
		if strings.ContainsRune(s, 0) {
			return nil, Mistakef("%s may not hold NUL.", full)
		}
		env[key] = s
	}
	return env, nil
}

func wrongType(name, want string, raw json.RawMessage) error {
	return Mistakef("%s must be %s, not %s.", name, want, jsonType(raw))
}

// meant returns the value that a text stands for, if the parameter is of another type: some clients
// write every value as text. For a list of strings, any other text is its only element. A text that
// stands for no value of that type stays as it is.
func (p *parameter) meant(value json.RawMessage) json.RawMessage {
	typ, one := p.schema["type"].(string)
	if value[0] != '"' || !one || typ == "string" || len(value) == len(`""`) {
		return value
	}
	s, _ := rawjson.String(value)
	s = strings.TrimSpace(s)
	if typ == "boolean" {
		s = strings.ToLower(s) // Python writes True
	}
	written := json.RawMessage(s)
	if jsonType(written) == inWords[typ] && json.Valid(written) {
		return written
	}
	if items, ok := p.schema["items"].(map[string]any); ok && items["type"] == "string" && (s == "[" || !strings.HasPrefix(s, "[")) {
		return slices.Concat([]byte{'['}, value, []byte{']'})
	}
	return value
}

// inWords has the types of schemas as jsonType names them.
var inWords = map[string]string{"array": "an array", "boolean": "a boolean", "integer": "a number", "number": "a number", "object": "an object"}

// isUnset reports whether a value means that an optional parameter is not set: it is null, a blank or
// what the parameter has for that. White space
// is a blank, too, if the parameter is no string.
func (p *parameter) isUnset(value json.RawMessage) bool {
	switch value[0] {
	case 'n':
		return true
	case '"':
		text := p.schema["type"] == "string"
		if text && p.unset == "" {
			return len(value) == len(`""`)
		}
		s, ok := rawjson.String(value)
		if !text {
			s = strings.TrimSpace(s)
		}
		return ok && (s == "" || s == p.unset)
	case '[', '{':
		return len(bytes.TrimSpace(value[1:len(value)-1])) == 0
	}
	if p.unset != "0" {
		return false
	}
	f, err := strconv.ParseFloat(string(value), 64)
	return err == nil && f == 0
}

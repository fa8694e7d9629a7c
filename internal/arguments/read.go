package arguments

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
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
	remedy := ""
	if jsonType(raw) == "null" {
		remedy = "; leave it out if you don't want to set it"
	}
	return Mistakef("%s must be %s, not %s%s.", name, want, jsonType(raw), remedy)
}

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

	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A parameter is one argument that tools can take: its schema, and how it is read.
type parameter struct {
	valueType
	schema map[string]any
	set    func(a *Args, name string, raw json.RawMessage) error
	unset  string // a value that means "not set", besides null and blanks; see or
}

// A valueType is the type of the value of a parameter. The zero value is any type.
type valueType struct {
	name   string // the name in schemas
	found  string // the name that a mistake uses for the type of the given value; see jsonType
	wanted string // the name that a mistake uses for the type of the parameter
}

var (
	aString   = valueType{"string", "a string", "a string"}
	aBoolean  = valueType{"boolean", "a boolean", "true or false"}
	anInteger = valueType{"integer", "a number", "a whole number"}
	seconds   = valueType{"number", "a number", "a number of seconds"}
	aList     = valueType{"array", "an array", "an array of strings"}
	aSize     = valueType{"array", "an array", "[rows, columns]"}
	anEnv     = valueType{"object", "an object", `an object like {"NAME": "value"}`}
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

// check returns a mistake if a value has another type.
func (t valueType) check(name string, raw json.RawMessage) error {
	found := jsonType(raw)
	switch {
	case found == t.found:
		return nil
	// meant makes a list of any other text.
	case t == aList && found == "a string" && len(raw) > len(`""`):
		return report.Mistakef(`%s must be an array of strings, such as ["a", "b"]; this text begins like one and is none.`, name)
	}
	return report.Mistakef("%s must be %s, not %s.", name, t.wanted, found)
}

// newParameter returns a parameter whose values read turns into that of a field. read gets values of
// the type only. Inlined, it would be copied into each row of the table: 127 KB.
//
//go:noinline
func newParameter[T any](t valueType, about string, field func(*Args) *T, read func(name string, raw json.RawMessage) (T, error)) *parameter {
	return &parameter{valueType: t, schema: schemaOf(t.name, about), set: func(a *Args, name string, raw json.RawMessage) error {
		err := t.check(name, raw)
		if err == nil {
			*field(a), err = read(name, raw)
		}
		return err
	}}
}

func text(about string, field func(*Args) *string, check func(name, s string) error) *parameter {
	return newParameter(aString, about, field, func(name string, raw json.RawMessage) (s string, err error) {
		s, _ = rawjson.String(raw)
		if check != nil {
			err = check(name, s)
		}
		return s, err
	})
}

func choice(about string, field func(*Args) *string, of ...string) *parameter {
	return text(about, field, func(name, s string) error {
		if !slices.Contains(of, s) {
			return report.Mistakef("%s must be one of: %s.", name, strings.Join(of, ", "))
		}
		return nil
	}).with("enum", of)
}

func boolean[T bool | *bool](about string, field func(*Args) *T) *parameter {
	return newParameter(aBoolean, about, field, func(_ string, raw json.RawMessage) (on T, err error) {
		err = json.Unmarshal(raw, &on)
		return on, err
	})
}

// beyond is a whole number above those that a parameter can have.
const beyond = 1 << 62

func integer(about string, field func(*Args) **int64, least, most int64) *parameter {
	return newParameter(anInteger, about, field, func(name string, raw json.RawMessage) (*int64, error) {
		n, err := readInteger(name, raw, least, most)
		return &n, err
	})
}

// readInteger reads a whole number from least to most.
func readInteger(name string, raw json.RawMessage, least, most int64) (n int64, err error) {
	if json.Unmarshal(raw, &n) != nil {
		var f float64 // 16000.0 and 1.6e4 are whole numbers too
		if json.Unmarshal(raw, &f) != nil || f != math.Trunc(f) {
			return 0, report.Mistakef("%s must be a whole number.", name)
		}
		n = int64(max(-beyond, min(f, beyond)))
	}
	if n < least {
		return 0, report.Mistakef("%s must be %d or more.", name, least)
	}
	if n > most {
		return 0, report.Mistakef("%s may be %s at most.", name, view.Count(most))
	}
	return n, nil
}

// duration returns a parameter that is a number of seconds. remedy says what to do about too many.
func duration(about string, field func(*Args) **time.Duration, least, most time.Duration, remedy string) *parameter {
	return newParameter(seconds, about, field, func(name string, raw json.RawMessage) (*time.Duration, error) {
		var f float64
		err := json.Unmarshal(raw, &f) // it fails if there are too many for a float64
		switch d := time.Duration(f * float64(time.Second)); {
		case err == nil && f >= least.Seconds() && f <= most.Seconds():
			return &d, nil
		case least > 0:
			return nil, report.Mistakef("%s must be %g to %g.", name, least.Seconds(), most.Seconds())
		case f < 0:
			return nil, report.Mistakef("%s must be 0 or more.", name)
		}
		return nil, report.Mistakef("%s may be %s at most%s.", name, view.Count(int64(most.Seconds())), remedy)
	})
}

// list returns a parameter that is a list of strings. It holds 1 to most of these things, or any number
// if most is 0.
func list(about string, field func(*Args) *[]string, most int, things string, check func(name string, all []string) error) *parameter {
	return newParameter(aList, about, field, func(name string, raw json.RawMessage) ([]string, error) {
		var elements []json.RawMessage
		if err := json.Unmarshal(raw, &elements); err != nil {
			return nil, err
		}
		all := make([]string, len(elements))
		for i, element := range elements {
			if err := aString.check(fmt.Sprintf("%s[%d]", name, i), element); err != nil {
				return nil, err
			}
			all[i], _ = rawjson.String(element)
		}
		if most > 0 && (len(all) == 0 || len(all) > most) {
			return nil, report.Mistakef("%s must hold 1 to %s %s.", name, view.Count(int64(most)), things)
		}
		if check != nil {
			return all, check(name, all)
		}
		return all, nil
	}).with("items", schemaOf("string", ""))
}

func readSize(name string, raw json.RawMessage) (size jobs.Size, err error) {
	var sides []json.RawMessage
	if err := json.Unmarshal(raw, &sides); err != nil || len(sides) != 2 {
		return size, report.Mistakef("%s must be [rows, columns].", name)
	}
	for i, side := range []*int{&size.Rows, &size.Cols} {
		full := name + []string{" (rows)", " (columns)"}[i]
		if err := anInteger.check(full, sides[i]); err != nil {
			return size, err
		}
		n, err := readInteger(full, sides[i], 1, maxSide)
		if err != nil {
			return size, err
		}
		*side = int(n)
	}
	return size, nil
}

func readEnv(name string, raw json.RawMessage) (map[string]string, error) {
	env := map[string]string{}
	for key, value := range rawjson.Members(raw) {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			return nil, report.Mistakef("%s: a name may not be empty or hold = or NUL.", name)
		}
		full := name + "." + report.OneLine(key)
		if _, ok := env[key]; ok {
			return nil, report.Mistakef("%s is given twice.", full)
		}
		if err := aString.check(full, value); err != nil {
			return nil, err
		}
		env[key], _ = rawjson.String(value)
		if err := noNUL(full, env[key]); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// meant returns the value that a text stands for, if the parameter is of another type: some clients
// write every value as text. For a list of strings, any other text is its only element. A text that
// stands for no value of that type stays as it is.
func (t valueType) meant(value json.RawMessage) json.RawMessage {
	if value[0] != '"' || t == aString || t == (valueType{}) || len(value) == len(`""`) {
		return value
	}
	s, _ := rawjson.String(value)
	s = strings.TrimSpace(s)
	if t == aBoolean {
		s = strings.ToLower(s) // Python writes True
	}
	written := json.RawMessage(s)
	if jsonType(written) == t.found && json.Valid(written) {
		return written
	}
	if t == aList && (s == "[" || !strings.HasPrefix(s, "[")) {
		return slices.Concat([]byte{'['}, value, []byte{']'})
	}
	return value
}

// isUnset reports whether a value means that an optional parameter is not set: it is null, a blank or
// what the parameter has for that. White space is a blank, too, if the parameter is no string.
func (p *parameter) isUnset(value json.RawMessage) bool {
	switch value[0] {
	case 'n':
		return true
	case '"':
		if p.valueType == aString && p.unset == "" {
			return len(value) == len(`""`) // the text can be long, so it is not copied
		}
		s, _ := rawjson.String(value)
		if p.valueType != aString {
			s = strings.TrimSpace(s)
		}
		return s == "" || s == p.unset
	case '[', '{':
		return len(bytes.TrimSpace(value[1:len(value)-1])) == 0
	}
	if p.unset != "0" {
		return false
	}
	f, err := strconv.ParseFloat(string(value), 64)
	return err == nil && f == 0
}

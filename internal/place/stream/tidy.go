package stream

import (
	"reflect"
	"strings"
	"time"

	"asyncrepl/internal/text/view"
)

// The bounds of the values in a record.
const (
	maxText   = 2000       // characters of a text that can become a line
	maxList   = 1000       // elements of a list
	maxPrompt = 4 << 10    // bytes
	maxCode   = 16 << 10   // bytes, as a record here has
	maxResult = 4 * 32_000 // bytes of the characters that a record here has
)

// tidyRecord escapes and bounds the text of a record, and drops the fields that are unknown here. It leaves as they
// are what is never a line as it is: code, result, prompt and exception, of which a job here can have any, too.
func tidyRecord(body *recordBody) error {
	r := &body.Record
	code, result, exception, prompt := r.Code, r.Result, r.Receipt.Exception, ""
	if r.Question != nil {
		prompt = r.Question.Prompt
	}
	r.Receipt.Exception = nil
	err := Tidy(body)
	r.Code, r.Result, r.Receipt.Exception = cut(code, maxCode), cut(result, maxResult), exception
	if r.Question != nil {
		r.Question.Prompt = cut(prompt, maxPrompt)
	}
	return err
}

// cut returns the first n bytes of a text, at most, and no part of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(strings.Clone(s[:n]), "")
}

// Tidy escapes and bounds each text and list below the value that v points to, and drops each map: what an engine at
// a place has sent can then be a line of a reply. The error means that it has sent a time that no clock shows.
func Tidy(v any) error { return tidy(reflect.ValueOf(v).Elem()) }

func tidy(v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(view.Line(v.String(), maxText))
	case reflect.Map:
		v.SetZero()
	case reflect.Pointer:
		if !v.IsNil() {
			return tidy(v.Elem())
		}
	case reflect.Slice:
		if v.Len() > maxList {
			v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, maxList), v.Slice(0, maxList)))
		}
		for i := range v.Len() {
			if err := tidy(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if t, ok := v.Interface().(time.Time); ok {
			// The JSON of a later time can't be written, and one such job would spoil a list of all.
			if !t.IsZero() && (t.Year() < 1970 || t.Year() > 2200) {
				return lie("sent a record with the time %s", t.UTC().Format(time.RFC3339))
			}
			return nil
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				if err := tidy(v.Field(i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

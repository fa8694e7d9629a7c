package mcpserver

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"asyncrepl/internal/engine"
)

// FuzzDecode gives tools arguments of every kind. Those accepted keep the limits and mean the same
// in any order and spelling. Those refused get a few plain words.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"code":"1+1","wait_seconds":1.5,"max_chars":1.6e4}`, `{"command":"ls","env":{"A":"b","C":""},"tty":false,"cwd":"x"}`,
		`{"job_ids":["a","b"],"until":"all"}`, `{"job_id":"a","text":"\u0000\ud800","eof":true,"secret":true}`, `{"package":"numpy","session":"a.b"}`,
		`{"status":"running","limit":200,"before":"x"}`, `{"job_id":"x","cursor":9007199254740992,"force":true}`, `null`, ``, ` [] `, `"{}"`,
		`{"code":"x","code":"y"}`, `{"c\u006fde":"x","timeout_seconds":1e999}`, `{"wait_seconds":-0,"limit":-0.0}`, `{"command":"x","env":{"A":"1","A":"2"}}`,
		"{\"\u202e\\n\":1}", `{"code":"` + strings.Repeat("[", 9000) + `"}`,
	} {
		for i := range len(tools(engine.DefaultGrace)) {
			f.Add(uint8(i), []byte(s))
		}
	}
	all := tools(engine.DefaultGrace)
	f.Fuzz(func(t *testing.T, pick uint8, raw []byte) {
		tool := all[int(pick)%len(all)]
		a, err := decode(tool, raw)
		if !json.Valid(raw) || !utf8.Valid(raw) {
			return // the transport lets none of this in: it is enough that nothing panics
		}
		if err != nil {
			checkMistake(t, tool, raw, a, err)
			return
		}
		checkLimits(t, a)
		var given map[string]any
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		dec.UseNumber()
		if err := dec.Decode(&given); err != nil {
			t.Fatalf("%s accepted %q: %v", tool.name, raw, err)
		}
		if again, err := decode(tool, marshal(given)); err != nil || !reflect.DeepEqual(a, again) {
			t.Fatalf("%s reads %q as %+v, and spelled in another way as %+v, %v", tool.name, raw, a, again, err)
		}
		for _, name := range tool.required {
			less := maps.Clone(given)
			delete(less, name)
			if _, err := decode(tool, marshal(less)); err == nil {
				t.Fatalf("%s accepts arguments without %s", tool.name, name)
			}
		}
		for name := range given {
			if tool.parameter(name) == nil {
				t.Fatalf("%s ignored %q", tool.name, name)
			}
		}
	})
}

// checkMistake fails if the refusal of raw is unfit for a model.
func checkMistake(t *testing.T, tool *tool, raw []byte, a *args, err error) {
	t.Helper()
	var m *mistake
	if !errors.As(err, &m) || a != nil {
		t.Fatalf("%s answers %q with %+v and %v", tool.name, raw, a, err)
	}
	if n := utf8.RuneCountInString(m.text); n == 0 || n > 1000 {
		t.Fatalf("a mistake in %d characters: %s", n, m.text)
	}
	if strings.ContainsFunc(m.text, unicode.IsControl) {
		t.Fatalf("a mistake with control characters: %q", m.text)
	}
}

// checkLimits fails if an argument breaks a limit that the tools rely on.
func checkLimits(t *testing.T, a *args) {
	t.Helper()
	for what, bad := range map[string]bool{
		"wait":      a.wait != nil && (*a.wait < 0 || *a.wait > maxWait),
		"timeout":   a.timeout != nil && (*a.timeout < 0 || *a.timeout > maxSeconds*time.Second),
		"max_chars": a.maxChars != nil && (*a.maxChars < 0 || *a.maxChars > maxText),
		"limit":     a.limit != nil && (*a.limit < 1 || *a.limit > maxList),
		"cursor":    a.cursor != nil && (*a.cursor < 0 || *a.cursor > 1<<53),
		"session":   a.session != "" && !sessionNames().MatchString(a.session),
		"job_ids":   a.jobIDs != nil && (len(a.jobIDs) == 0 || len(a.jobIDs) > maxList),
		"until":     a.until != "" && a.until != untilAny && a.until != untilAll,
		"NUL":       slices.ContainsFunc([]string{a.code, a.command, a.cwd, a.packages}, func(s string) bool { return strings.ContainsRune(s, 0) }),
	} {
		if bad {
			t.Fatalf("%s is out of its limits: %+v", what, a)
		}
	}
	for name, value := range a.env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			t.Fatalf("env %q=%q", name, value)
		}
	}
}

package arguments

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

	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// signatures returns one for each parameter, which is required while all others are optional, and
// one without any that is required.
func signatures() []*Signature {
	names := append(slices.Sorted(maps.Keys(parameters())), "wait_seconds")
	all := []*Signature{{Tool: "tool", Optional: names}}
	for i, name := range names {
		others := slices.Delete(slices.Clone(names), i, i+1)
		all = append(all, &Signature{Tool: "tool", Required: []string{name}, Optional: others})
	}
	return all
}

// FuzzDecode gives tools arguments of every kind. Those accepted keep the limits and mean the same
// in any order and spelling. Those refused get a few plain words.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"code":"1+1","wait_seconds":1.5,"max_chars":1.6e4}`, `{"command":"ls","env":{"A":"b","C":""},"tty":false,"cwd":"x"}`,
		`{"job_ids":["a","b"],"until":"all"}`, `{"job_id":"a","text":"\u0000\ud800","eof":true,"secret":true}`, `{"package":"numpy","session":"a.b"}`,
		`{"keys":["ctrl-c","<Esc>","entr","\u0000",":wq"],"paste":true,"size":[24,80],"signal":"sigint"}`, `{"keys":["word"],"size":[0],"signal":"KILL"}`,
		`{"status":"running","limit":200,"before":"x"}`, `{"job_id":"x","cursor":9007199254740992,"force":true}`, `null`, ``, ` [] `, `"{}"`,
		`{"code":"x","code":"y"}`, `{"c\u006fde":"x","timeout_seconds":1e999}`, `{"wait_seconds":-0,"limit":-0.0}`, `{"command":"x","env":{"A":"1","A":"2"}}`,
		"{\"\u202e\\n\":1}", `{"code":"` + strings.Repeat("[", 9000) + `"}`,
	} {
		for i := range len(parameters()) + 1 {
			f.Add(uint8(i), []byte(s))
		}
	}
	all := signatures()
	f.Fuzz(func(t *testing.T, pick uint8, raw []byte) {
		tool := all[int(pick)%len(all)]
		a, err := tool.Decode(raw)
		if !json.Valid(raw) || !utf8.Valid(raw) {
			return // the transport lets none of this in: it is enough that nothing panics
		}
		if err != nil {
			checkMistake(t, tool, raw, a, err)
			return
		}
		checkLimits(t, a)
		if _, err := a.KeySequence(); err != nil {
			checkMistake(t, tool, raw, nil, err)
		}
		var given map[string]any
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		dec.UseNumber()
		if err := dec.Decode(&given); err != nil {
			t.Fatalf("%s accepted %q: %v", tool.Tool, raw, err)
		}
		if again, err := tool.Decode(rawjson.Of(given)); err != nil || !reflect.DeepEqual(a, again) {
			t.Fatalf("%s reads %q as %+v, and spelled in another way as %+v, %v", tool.Tool, raw, a, again, err)
		}
		for _, name := range tool.Required {
			less := maps.Clone(given)
			delete(less, name)
			if _, err := tool.Decode(rawjson.Of(less)); err == nil {
				t.Fatalf("%s accepts arguments without %s", tool.Tool, name)
			}
		}
		for name := range given {
			if tool.parameter(name) == nil {
				t.Fatalf("%s ignored %q", tool.Tool, name)
			}
		}
	})
}

// checkMistake fails if the refusal of raw is unfit for a model.
func checkMistake(t *testing.T, tool *Signature, raw []byte, a *Args, err error) {
	t.Helper()
	var m *report.Mistake
	if !errors.As(err, &m) || a != nil {
		t.Fatalf("%s answers %q with %+v and %v", tool.Tool, raw, a, err)
	}
	if n := utf8.RuneCountInString(m.Text); n == 0 || n > 1000 {
		t.Fatalf("a mistake in %d characters: %s", n, m.Text)
	}
	if strings.ContainsFunc(m.Text, unicode.IsControl) {
		t.Fatalf("a mistake with control characters: %q", m.Text)
	}
}

// checkLimits fails if an argument breaks a limit that the tools rely on.
func checkLimits(t *testing.T, a *Args) {
	t.Helper()
	for what, bad := range map[string]bool{
		"wait":      a.Wait != nil && (*a.Wait < 0 || *a.Wait > maxWait),
		"timeout":   a.Timeout != nil && (*a.Timeout < 0 || *a.Timeout > maxSeconds*time.Second),
		"max_chars": a.MaxChars != nil && (*a.MaxChars < 1 || *a.MaxChars > MaxText),
		"limit":     a.Limit != nil && (*a.Limit < 1 || *a.Limit > MaxList),
		"cursor":    a.Cursor != nil && (*a.Cursor < 0 || *a.Cursor > 1<<53),
		"session":   a.Session != "" && !sessionNames().MatchString(a.Session),
		"shell":     a.ShellSession != "" && !sessionNames().MatchString(a.ShellSession),
		"name":      a.Name != "" && !sessionNames().MatchString(a.Name),
		"job_ids":   a.JobIDs != nil && (len(a.JobIDs) == 0 || len(a.JobIDs) > MaxList),
		"max_bytes": a.MaxBytes != nil && *a.MaxBytes < 1 || a.Count != nil && *a.Count < 1 || a.MaxDepth != nil && *a.MaxDepth < 1,
		"offset":    a.Offset != nil && *a.Offset < 0,
		"until":     a.Until != "" && a.Until != untilAny && a.Until != UntilAll,
		"keys":      a.Keys != nil && (len(a.Keys) == 0 || len(a.Keys) > maxKeys),
		"size":      a.Size != jobs.Size{} && (min(a.Size.Rows, a.Size.Cols) < 1 || max(a.Size.Rows, a.Size.Cols) > maxSide),
		"signal":    a.Signal != "" && !slices.Contains(signalNames, strings.TrimPrefix(a.Signal, "SIG")),
		"NUL":       slices.ContainsFunc([]string{a.Code, a.Command, a.Cwd, a.Package, a.Packages, a.Python, a.Venv}, func(s string) bool { return strings.ContainsRune(s, 0) }),
	} {
		if bad {
			t.Fatalf("%s is out of its limits: %+v", what, a)
		}
	}
	for name, value := range a.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			t.Fatalf("env %q=%q", name, value)
		}
	}
}

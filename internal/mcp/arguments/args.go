package arguments

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// Args are the checked arguments of a call. The field of a parameter that the call omits has its
// zero value or, if that would mean something else, is nil.
type Args struct {
	Code, Command, Package, Text   string
	Session, Name, Cwd, Path, On   string
	FromSession, FromCheckpoint    string
	ShellSession                   string
	Checkpoint, Keep               bool
	Python, Venv, Packages         string
	JobID, Before, FromJob         string
	JobIDs, Names, Args            []string
	Format, Pattern, StopPattern   string
	Value                          json.RawMessage
	Status, Until, View            string
	Env                            map[string]string
	Wait, Timeout, Quiet           *time.Duration
	MaxChars, Limit                *int64
	Cursor, MemoryMB               *int64
	Context, MaxMatches            *int64
	TTY                            *bool
	EOF, Secret, Force, All, Rerun bool
	Source                         bool
	Keys                           []string
	Paste, Show                    bool
	Size                           jobs.Size
	Signal                         string // SIGINT

	Filename, Content, Old, New       string
	Recursive, Tree, BinaryBase64     bool
	IncludeFiles, IncludeDirs         *bool
	Overwrite                         *bool
	MaxDepth, MaxBytes, Offset, Count *int64
}

// ExpandHome replaces a ~ at the beginning of a path by the home directory, as a shell does, unless
// home returns none. Paths of interpreters, environments and packages are not read here.
func (a *Args) ExpandHome(home func() string) {
	for _, path := range []*string{&a.Cwd, &a.Path} {
		rest, ok := strings.CutPrefix(*path, "~")
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		if dir := home(); dir != "" {
			*path = dir + rest
		}
	}
}

// CheckCode returns an error unless the call says in one way what Python is to run.
func (a *Args) CheckCode() error {
	switch {
	case a.Code == "" && a.Path == "":
		return report.Mistakef("code is missing. Give the code, or the path of a file to run.")
	case a.Code != "" && a.Path != "":
		return report.Mistakef("code and path are both given. Give the code, or the path of a file to run.")
	case a.Code != "" && a.Args != nil:
		return report.Mistakef("args needs path: they are the arguments of a file.")
	}
	return nil
}

// A Signature names the parameters of one tool. Schema and documentation keep their order.
type Signature struct {
	Tool     string
	Required []string
	Optional []string
	Wait     string // the description of wait_seconds, whose default differs between tools
	MaxChars int    // the default of max_chars
	Places   string // the names of the places, for the description of on
}

// parameter returns the parameter of that name, nil if the tool has none.
func (s *Signature) parameter(name string) *parameter {
	if !slices.Contains(s.Required, name) && !slices.Contains(s.Optional, name) {
		return nil
	}
	if name == "wait_seconds" {
		most := maxWait
		if s.Tool == "wait_for_jobs" {
			most = maxWaitForJobs
		}
		return duration(s.Wait, func(a *Args) **time.Duration { return &a.Wait }, 0, most, "; call again to wait longer")
	}
	if p := parameters()[s.Tool+"."+name]; p != nil {
		return p
	}
	return parameters()[name]
}

// List returns the names of the parameters, the optional ones in brackets.
func (s *Signature) List() string {
	list := strings.Join(s.Required, ", ")
	if len(s.Optional) > 0 {
		if list != "" {
			list += " "
		}
		list += "[" + strings.Join(s.Optional, ", ") + "]"
	}
	return list
}

// Schema returns the JSON schema of the arguments. It keeps the order of the parameters, the
// important ones first. It does not say additionalProperties: false, at which google-genai 3.4
// crashes: https://github.com/googleapis/python-genai/issues/2476.
func (s *Signature) Schema() json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i, name := range slices.Concat(s.Required, s.Optional) {
		if i > 0 {
			b.WriteByte(',')
		}
		schema := s.parameter(name).schema
		switch name {
		case "max_chars":
			schema = schemaOf("integer", fmt.Sprintf("default %d, max %d", s.MaxChars, MaxText))
		case "max_bytes":
			schema = schemaOf("integer", fmt.Sprintf("default %d characters", s.MaxChars))
		case "on":
			schema = schemaOf("string", "place: "+s.Places)
		}
		fmt.Fprintf(&b, "%q:%s", name, rawjson.Of(schema))
	}
	b.WriteByte('}')
	if len(s.Required) > 0 {
		fmt.Fprintf(&b, `,"required":%s`, rawjson.Of(s.Required))
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

// Decode reads the arguments of a call of the tool. Its error is a [report.Mistake].
func (s *Signature) Decode(raw json.RawMessage) (*Args, error) {
	a := &Args{}
	given := map[string]bool{}
	switch what := jsonType(raw); {
	case what == "nothing", what == "null": // clients use both for "no arguments"
	case what != "an object":
		return nil, report.Mistakef("The arguments must be a JSON object, not %s.", what)
	case !json.Valid(raw):
		return nil, report.Mistakef("The arguments are not valid JSON.")
	}
	if len(s.Required)+len(s.Optional) == 0 {
		return a, nil // some clients can't call without any, and send a filler
	}
	for name, value := range rawjson.Members(raw) {
		p := s.parameter(name)
		if p == nil {
			near := Nearest(name, slices.Concat(s.Required, s.Optional))
			return nil, report.Mistakef("Unknown parameter: %s.%s %s takes: %s.", report.OneLine(name), didYouMean(near), s.Tool, s.List())
		}
		if given[name] {
			return nil, report.Mistakef("%s is given twice.", name)
		}
		given[name] = true
		value = p.meant(value)
		if p.isUnset(value) && !slices.Contains(s.Required, name) {
			continue
		}
		if err := p.set(a, name, value); err != nil {
			return nil, err
		}
	}
	for _, name := range s.Required {
		if !given[name] {
			return nil, report.Mistakef("%s is missing. %s takes: %s.", name, s.Tool, s.List())
		}
	}
	return a, nil
}

// didYouMean returns the question about names that resemble a wrong one, with a blank before it.
func didYouMean(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return " Did you mean " + strings.Join(near, " or ") + "?"
}

// Nearest returns the known names that resemble name: they contain it, are contained in it, or
// differ in few letters.
func Nearest(name string, known []string) []string {
	const longest = 64 // a longer name is no typing error, and comparing it could take long
	if len(name) > longest {
		return nil
	}
	name = strings.ToLower(name)
	var near []string
	for _, k := range known {
		lower := strings.ToLower(k)
		if len(name) >= 3 && (strings.Contains(lower, name) || strings.Contains(name, lower)) || levenshtein.ComputeDistance(name, lower) <= len(k)/3 {
			near = append(near, k)
		}
	}
	return near
}

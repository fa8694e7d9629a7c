package arguments

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/pattern"
	"asyncrepl/jobs"
)

// Limits of arguments.
const (
	MaxText  = 45_000            // characters of a reply; clients put longer replies into a file
	MaxList  = 200               // jobs of a list
	maxNames = 1000              // the variables of one call
	maxKeys  = 1000              // the keys that one call sends
	maxSide  = 1000              // rows and columns of a terminal
	maxWait  = 110 * time.Second // some clients move a call of two minutes to the background
	// wait_for_jobs can wait longer: clients that move a call to the background announce its end.
	maxWaitForJobs = time.Hour
	maxSeconds     = 366 * 24 * 3600 // the longest timeout
	minQuiet       = 100 * time.Millisecond
)

// or returns the parameter with a value that means "not set". Clients that can't leave a parameter
// out must have such a value in its own type: OpenAI's strict mode lets a model give a number only a
// number, and an enum only one of its members. That value is 0 if 0 means nothing else. A blank
// can't be the member of an enum, because Gemini refuses the schema.
func (p *parameter) or(unset string) *parameter {
	p.unset = unset
	if enum, ok := p.schema["enum"].([]string); ok {
		p.schema["enum"] = append(slices.Clone(enum), unset)
	}
	return p
}

// with returns the parameter with one more member of its schema.
func (p *parameter) with(member string, value any) *parameter {
	p.schema[member] = value
	return p
}

// schemaOf returns the schema of a JSON type with a description for the model.
func schemaOf(typ, about string) map[string]any {
	s := map[string]any{"type": typ}
	if about != "" {
		s["description"] = about
	}
	return s
}

// valueTypes returns the schemas of a JSON value whose arrays are nested up to a depth. mcp-use 1.7.1
// converts a value to the first type that can hold it, so integer stands before number. It refuses
// what no schema names, and Gemini accepts no schema that refers to itself.
func valueTypes(depth int) []map[string]any {
	all := []map[string]any{{"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "object"}, {"type": "null"}}
	if depth > 0 {
		all = append(all, map[string]any{"type": "array", "items": map[string]any{"anyOf": valueTypes(depth - 1)}})
	}
	return all
}

// parameters returns every parameter by name, except wait_seconds: its default differs between tools,
// and [Signature.Wait] names it. [Signature.Schema] describes those whose default is a setting. A key
// TOOL.NAME is a parameter that means something else in that tool. The first call of a tool, or of
// tools/list, makes the table: an answer of initialize does not wait for it.
var parameters = sync.OnceValue(func() map[string]*parameter {
	return map[string]*parameter{
		"code":          text("", func(a *Args) *string { return &a.Code }, notEmpty),
		"command":       text("", func(a *Args) *string { return &a.Command }, notEmpty),
		"package":       text("numpy pandas==2.2, URLs, paths, -r file", func(a *Args) *string { return &a.Package }, notEmpty),
		"text":          text("", func(a *Args) *string { return &a.Text }, nil),
		"session":       text("", func(a *Args) *string { return &a.Session }, sessionName),
		"name":          text("", func(a *Args) *string { return &a.Name }, sessionName),
		"from_session":  text("copy its variables and settings", func(a *Args) *string { return &a.FromSession }, sessionName),
		"python":        text("path, or version such as 3.12", func(a *Args) *string { return &a.Python }, notEmpty),
		"venv":          text("own (in .venvs), or a directory", func(a *Args) *string { return &a.Venv }, notEmpty),
		"packages":      text("installed first: numpy pandas==2.2", func(a *Args) *string { return &a.Packages }, notEmpty),
		"job_id":        text("", func(a *Args) *string { return &a.JobID }, notEmpty),
		"from_job":      text("continue after it in a new session", func(a *Args) *string { return &a.FromJob }, notEmpty),
		"before":        text("jobs older than this id", func(a *Args) *string { return &a.Before }, notEmpty),
		"path":          text("starts in the workspace", func(a *Args) *string { return &a.Path }, notEmpty),
		"shell_session": text("carries cwd, variables, functions", func(a *Args) *string { return &a.ShellSession }, sessionName),
		"cwd":           text("default: the workspace", func(a *Args) *string { return &a.Cwd }, notEmpty),
		"on":            text("", func(a *Args) *string { return &a.On }, nil),

		"status": choice("", func(a *Args) *string { return &a.Status }, string(jobs.Queued), string(jobs.Running),
			string(jobs.WaitingInput), string(jobs.Completed), string(jobs.Failed), string(jobs.Cancelled)).or("any"),
		"until": choice("default any", func(a *Args) *string { return &a.Until }, untilAny, UntilAll),

		"view":    choice("default text; raw: bytes", func(a *Args) *string { return &a.View }, report.TextView, report.ScreenView, report.RawView),
		"format":  choice("default text", func(a *Args) *string { return &a.Format }, "text", "json", "image"),
		"pattern": text("such as df*", func(a *Args) *string { return &a.Pattern }, glob),

		"execute_python.path":  text("starts in the session's cwd", func(a *Args) *string { return &a.Path }, notEmpty),
		"get_variable.name":    text("an expression, such as df.head()", func(a *Args) *string { return &a.Name }, notEmpty),
		"inspect_object.name":  text("such as np.array", func(a *Args) *string { return &a.Name }, notEmpty),
		"set_variable.name":    text("", func(a *Args) *string { return &a.Name }, notEmpty),
		"complete_code.code":   text("", func(a *Args) *string { return &a.Code }, noNUL),
		"complete_code.cursor": integer("characters before it; default all", func(a *Args) **int64 { return &a.Cursor }, 0, 1<<53).or("0"),

		"search_job_output.pattern": text("RE2 for one line; (?i) ignores case", func(a *Args) *string { return &a.Pattern }, nil),
		"search_job_output.cursor":  integer("search from it on", func(a *Args) **int64 { return &a.Cursor }, 0, 1<<53),
		"context":                   integer("lines around each match, max 20", func(a *Args) **int64 { return &a.Context }, 0, 20),
		"max_matches":               integer("default 50, max 200", func(a *Args) **int64 { return &a.MaxMatches }, 1, MaxList).or("0"),

		"wait_for_jobs.pattern": text("RE2 of a line; existing output counts", func(a *Args) *string { return &a.Pattern }, nil),
		"stop_pattern":          text("ends as stopped; such as error:", func(a *Args) *string { return &a.StopPattern }, nil),
		"wait_for_jobs.cursor":  integer("match from it on; for one job", func(a *Args) **int64 { return &a.Cursor }, 0, 1<<53).or("0"),
		"show":                  boolean("the output too, of one job", func(a *Args) *bool { return &a.Show }),
		"quiet_seconds":         duration("silence; less than wait_seconds", func(a *Args) **time.Duration { return &a.Quiet }, minQuiet, maxWait, "").or("0"),

		"max_chars": integer("", func(a *Args) **int64 { return &a.MaxChars }, 1, MaxText).or("0"),
		"cursor":    integer("only what follows it", func(a *Args) **int64 { return &a.Cursor }, 0, 1<<53),
		// The engine knows the range of memory_mb.
		"memory_mb": integer("limit of each process", func(a *Args) **int64 { return &a.MemoryMB }, -beyond, beyond).or("0"),
		"limit":     integer("default 20", func(a *Args) **int64 { return &a.Limit }, 1, MaxList).or("0"),

		"timeout_seconds": duration("limit of the run time", func(a *Args) **time.Duration { return &a.Timeout }, 0, maxSeconds*time.Second, "").or("0"),

		"checkpoint":                       boolean("snapshot the variables after it", func(a *Args) *bool { return &a.Checkpoint }),
		"restart_python_worker.checkpoint": text("continue from: latest, or its job's id", func(a *Args) *string { return &a.FromCheckpoint }, notEmpty),

		"keep": boolean("outlive this client", func(a *Args) *bool { return &a.Keep }),

		"export_session.overwrite": boolean("replace an existing file", func(a *Args) **bool { return &a.Overwrite }),

		"all":    boolean("", func(a *Args) *bool { return &a.All }),
		"source": boolean("", func(a *Args) *bool { return &a.Source }),
		"eof":    boolean("then send end of file", func(a *Args) *bool { return &a.EOF }),
		"secret": boolean("never echoed or kept", func(a *Args) *bool { return &a.Secret }),
		"rerun":  boolean("for from_job: run what led to it again", func(a *Args) *bool { return &a.Rerun }),
		"force":  boolean("kill at once; Python loses its variables", func(a *Args) *bool { return &a.Force }),
		"paste":  boolean("send text as a paste", func(a *Args) *bool { return &a.Paste }),
		"keys":   list("such as q enter up ctrl-c f1", func(a *Args) *[]string { return &a.Keys }, maxKeys, "keys", nil),
		"size": newParameter(aSize, "resize to [rows, columns]", func(a *Args) *jobs.Size { return &a.Size }, readSize).
			with("items", schemaOf("integer", "")),
		"signal": newParameter(aString, "to the foreground processes", func(a *Args) *string { return &a.Signal }, readSignal).
			with("enum", signalNames).or("none"),
		"tty": boolean("default true; false: pipes", func(a *Args) **bool { return &a.TTY }),

		"filename":        text("another name of path", func(a *Args) *string { return &a.Filename }, notEmpty),
		"content":         text("", func(a *Args) *string { return &a.Content }, nil),
		"old":             text("", func(a *Args) *string { return &a.Old }, nil),
		"new":             text("", func(a *Args) *string { return &a.New }, nil),
		"recursive":       boolean("", func(a *Args) *bool { return &a.Recursive }),
		"tree":            boolean("", func(a *Args) *bool { return &a.Tree }),
		"binary_base64":   boolean("content is base64", func(a *Args) *bool { return &a.BinaryBase64 }),
		"include_files":   boolean("default true", func(a *Args) **bool { return &a.IncludeFiles }),
		"include_dirs":    boolean("default true", func(a *Args) **bool { return &a.IncludeDirs }),
		"overwrite":       boolean("default true", func(a *Args) **bool { return &a.Overwrite }),
		"max_depth":       integer("default 3", func(a *Args) **int64 { return &a.MaxDepth }, 1, 1<<53).or("0"),
		"max_bytes":       integer("", func(a *Args) **int64 { return &a.MaxBytes }, 1, 1<<53).or("0"),
		"offset":          integer("in bytes", func(a *Args) **int64 { return &a.Offset }, 0, 1<<53),
		"count":           integer("how often old may occur; default 1", func(a *Args) **int64 { return &a.Count }, 1, 1<<53).or("0"),
		"list_files.path": text("default: the workspace", func(a *Args) *string { return &a.Path }, noNUL),

		"env": newParameter(anEnv, "", func(a *Args) *map[string]string { return &a.Env }, readEnv).
			with("additionalProperties", schemaOf("string", "")),
		// A string that reads like a number would become one on its way, if the types were not named:
		// Claude Code decodes what has no type. OpenAI refuses arrays without items, Gemini a list of types
		// and a description beside anyOf.
		"value": {schema: map[string]any{"anyOf": slices.Concat(
			[]map[string]any{schemaOf("string", "any JSON value")}, valueTypes(3)[1:],
		)}, set: func(a *Args, name string, raw json.RawMessage) error {
			a.Value = raw
			return nil
		}},
		"names": list("", func(a *Args) *[]string { return &a.Names }, maxNames, "names", nil),
		"args": list("sys.argv[1:] of the file", func(a *Args) *[]string { return &a.Args }, 0, "", func(name string, all []string) error {
			return noNUL(name, strings.Join(all, ""))
		}),
		"job_ids": list("", func(a *Args) *[]string { return &a.JobIDs }, MaxList, "job ids", func(name string, all []string) error {
			if i := slices.IndexFunc(all, func(id string) bool { return strings.ContainsAny(strings.TrimSpace(id), ", \t\n") }); i >= 0 {
				return report.Mistakef("%s[%d] holds several ids: give each as an element of its own.", name, i)
			}
			return nil
		}),
	}
})

// The conditions that end a wait for several jobs.
const (
	untilAny = "any"
	UntilAll = "all"
)

// glob checks a pattern. A backslash would mean something else to Python than to Go.
func glob(name, s string) error {
	if _, err := path.Match(s, ""); err != nil || strings.Contains(s, `\`) {
		return report.Mistakef("%s must be names with *, ? and [a-z] in them, such as df*; %s is none.", name, report.OneLine(s))
	}
	return notEmpty(name, s)
}

func notEmpty(name, s string) error {
	if strings.TrimSpace(s) == "" {
		return report.Mistakef("%s is empty.", name)
	}
	return noNUL(name, s)
}

func noNUL(name, s string) error {
	if strings.ContainsRune(s, 0) {
		return report.Mistakef("%s may not hold NUL.", name)
	}
	return nil
}

// sessionNames matches valid names. It is compiled when a call first names a session.
var sessionNames = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func sessionName(name, s string) error {
	if !sessionNames().MatchString(s) {
		return report.Mistakef("%s must be 1 to 64 letters, digits, dots, dashes or underscores, beginning with a letter or digit.", name)
	}
	return nil
}

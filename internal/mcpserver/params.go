package mcpserver

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/jobs"
)

// A parameter is one argument that tools can take: its schema, and how it is read.
type parameter struct {
	schema map[string]any
	set    func(a *args, name string, raw json.RawMessage) error
}

// schemaOf returns the schema of a JSON type with a description for the model.
func schemaOf(typ, about string) map[string]any {
	s := map[string]any{"type": typ}
	if about != "" {
		s["description"] = about
	}
	return s
}

func text(about string, field func(*args) *string, check func(name, s string) error) *parameter {
	return &parameter{schemaOf("string", about), func(a *args, name string, raw json.RawMessage) (err error) {
		s, err := decodeString(name, raw)
		if err == nil && check != nil {
			err = check(name, s)
		}
		*field(a) = s
		return err
	}}
}

func choice(about string, field func(*args) *string, of ...string) *parameter {
	p := text(about, field, func(name, s string) error {
		if !slices.Contains(of, s) {
			return mistakef("%s must be one of: %s.", name, strings.Join(of, ", "))
		}
		return nil
	})
	p.schema["enum"] = of
	return p
}

func boolean(about string, field func(*args) *bool) *parameter {
	return &parameter{schemaOf("boolean", about), func(a *args, name string, raw json.RawMessage) (err error) {
		*field(a), err = decodeBool(name, raw)
		return err
	}}
}

func integer(about string, field func(*args) **int64, least, most int64) *parameter {
	return &parameter{schemaOf("integer", about), func(a *args, name string, raw json.RawMessage) (err error) {
		*field(a), err = decodeInt(name, raw, least, most)
		return err
	}}
}

func seconds(about string, field func(*args) **time.Duration, most time.Duration, remedy string) *parameter {
	return &parameter{schemaOf("number", about), func(a *args, name string, raw json.RawMessage) (err error) {
		*field(a), err = decodeSeconds(name, raw, most, remedy)
		return err
	}}
}

func waits(about string) *parameter {
	return seconds(about, func(a *args) **time.Duration { return &a.wait }, maxWait, "; call again to wait longer")
}

// parameters holds every parameter by name, except wait_seconds: its default differs between tools,
// and [tool.wait] holds it.
var parameters = map[string]*parameter{
	"code":    text("", func(a *args) *string { return &a.code }, notEmpty),
	"command": text("", func(a *args) *string { return &a.command }, notEmpty),
	"package": text("numpy pandas==2.2, URLs, paths, -r file", func(a *args) *string { return &a.packages }, notEmpty),
	"text":    text("", func(a *args) *string { return &a.text }, nil),
	"session": text("", func(a *args) *string { return &a.session }, sessionName),
	"job_id":  text("", func(a *args) *string { return &a.jobID }, notEmpty),
	"before":  text("jobs older than this id", func(a *args) *string { return &a.before }, notEmpty),
	"cwd":     text("default: the workspace", func(a *args) *string { return &a.cwd }, notEmpty),

	"status": choice("", func(a *args) *string { return &a.status }, string(jobs.Queued), string(jobs.Running),
		string(jobs.WaitingInput), string(jobs.Completed), string(jobs.Failed), string(jobs.Cancelled)),
	"until": choice("default any", func(a *args) *string { return &a.until }, untilAny, untilAll),

	"max_chars": integer("default 16000, at most 45000", func(a *args) **int64 { return &a.maxChars }, 0, maxText),
	"cursor":    integer("show only output after it", func(a *args) **int64 { return &a.cursor }, 0, 1<<53),
	"limit":     integer("default 20", func(a *args) **int64 { return &a.limit }, 1, maxList),

	"timeout_seconds": seconds("limit of the run time", func(a *args) **time.Duration { return &a.timeout }, maxSeconds*time.Second, ""),

	"eof":    boolean("then send end of file", func(a *args) *bool { return &a.eof }),
	"secret": boolean("never echoed or kept", func(a *args) *bool { return &a.secret }),
	"force":  boolean("kill immediately", func(a *args) *bool { return &a.force }),
	"tty": {schemaOf("boolean", "default true; false: pipes"), func(a *args, name string, raw json.RawMessage) error {
		on, err := decodeBool(name, raw)
		a.tty = &on
		return err
	}},

	"env": {map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
		func(a *args, name string, raw json.RawMessage) (err error) {
			a.env, err = decodeEnv(name, raw)
			return err
		}},
	"job_ids": {map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
		func(a *args, name string, raw json.RawMessage) (err error) {
			a.jobIDs, err = decodeStrings(name, raw)
			if err == nil && (len(a.jobIDs) == 0 || len(a.jobIDs) > maxList) {
				err = mistakef("%s must hold 1 to %d job ids.", name, maxList)
			}
			return err
		}},
}

// The conditions that end a wait for several jobs.
const (
	untilAny = "any"
	untilAll = "all"
)

func notEmpty(name, s string) error {
	if strings.TrimSpace(s) == "" {
		return mistakef("%s is empty.", name)
	}
	if strings.ContainsRune(s, 0) {
		return mistakef("%s may not hold NUL.", name)
	}
	return nil
}

// sessionNames matches valid names. It is compiled when a call first names a session.
var sessionNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
})

func sessionName(name, s string) error {
	if !sessionNames().MatchString(s) {
		return mistakef("%s must be 1 to 64 letters, digits, dots, dashes or underscores, beginning with a letter or digit.", name)
	}
	return nil
}

//go:build unix

package keyfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/text/pattern"
	"asyncrepl/jobs"
)

// An Engine is one at a place that a server has started or asked for. All that the server must not have
// forgotten after its death is here.
type Engine struct {
	Place      string       `json:"place"`
	Greeting   far.Greeting `json:"greeting,omitzero"`    // zero: it has not answered yet
	Allocation string       `json:"allocation,omitempty"` // its name at the scheduler; empty: the engine has no allocation yet, or needs none
	Job        string       `json:"job,omitempty"`        // the one job of the allocation; empty: the allocation is for a session
	Sessions   []Session    `json:"sessions,omitempty"`
	Jobs       []string     `json:"jobs,omitempty"` // those that run there, unless they have just begun
}

// A Session is one that lives at a place.
type Session struct {
	Kind jobs.Kind `json:"kind"` // jobs.Python or jobs.Shell
	Name string    `json:"name"`
}

// Bounds of the content of a file.
const (
	maxSize     = 4 << 20 // bytes
	maxText     = 256     // bytes of a text
	maxSessions = 1000    // sessions of one engine
)

// MaxJobs bounds the jobs of one engine.
const MaxJobs = 1000

// allocations are the names that schedulers give: 812, 812_3, 812+0, namespace/pod. None of them is an option.
var allocations = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9_.+:/-]{0,255}$`)

// check returns an error if a file can't hold an engine under a name.
func check(name string, e Engine) error {
	g := e.Greeting
	for _, text := range []string{name, e.Place, g.Version, g.Machine, g.Boot, g.Start} {
		if err := checkText(text); err != nil {
			return err
		}
	}
	if name == "" || e.Place == "" {
		return fmt.Errorf("the engine %q at the place %q needs a name and a place", name, e.Place)
	}
	if e.Allocation != "" && !allocations().MatchString(e.Allocation) {
		return fmt.Errorf("%q is not the name of an allocation", e.Allocation)
	}
	ids := e.Jobs
	if e.Job != "" {
		ids = append([]string{e.Job}, ids...)
	}
	for _, job := range ids {
		if id, err := ulid.ParseStrict(job); err != nil || id.String() != job {
			return fmt.Errorf("%q is not the id of a job", job)
		}
	}
	if len(e.Jobs) > MaxJobs {
		return fmt.Errorf("the engine %q has %d jobs, and %d is the limit", name, len(e.Jobs), MaxJobs)
	}
	if len(e.Sessions) > maxSessions {
		return fmt.Errorf("the engine %q has %d sessions, and %d is the limit", name, len(e.Sessions), maxSessions)
	}
	for _, s := range e.Sessions {
		if err := checkText(s.Name); err != nil {
			return err
		}
		if s.Name == "" || s.Kind != jobs.Python && s.Kind != jobs.Shell {
			return fmt.Errorf("the session %q is of the kind %q", s.Name, s.Kind)
		}
	}
	return nil
}

func checkText(text string) error {
	if len(text) > maxText || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("the text %.300q is longer than %d bytes, or has control characters", text, maxText)
	}
	return nil
}

// content is the JSON of a file.
type content struct {
	Format    int               `json:"format"`
	Key       string            `json:"key"`
	Locked    bool              `json:"locked"` // the server of the file holds the lock while it lives
	Workspace string            `json:"workspace"`
	Places    string            `json:"places"` // the path of the file of places
	Engines   map[string]Engine `json:"engines"`
}

// format is the version of the content. A file of another format is not read.
const format = 1

// keys matches the keys that New makes.
var keys = pattern.Lazy(`^[a-z2-7]{16}$`)

// decode decodes the content of the file of a key.
func decode(text []byte, key string) (c content, err error) {
	if err := json.Unmarshal(text, &c); err != nil {
		return c, err
	}
	if c.Format != format || c.Key != key {
		return c, errors.New("it is the file of another key, or of another format")
	}
	for name, e := range c.Engines {
		if err := check(name, e); err != nil {
			return c, err
		}
	}
	return c, nil
}

//go:build unix

package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/text/pattern"
)

// A Kind says what gets us into a place.
type Kind int

// The kinds of places.
const (
	SSH Kind = iota
	Exec
	Slurm
	Kubernetes
)

// kinds has the key in the file of each kind.
var kinds = [...]string{SSH: "ssh", Exec: "exec", Slurm: "slurm", Kubernetes: "kubernetes"}

// String returns the key by which the file names the kind.
func (k Kind) String() string { return kinds[k] }

// Allocates reports whether a scheduler gives each session and each job of such a place an allocation of its
// own.
func (k Kind) Allocates() bool { return k == Slurm || k == Kubernetes }

// A Place is one that the file names.
type Place struct {
	Name    string
	Kind    Kind
	SSH     []string // ssh's arguments, the destination last; nil: the programs of Slurm or Kubernetes run here
	Slurm   []string // options of sbatch
	Pod     []byte   // the content of PodFile
	PodFile string   // an absolute path
	Exec    []string // a program by its absolute path, and its first arguments

	Workspace string        // an absolute path there
	Setup     string        // shell lines before the start there
	Python    string        // the interpreter there; empty: the engine there finds one
	Binary    string        // our program for that system, by its absolute path here; empty: this program
	Keep      bool          // all its jobs are kept
	Linger    time.Duration // how long what is not kept continues without a server of ours
	Idle      time.Duration // how long an allocation can be unused before it goes back; 0 if the kind has no allocations
	Max       int           // the most allocations at once; 0 if the kind has none
}

// Read reads the file of places and returns them by name. A file in the workspace is refused, unless the
// workspace is empty. env is the environment whose PATH leads to programs. An error is one sentence that says
// what to do.
func Read(path, workspace string, env []string) ([]Place, error) {
	r := reader{path: filepath.Clean(path), workspace: workspace, env: env}
	places, err := r.read()
	if err != nil {
		return nil, fmt.Errorf("reading the places in %q: %w", path, err)
	}
	return places, nil
}

// A reader reads one file of places.
type reader struct {
	path, workspace string
	env             []string
}

func (r reader) read() ([]Place, error) {
	if !filepath.IsAbs(r.path) {
		return nil, errors.New("the path is relative: make it absolute")
	}
	text, err := load(r.path, r.workspace)
	if err != nil {
		return nil, err
	}
	if err := checkSyntax(text); err != nil {
		return nil, err
	}
	places := make(map[string]Place)
	err = members(text, "the file", func(name string, value json.RawMessage) error {
		if name != "places" {
			return fmt.Errorf("the file has an unknown key %q: it can have only \"places\"", name)
		}
		return members(value, `"places"`, func(name string, value json.RawMessage) error {
			places[name], err = r.place(name, value)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if len(places) == 0 {
		return nil, errors.New(`it names no place: add one, such as {"places": {"gpu": {"ssh": "me@host", "workspace": "/home/me/project"}}}, or leave -places and REPL_PLACES unset`)
	}
	return slices.SortedFunc(maps.Values(places), func(a, b Place) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// checkSyntax returns an error if a text is not JSON. It names the line.
func checkSyntax(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8: save it as UTF-8")
	}
	var all json.RawMessage
	err := json.Unmarshal(text, &all)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
		return fmt.Errorf("it is not JSON in line %d (%w): correct it there", line, syntax)
	}
	return err
}

// members calls f for the members of a JSON object, in their order. what names the object in errors. Package
// json would take the last of two members of one name.
func members(object json.RawMessage, what string, f func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return fmt.Errorf("%s is not an object: begin it with {", what)
	}
	seen := make(map[string]bool)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name := key.(string)
		if seen[name] {
			return fmt.Errorf("%s has %q twice: remove one", what, name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	return nil
}

// names are the names of sessions, too: the default session of a place has its name.
var names = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// place reads one place.
func (r reader) place(name string, object json.RawMessage) (Place, error) {
	p := Place{Name: name}
	what := fmt.Sprintf("the place %q", name)
	if !names().MatchString(name) {
		return p, fmt.Errorf("%s must have another name: 1 to 64 ASCII letters, digits, _, - and dots, the first a letter or a digit", what)
	}
	if name == "default" {
		return p, fmt.Errorf("%s must have another name: the default session here has this one", what)
	}
	set := make(map[string]bool)
	err := members(object, what, func(name string, value json.RawMessage) error {
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if i < 0 {
			return fmt.Errorf("%s has an unknown key %q: the keys are %s", what, name, keyNames())
		}
		set[name] = true
		if err := keys[i].set(r, &p, value); err != nil {
			return fmt.Errorf("%s: %q %w", what, name, err)
		}
		return nil
	})
	if err == nil {
		err = p.complete(set)
		if err != nil {
			err = fmt.Errorf("%s %w", what, err)
		}
	}
	return p, err
}

// complete checks which keys a place has together, and sets the defaults of those that it leaves out.
func (p *Place) complete(set map[string]bool) error {
	var given []string
	for kind, key := range kinds {
		if set[key] {
			p.Kind = Kind(kind) // the last one: ssh beside slurm and kubernetes says where their programs run
			given = append(given, key)
		}
	}
	if n := len(given); n > 1 && p.Kind.Allocates() && given[0] == "ssh" {
		given = given[1:]
	}
	switch {
	case len(given) == 0:
		return fmt.Errorf("has no kind: add one of %s", strings.Join(kinds[:], ", "))
	case len(given) > 1:
		return fmt.Errorf("has two kinds, %q and %q: keep one", given[0], given[1])
	case !set["workspace"]:
		return errors.New(`has no "workspace": add an absolute directory there`)
	}
	if p.Linger == 0 {
		p.Linger = 24 * time.Hour
	}
	if !p.Kind.Allocates() {
		for _, name := range []string{"idle", "max"} {
			if set[name] {
				return fmt.Errorf("has %q, which only places with \"slurm\" or \"kubernetes\" can have: remove it", name)
			}
		}
		return nil
	}
	if p.Idle == 0 {
		p.Idle = 10 * time.Minute
	}
	if p.Max == 0 {
		p.Max = 20
	}
	return nil
}

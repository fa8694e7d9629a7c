//go:build unix

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"asyncrepl/internal/process/child"
)

// A key is one row of the table by which places are read, and from which the docs are made.
type key struct {
	name     string
	fallback string // the default, for people
	about    string
	set      func(r reader, p *Place, value json.RawMessage) error // its error continues a sentence after the key's name
}

// keys are in the order in which people read them.
var keys = []key{
	{"ssh", "", "a destination, or ssh's arguments as a list that ends with it. Beside `slurm` or `kubernetes`, their programs run there",
		func(_ reader, p *Place, v json.RawMessage) (err error) { p.SSH, err = destination(v); return err }},
	{"slurm", "", "options of `sbatch`, as a list",
		func(_ reader, p *Place, v json.RawMessage) (err error) { p.Slurm, err = options(v); return err }},
	{"kubernetes", "", "the file of a Pod, relative to this file; the command of its first container is replaced",
		func(r reader, p *Place, v json.RawMessage) (err error) { p.Pod, p.PodFile, err = r.pod(v); return err }},
	{"exec", "", "a program and its arguments, as a list; it runs the command that is appended to them",
		func(r reader, p *Place, v json.RawMessage) (err error) { p.Exec, err = r.program(v); return err }},
	{"workspace", "", "an absolute directory there; it is made if it is missing",
		func(_ reader, p *Place, v json.RawMessage) (err error) { p.Workspace, err = directory(v); return err }},
	{"setup", "none", "shell lines before the start there",
		func(_ reader, p *Place, v json.RawMessage) (err error) { p.Setup, err = lines(v); return err }},
	{"python", "that of the virtual environment there", "the Python interpreter there",
		func(_ reader, p *Place, v json.RawMessage) (err error) { p.Python, err = interpreter(v); return err }},
	{"binary", "this program", "the file here, relative to this file, of our program for that system, if this one does not fit",
		func(r reader, p *Place, v json.RawMessage) (err error) { p.Binary, err = r.binary(v); return err }},
	{"keep", "false", "true: as if each call had `keep: true`",
		func(_ reader, p *Place, v json.RawMessage) error {
			if !decode(v, &p.Keep) {
				return errors.New("must be true or false")
			}
			return nil
		}},
	{"linger", "24h", "how long all that is not kept continues while no server of ours is connected",
		func(_ reader, p *Place, v json.RawMessage) (err error) { p.Linger, err = duration(v); return err }},
	{"idle", "10m", "with `slurm` and `kubernetes`: how long an allocation without job, process, variable, session of `create_session` or shell session lasts",
		func(_ reader, p *Place, v json.RawMessage) (err error) { p.Idle, err = duration(v); return err }},
	{"max", "20", "with `slurm` and `kubernetes`: the most allocations at once; one more is refused",
		func(_ reader, p *Place, v json.RawMessage) error {
			if !decode(v, &p.Max) || p.Max < 1 || p.Max > maxAllocations {
				return fmt.Errorf("must be a whole number from 1 to %d", maxAllocations)
			}
			return nil
		}},
}

// maxAllocations bounds the key max.
const maxAllocations = 1000

// decode decodes a value into a type that is not null, and reports whether it has that type.
func decode(value json.RawMessage, to any) bool {
	return string(value) != "null" && json.Unmarshal(value, to) == nil
}

// printable reports whether a text is not empty and can be an argument of a program: control characters are
// mistakes, and a zero byte would end it.
func printable(s string) bool { return s != "" && strings.IndexFunc(s, unicode.IsControl) < 0 }

// list decodes a list of arguments.
func list(value json.RawMessage) (list []string, ok bool) {
	if !decode(value, &list) {
		return nil, false
	}
	for _, s := range list {
		if !printable(s) {
			return nil, false
		}
	}
	return list, true
}

// destination decodes the arguments of ssh.
func destination(value json.RawMessage) ([]string, error) {
	var one string
	args, ok := list(value)
	if !ok && decode(value, &one) && printable(one) {
		args = []string{one}
	}
	if len(args) == 0 {
		return nil, errors.New(`must be a destination such as "me@host", or a list of ssh's arguments that ends with one`)
	}
	switch last := args[len(args)-1]; {
	case strings.HasPrefix(last, "-"):
		return nil, fmt.Errorf("has the destination %q, which ssh would take for an option: end it with a destination such as \"me@host\"", last)
	case strings.ContainsFunc(last, unicode.IsSpace):
		return nil, fmt.Errorf("has the destination %q with spaces: write ssh's arguments as a list that ends with the destination", last)
	}
	return args, nil
}

// options decodes the options of sbatch.
func options(value json.RawMessage) ([]string, error) {
	args, ok := list(value)
	if !ok {
		return nil, errors.New(`must be a list of sbatch's options, such as ["--partition=short"]; [] has none`)
	}
	return args, nil
}

// pod reads the file of a Pod.
func (r reader) pod(value json.RawMessage) (text []byte, file string, err error) {
	if file, err = r.beside(value, "the file of a Pod"); err != nil {
		return nil, "", err
	}
	if text, err = load(file, r.workspace); err == nil && len(text) == 0 {
		err = errors.New("it is empty: write a Pod there")
	}
	if err != nil {
		return nil, "", fmt.Errorf("names %q: %w", file, err)
	}
	return text, file, nil
}

// binary checks the file of a program.
func (r reader) binary(value json.RawMessage) (string, error) {
	file, err := r.beside(value, "the file here of async-repl for that system")
	if err != nil {
		return "", err
	}
	program, err := open(file, r.workspace)
	if err != nil {
		return "", fmt.Errorf("names %q: %w", file, err)
	}
	return file, program.Close()
}

// beside decodes the path of a file that is relative to the file of places.
func (r reader) beside(value json.RawMessage, what string) (string, error) {
	var file string
	if !decode(value, &file) || !printable(file) {
		return "", fmt.Errorf("must be the path of %s, absolute or relative to the file of places", what)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(r.path), file)
	}
	return filepath.Clean(file), nil
}

// program decodes a program with its arguments, and finds it.
func (r reader) program(value json.RawMessage) ([]string, error) {
	argv, ok := list(value)
	if !ok || len(argv) == 0 {
		return nil, errors.New(`must be a list of a program and its arguments, such as ["docker", "exec", "-i", "box"]`)
	}
	if !filepath.IsAbs(argv[0]) && strings.Contains(argv[0], "/") {
		return nil, fmt.Errorf("has the relative program %q: make its path absolute", argv[0])
	}
	found, err := child.LookPath(argv[0], r.env)
	if err != nil {
		return nil, fmt.Errorf("has the program %q, which is not on the PATH: install it, or write its absolute path", argv[0])
	}
	argv[0] = found
	return argv, nil
}

// directory decodes the path of a directory there.
func directory(value json.RawMessage) (string, error) {
	var dir string
	if !decode(value, &dir) || !printable(dir) || !path.IsAbs(dir) {
		return "", errors.New(`must be an absolute directory there, such as "/home/me/project"`)
	}
	return path.Clean(dir), nil
}

// lines decodes lines of a shell.
func lines(value json.RawMessage) (text string, err error) {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !decode(value, &text) || strings.ContainsFunc(text, control) {
		return "", errors.New(`must be shell lines in one string, without control characters, such as "module load cuda"`)
	}
	return text, nil
}

// interpreter decodes the path of an interpreter there.
func interpreter(value json.RawMessage) (name string, err error) {
	if !decode(value, &name) || !printable(name) {
		return "", errors.New(`must be a Python interpreter there, such as "/usr/bin/python3"`)
	}
	return name, nil
}

// duration decodes a time. Less than a second is a mistake: a link that is lost could not be replaced in that
// time.
func duration(value json.RawMessage) (time.Duration, error) {
	var text string
	if decode(value, &text) {
		if d, err := time.ParseDuration(text); err == nil && d >= time.Second {
			return d, nil
		}
	}
	return 0, errors.New(`must be a time of 1s or more in quotes, such as "90s", "10m" or "24h"`)
}

// keyNames returns the names of all keys, for people.
func keyNames() string {
	var all []string
	for _, k := range keys {
		all = append(all, k.name)
	}
	return strings.Join(all, ", ")
}

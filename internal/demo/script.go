//go:build unix

package demo

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"asyncrepl/internal/text/pattern"
)

// Session is the script of the demo.
//
//go:embed session.txt
var Session string

// A step is one feature that a script shows.
type step struct {
	title    string
	needs    string // a shell command; "": none
	lasts    bool   // an engine must outlive its client
	confined bool   // a sandbox must be able to start
	calls    []call
}

// A call is a call of a tool and the expected reply, as the script has them.
type call struct {
	as      string   // the client over HTTP; "": the one over stdio
	setting string   // of a server of its own for the step, such as REPL_SANDBOX=none; "": the usual one
	after   string   // what happens to the client over stdio before the call, killed or quits; "": nothing
	shown   string   // the page and its part that show it; "": none does
	lines   []string // the tool, then the arguments
	want    []string // nil: any reply
}

// What can happen to a client.
const (
	killed = "client is killed"
	quits  = "client quits"
)

// withPlaces is the setting of a server with a place, see newFar.
const withPlaces = "REPL_PLACES=places.json"

// parse returns the steps of a script.
func parse(script string) ([]step, error) {
	var steps []step
	var as, setting, after, shown string
	var section *[]string // the call or the reply that deeper lines belong to
	for n, line := range strings.Split(strings.TrimSpace(script), "\n") {
		if title, ok := strings.CutPrefix(line, "# "); ok {
			steps, as, setting, after, shown, section = append(steps, step{title: title}), "", "", "", "", nil
			continue
		}
		if steps == nil {
			return nil, fmt.Errorf("line %d: %q stands before the first step", n+1, line)
		}
		s := &steps[len(steps)-1]
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case word == ">":
			s.calls = append(s.calls, call{as: as, setting: setting, after: after, shown: shown, lines: []string{rest}})
			after, shown = "", ""
			section = &s.calls[len(s.calls)-1].lines
		case word == "<" && section != nil:
			section = &s.calls[len(s.calls)-1].want
			*section = append(*section, rest)
		case word == "as":
			as, section = rest, nil
		case line == killed || line == quits:
			after, section = line, nil
		case line == "engine":
			s.lasts = true
		case word == "sandbox":
			setting, s.confined, section = "REPL_SANDBOX="+rest, true, nil
		case line == "places":
			setting, section = withPlaces, nil
		case word == "show":
			shown, section = rest, nil
		case section != nil && word == "":
			*section = append(*section, strings.TrimPrefix(line, "  "))
		case word == "needs":
			s.needs = rest
		default:
			return nil, fmt.Errorf("line %d: %q is no line of a script", n+1, line)
		}
	}
	for _, s := range steps {
		for i := range s.calls {
			for _, section := range []*[]string{&s.calls[i].lines, &s.calls[i].want} {
				for len(*section) > 0 && (*section)[len(*section)-1] == "" { // space between steps
					*section = (*section)[:len(*section)-1]
				}
			}
		}
	}
	return steps, nil
}

// arguments returns the arguments that the lines below the name of a tool hold.
func arguments(lines []string) map[string]any {
	text := make(map[string]string)
	var name string
	for _, line := range lines {
		if more, ok := strings.CutPrefix(line, "  "); ok || line == "" {
			text[name] += "\n" + more
			continue
		}
		var value string
		name, value, _ = strings.Cut(line, ": ")
		text[name] = value
	}
	args := make(map[string]any)
	for name, value := range text {
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			v = value
		}
		args[name] = v
	}
	return args
}

// Ids map each job ID of the script to the ID that the server has given to the job in this run.
type ids map[string]string

var jobID = pattern.Lazy(`\b0[0-9A-Z]{25}\b`)

// in returns text with the job IDs of the run.
func (run ids) in(text string) string {
	return jobID().ReplaceAllStringFunc(text, func(name string) string {
		if known, ok := run[name]; ok {
			return known
		}
		return name
	})
}

// match returns an error unless reply is what the script wants. It adds the job IDs that the script
// names first here.
func (run ids) match(want []string, reply string) error {
	if want == nil {
		return nil
	}
	var got strings.Builder
	for line := range strings.Lines(reply) {
		got.WriteString(strings.TrimRight(line, " \t\r\n") + "\n")
	}
	text := strings.TrimRight(got.String(), "\n") + "\n"
	pattern, between := `\A`, `(?:.+\n)*?` // between matches other lines before the next one
	var named []string
	for _, line := range want {
		line = strings.TrimRight(line, " \t")
		switch line {
		case "…":
			pattern += `(?:.*\n)*?`
			continue
		case "":
			between, pattern = "", pattern+between
		}
		quoted := jobID().ReplaceAllStringFunc(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*?"), func(name string) string {
			if known, ok := run[name]; ok {
				return known
			}
			named = append(named, name)
			return "(" + jobID().String() + ")"
		})
		pattern += between + quoted + `\n`
		if !regexp.MustCompile(pattern).MatchString(text) {
			return fmt.Errorf("the reply does not have %q, or not there", line)
		}
	}
	found := regexp.MustCompile(pattern + between + `\z`).FindStringSubmatch(text)
	if found == nil {
		return errors.New("the reply has more than is expected")
	}
	for i, name := range named {
		if known, ok := run[name]; ok && known != found[i+1] {
			return fmt.Errorf("the reply names the jobs %s and %s, not one", known, found[i+1])
		}
		run[name] = found[i+1]
	}
	return nil
}

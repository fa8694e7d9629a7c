package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// The conversations in testdata/wire are sent and received word for word. Each is played against a
// server process of its own. The name of a section begins with an action; text after a colon is for
// the reader.
//
//	send           lines to the server
//	receive        all lines up to the last answer that is due
//	receive WHAT   all lines up to the answer to the call of that id, null for a line that had none;
//	               or up to the notification of that name
//	pass over      as receive, but not shown here
//	let NAME       in lines that are sent, NAME stands for this
//	env            variables that the server is started with
//	varies NAME    NAME stands for text that differs from machine to machine: the match of this
//	               regular expression after its first group
//
// Received lines are exact, except that names replace text that differs from run to run: ID1, ID2
// and so on for job ids, in the order in which they are first seen (in lines that are sent, these
// names stand for the ids), PID1, PID2 for pids, TIME for times, NUMBER for memory and disk,
// WORKSPACE, STATE for the directory of long output, VERSION. Repeated progress is shown once.
// After the end of the input no more lines must come, and the server must exit with status 0.
//
// With -update, the received lines replace those in the files.
func TestWire(t *testing.T) {
	notApart(t, "replies name it, too")
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			if testing.Short() && (strings.Contains(file, "packages") || strings.Contains(file, "progress")) {
				t.Skip("installs packages, or waits for progress")
			}
			newer := strings.Replace(file, "-2025", "-2026", 1)
			if testing.Short() && newer != file && slices.Contains(files, newer) {
				t.Skip("the same calls as in the newer protocol")
			}
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			newConversation(t, archive).play(archive)
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A conversation is one script being played.
type conversation struct {
	t     *testing.T
	s     *started
	lines *bufio.Reader
	due   []string          // ids of calls that must be answered
	lets  map[string]string // abbreviations
	names names
}

func newConversation(t *testing.T, script *txtar.Archive) *conversation {
	// An interpreter that is used as it is makes no environment.
	env := []string{"REPL_PYTHON=" + realPython()}
	var vary []variable
	for _, f := range script.Files {
		data := string(f.Data)
		if f.Name == "env" {
			env = append(env, strings.Fields(data)...)
		}
		if name, ok := strings.CutPrefix(f.Name, "varies "); ok {
			vary = append(vary, variable{regexp.MustCompile(strings.TrimSpace(data)), "${1}" + name})
		}
	}
	s := startProcess(t, env...)
	c := &conversation{t: t, s: s, lines: bufio.NewReader(s.out), lets: make(map[string]string)}
	c.names = names{fixed: []string{s.dir, "WORKSPACE", s.records(), "STATE", ownVersion(), "VERSION"}, vary: vary}
	return c
}

// play plays the script and records the received lines in it.
func (c *conversation) play(script *txtar.Archive) {
	c.t.Helper()
	for i, f := range script.Files {
		name, _, _ := strings.Cut(f.Name, ":")
		switch verb, arg, _ := strings.Cut(name, " "); verb {
		case "env", "varies":
		case "let":
			c.lets[arg] = strings.TrimSpace(string(f.Data))
		case "send":
			c.send(string(f.Data))
		case "pass":
			c.receive("")
		case "receive":
			got := c.receive(arg)
			if want := string(f.Data); got != want && !*update {
				c.t.Errorf("section %d, %s:\n%s\nwant:\n%s\nFrom the first difference on:\n%s", i+1, f.Name, got, want, got[commonPrefix(got, want):])
			}
			script.Files[i].Data = []byte(got)
		default:
			c.t.Fatalf("section %d: what is %q?", i+1, f.Name)
		}
	}
	c.s.stdin.Close()
	if rest := c.receive("the end"); rest != "" {
		c.t.Errorf("at the end came\n%s", rest)
	}
	if got := c.s.exit(); got != "exit status 0" {
		c.t.Errorf("the server: %s", got)
	}
}

func (c *conversation) send(text string) {
	c.t.Helper()
	for name, full := range c.lets {
		text = strings.ReplaceAll(text, name, full)
	}
	text = c.names.real(text)
	for line := range strings.Lines(text) {
		var m struct {
			ID, Result, Error json.RawMessage
			Method            string
			Params            struct{ RequestID json.RawMessage }
		}
		json.Unmarshal([]byte(line), &m) // an error leaves m as far as the line is a message
		switch {
		case m.Method == "notifications/cancelled": // never to be answered
			c.answered(string(m.Params.RequestID))
		case m.ID != nil && m.Result == nil && m.Error == nil:
			c.due = append(c.due, string(m.ID))
		}
	}
	if _, err := c.s.stdin.Write([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conversation) answered(id string) {
	c.due = slices.DeleteFunc(c.due, func(due string) bool { return due == id })
}

// receive returns the lines received up to the answer to a call, to all answers due (""), or to the
// end, with names in place of text that varies.
func (c *conversation) receive(until string) string {
	c.t.Helper()
	c.s.out.SetReadDeadline(time.Now().Add(patience))
	var got bytes.Buffer
	for until != "" || len(c.due) > 0 {
		line, err := c.lines.ReadBytes('\n')
		if until == "the end" && len(line) == 0 && err != nil {
			break
		}
		if err != nil {
			c.t.Fatalf("%v after\n%s%s\nthe log: %s", err, &got, line, c.s.log)
		}
		if plain := c.names.plain(string(line)); !bytes.HasSuffix(got.Bytes(), []byte(plain)) {
			got.WriteString(plain) // of repeated progress, only the first
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(line, &m); err != nil {
			c.t.Fatalf("%v: %s", err, line)
		}
		if m.Method != "" && m.Method == until {
			break
		}
		if m.Method != "" {
			continue
		}
		c.answered(string(m.ID))
		if string(m.ID) == until {
			break
		}
	}
	return got.String()
}

// commonPrefix returns the length of the longest common prefix of two texts.
func commonPrefix(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// names replace text that differs from run to run.
type names struct {
	fixed []string // old, new and so on
	vary  []variable
	jobs  []string
	pids  []string
}

// A variable is text that differs from machine to machine, as a script declares.
type variable struct {
	is   *regexp.Regexp
	name string // the replacement, with the first group
}

var (
	jobIDs   = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}`)
	pids     = regexp.MustCompile(`(pid |\\?"pid\\?": ?)(\d+)`)
	named    = regexp.MustCompile(`\bID\d+\b`)
	dates    = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	progress = regexp.MustCompile(`"message":"(\w+), [^"]*","progress":[0-9.e+-]+`)
	used     = regexp.MustCompile(`(\\"(?:elapsed_seconds|cpu_seconds|memory_bytes)\\":)[0-9.e+-]+`)
	// A job has this line only if it ran for 100 ms, which depends on the machine.
	filesLine = regexp.MustCompile(`\\nFiles: [^"]*?\(while it ran[^)]*\)`)
	// Measured times. A time that was asked for, as in a timeout, is a promise and stays.
	times = regexp.MustCompile(`(Elapsed: |Waited: |[a-z]+ default, |shell, |install, |no output for )(\d+h)?(\d+m)?\d+(\.\d+)?(m?s\b)`)
)

// plain replaces the varying text of a line by names.
func (n *names) plain(line string) string {
	line = strings.NewReplacer(n.fixed...).Replace(line)
	line = jobIDs.ReplaceAllStringFunc(line, func(id string) string { return nth(&n.jobs, "ID", id) })
	line = pids.ReplaceAllStringFunc(line, func(s string) string {
		part := pids.FindStringSubmatch(s)
		return part[1] + nth(&n.pids, "PID", part[2])
	})
	line = dates.ReplaceAllString(line, "TIME")
	line = progress.ReplaceAllString(line, `"message":"${1}, TIME","progress":NUMBER`)
	line = used.ReplaceAllString(line, "${1}NUMBER")
	line = times.ReplaceAllString(line, "${1}TIME")
	line = filesLine.ReplaceAllString(line, "")
	for _, v := range n.vary {
		line = v.is.ReplaceAllString(line, v.name)
	}
	return line
}

// real replaces the names of jobs in a line by their ids.
func (n *names) real(line string) string {
	return named.ReplaceAllStringFunc(line, func(name string) string {
		for i, id := range n.jobs {
			if name == fmt.Sprintf("ID%d", i+1) {
				return id
			}
		}
		return name
	})
}

// nth numbers values in the order in which they are first seen.
func nth(seen *[]string, prefix, what string) string {
	i := slices.Index(*seen, what)
	if i < 0 {
		i = len(*seen)
		*seen = append(*seen, what)
	}
	return fmt.Sprintf("%s%d", prefix, i+1)
}

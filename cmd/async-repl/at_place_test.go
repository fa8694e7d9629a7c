package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/test/must"
)

// With the transports place-exec, place-ssh, place-slurm and place-kubernetes, each call that starts something starts
// it at a place, and the tests and the texts that they expect stay the same. What stands between the client and the
// server adds on to these calls. It takes the line Place out of the replies, in which it must be, and calls the
// default session of the place by the name of the default session here.

// placeOfTests is the name of the place. It stands in no test.
const placeOfTests = "place-of-tests"

// carrier returns the kind of the place of the tests, or "" if their jobs run here.
func carrier() string {
	kind, _ := strings.CutPrefix(*transport, "place-")
	if kind == *transport {
		return ""
	}
	return kind
}

// here skips a test that can't have its jobs at a place.
func here(t testing.TB, why string) {
	t.Helper()
	if carrier() != "" {
		t.Skip("at a place: ", why)
	}
}

// inherited skips a test of what an engine has from the process that starts its server: limits, mounts, a user.
func inherited(t testing.TB) {
	t.Helper()
	if c := carrier(); c != "" && c != "exec" {
		t.Skip("at a place: its engine has nothing of this server's process")
	}
}

// allocated lets a call that is sent on wait for the allocation of its session.
const allocated = "REPL_GRACE=1m"

// carriers return the keys of a place by its kind, for one server.
var carriers = map[string]func(s *started) map[string]any{
	"exec": func(*started) map[string]any { return map[string]any{"exec": []string{"/usr/bin/env"}} },
}

// notAtPlace skips a test that can't hold at a place.
func notAtPlace(t testing.TB) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	for _, name := range []string{name, t.Name()} {
		why := notAtPlaces[name]
		if c := carrier(); c != "exec" && c != "ssh" {
			why = cmp.Or(why, notInAllocations[name])
		}
		if why != "" {
			t.Skip("at a place: ", why)
		}
	}
}

// moveToPlace gives the server, before it starts, a place, which has the workspace of the server.
func (s *started) moveToPlace() {
	s.t.Helper()
	state := cmp.Or(s.setting("REPL_STATE_DIR"), newState(s.t))
	variables := append(slices.Clone(s.cmd.Env), "XDG_STATE_HOME="+state+"-far", placeMark+"="+s.setting("REPL_STATE_DIR"))
	place := carriers[carrier()](s)
	place["workspace"] = s.workspace()
	if python := s.setting("REPL_PYTHON"); python != "" {
		place["python"] = python
	}
	// The environment of the server does not travel.
	var setup []string
	for _, kv := range variables {
		name, value, _ := strings.Cut(kv, "=")
		if exported.MatchString(name) && len(value) < 10_000 && utf8.ValidString(value) && !strings.HasPrefix(name, "REPL_") && !slices.Contains(os.Environ(), kv) {
			setup = append(setup, "export "+name+"="+carry.Quote(value))
		}
	}
	// The program is carried once for all tests.
	setup = append(setup, "XDG_CACHE_HOME="+carry.Quote(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "carried")))
	place["setup"] = strings.Join(setup, "\n")
	text := must.Get(json.Marshal(map[string]any{"places": map[string]any{placeOfTests: place}}))(s.t)
	file := filepath.Join(filepath.Dir(state), "places.json")
	if os.WriteFile(file, text, 0o644) != nil { // the state directory can't be made
		file = filepath.Join(filepath.Dir(newState(s.t)), "places.json")
		must.Do(s.t, os.WriteFile(file, text, 0o644))
	}
	s.cmd.Env = append(s.cmd.Env, "REPL_PLACES="+file)
}

// exported matches the names of variables that a shell can export.
var exported = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// placeMark is a variable by which the engines at the places of a server are known.
const placeMark = "ASYNC_REPL_TEST_PLACE"

// placed returns the engines at the places of the server.
func (s *started) placed() (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, err := os.ReadFile(path) // empty once it has ended
		if err != nil || !bytes.Contains(line, []byte("\x00"+placedCommand+"\x00")) {
			continue
		}
		env, err := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+placeMark+"="+s.setting("REPL_STATE_DIR")+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// placeLine is the line of a reply that names the place, with its allocation.
var placeLine = regexp.MustCompile(`(?m)^Place: ` + placeOfTests + `( \(.*\))?\n`)

// toPlace is what stands between a client and its server.
type toPlace struct {
	to   io.Writer
	from *bufio.Reader
	rest []byte // of the last line that came

	mu       sync.Mutex
	starting map[int]bool // the requests that start a job
}

// newToPlace returns the streams of a client whose jobs run at a place.
func newToPlace(from io.Reader, to io.Writer) *toPlace {
	return &toPlace{to: to, from: bufio.NewReader(from), starting: make(map[int]bool)}
}

// The tools that can name a place, and those that are about a session. The parameter by which a tool names the
// session is session, except for one tool.
var (
	startingTools = []string{"execute_python", "execute_command_async", "install_package_async"}
	sessionTools  = []string{
		"complete_code", "delete_variables", "execute_python", "export_session", "get_variable", "inspect_object",
		"install_package_async", "list_variables", "restart_python_worker", "set_variable", "check_python_status", "send_python_input",
	}
)

// Write passes on one message of the client.
func (p *toPlace) Write(line []byte) (int, error) {
	var m struct {
		ID     int
		Method string
		Params struct {
			Name      string
			Arguments map[string]any
		}
	}
	sent := line
	if err := json.Unmarshal(line, &m); err == nil && m.Method == "tools/call" {
		p.mu.Lock()
		p.starting[m.ID] = slices.Contains(startingTools, m.Params.Name)
		p.mu.Unlock()
		var whole map[string]any
		if err := unmarshalNumbers(line, &whole); err != nil {
			return 0, err
		}
		params := whole["params"].(map[string]any)
		args, _ := params["arguments"].(map[string]any)
		params["arguments"] = argumentsAt(m.Params.Name, args)
		changed, err := json.Marshal(whole)
		if err != nil {
			return 0, err
		}
		sent = append(changed, '\n')
	}
	_, err := p.to.Write(sent)
	return len(line), err
}

// unmarshalNumbers reads JSON and keeps the digits of its numbers.
func unmarshalNumbers(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

// argumentsAt returns the arguments of a call for the place.
func argumentsAt(tool string, args map[string]any) map[string]any {
	at := maps.Clone(args)
	if at == nil {
		at = make(map[string]any)
	}
	if _, given := at["on"]; !given && (slices.Contains(startingTools, tool) || tool == "create_session") {
		at["on"] = placeOfTests
	}
	for _, name := range []string{"session", "from_session"} {
		if at[name] == "default" {
			at[name] = placeOfTests
		}
	}
	_, named := at["session"]
	_, job := at["job_id"]
	_, from := at["from_job"]
	_, again := at["rerun"]
	if !named && !job && !from && !again && slices.Contains(sessionTools, tool) {
		at["session"] = placeOfTests
	}
	return at
}

// Read reads what the server has sent.
func (p *toPlace) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		line, err := p.from.ReadBytes('\n')
		if err != nil {
			return copy(to, line), err
		}
		p.rest = p.fromPlace(line)
	}
	n := copy(to, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// fromPlace returns an answer as it would be of a job here.
func (p *toPlace) fromPlace(line []byte) []byte {
	var whole map[string]any
	if err := unmarshalNumbers(line, &whole); err != nil {
		return line
	}
	number, _ := whole["id"].(json.Number)
	id, _ := strconv.Atoi(number.String())
	result, _ := whole["result"].(map[string]any)
	content, _ := result["content"].([]any)
	if len(content) == 0 {
		return line
	}
	p.mu.Lock()
	starting := p.starting[id]
	delete(p.starting, id)
	p.mu.Unlock()
	for _, part := range content {
		block, _ := part.(map[string]any)
		text, ok := block["text"].(string)
		if !ok {
			continue
		}
		const place = "Place: " + placeOfTests
		if head, _, _ := strings.Cut(text, "\n\n"); starting && result["isError"] != true && !strings.Contains(head+"\n", place) {
			text = fmt.Sprintf("The reply has no line %q:\n%s", place, text)
			result["isError"] = true
			starting = false
		}
		text = placeLine.ReplaceAllString(text, "")
		block["text"] = strings.ReplaceAll(text, placeOfTests, "default")
	}
	changed, err := json.Marshal(whole)
	if err != nil {
		return line
	}
	return append(changed, '\n')
}

// The reasons for which several tests can't hold at a place.
const (
	adopted    = "jobs there outlive the server, and the next one adopts them"
	listed     = "the list has a line for each place, not for what is there"
	ownDefault = "the default session of a place is made by its first job"
)

// notAtPlaces are the tests that can't hold at a place, and why.
var notAtPlaces = map[string]string{
	"TestKilledServerIsAccountedFor":                adopted,
	"TestServersThatAreKilledInOneCallEach":         adopted,
	"TestProcessesOfKilledServerAndGuard":           adopted,
	"TestCommandsReadTheRecords":                    adopted,
	"TestTerminalOfAKilledServerOnThePage":          adopted,
	"TestServerOfOneProcessKeepsNothing":            "a place keeps jobs also for a server of one process",
	"TestServerStatus":                              listed,
	"TestWorkspaceGoes":                             "the workspace of a place is made when a link opens",
	"TestListingStartsNothing":                      ownDefault,
	"TestExportHasWhatToolsAndFilesDid":             ownDefault,
	"TestPastJobs":                                  "the engine that had the variables and the code ends with its server",
	"TestProgramPipIsRemoved":                       "the directory of the state there has another name",
	"TestVariableIsSeenAsAnImage":                   "a call that is sent on brings text",
	"TestDoctorTriesASandbox":                       "places are refused in a sandbox",
	"TestConfinedNetwork":                           "places are refused in a sandbox",
	"TestConfinedJobs":                              "places are refused in a sandbox",
	"TestConfinedServerThatDoesNotStart":            "places are refused in a sandbox",
	"TestConfinedServerStartsAfterAFileHasVanished": "places are refused in a sandbox",
}

// notInAllocations are the tests that can't hold where each session and each shell job has an allocation, and so an
// engine, of its own, and why.
var notInAllocations = map[string]string{
	"TestQueuedJobsHoldNoPlace":  "the most jobs are those of each allocation",
	"TestPackagesOfASessionWait": "the most jobs are those of each allocation",
	"TestUnclaimed":              "no other job is in the allocation of an orphan",
}

//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"asyncrepl/internal/client/keeper"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/httpserver"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place/config"
)

// Settings are a person's choices at start, each by a flag or by an environment variable of the
// same meaning; the flag wins. A value that can't be used, or that asks for a feature that is not
// built, ends the start with an error that names the variable, the value and the allowed values: a
// sandbox must never be silently absent.
type settings struct {
	engine.Config // except Version, Guard, GuardEnv, Pip, Since and Log
	grace         time.Duration
	timeout       time.Duration // 0: none
	toolsets      []string      // nil: the default ones
	maxChars      int           // the default of max_chars; 0: the usual one
	noImages      bool
	logLevel      slog.Level

	// What becomes of the engine when its client is gone.
	keeps         bool // the engine is a process of its own, which outlives its client
	linger        time.Duration
	lingerGoodbye time.Duration

	places    string         // the file of places; "": there are none
	placeList []config.Place // what it says

	sandbox sandboxSettings
	inside  *inside // nil: this process is in no sandbox of ours

	// How clients connect.
	transport  string // "stdio", "http", or "" if the other settings decide
	host, port string
	listen     string // the address of the HTTP server; "": MCP uses standard input and output
	access     accessSettings
	publicURL  string
	origins    []string
	metrics    string // the address of the metrics; "": they are not served
	accessLog  string // a file; "": none

	page   string // "on": HTTP serves the page; "off": no person's page shows the jobs; "": async-repl page does
	pageAt string // what serves the page, for agents; "": nothing
}

// A setting is one row of the table that flags, variables, help text and docs/settings.md are
// made from.
type setting struct {
	env, flag string
	fallback  string // the meaning of an empty value, for people
	about     string
	set       func(s *settings, value string) error // the error is the list of allowed values
}

var table = []setting{
	{"REPL_WORKDIR", "workdir", "CLAUDE_PROJECT_DIR, else the current directory", "the workspace: where jobs start and relative paths begin; also `-workspace`, `-workspace-dir`",
		func(s *settings, v string) error { return setPath(&s.Workspace, v) }},
	{"REPL_PYTHON", "python", "that of the virtual environment", "the Python interpreter, used as is (3.9 or newer)",
		func(s *settings, v string) error { s.Python = v; return nil }},
	{"REPL_VENV_DIR", "venv-dir", "VIRTUAL_ENV, CONDA_PREFIX, else .venv in the workspace", "the virtual environment, made on first use",
		func(s *settings, v string) error { return setPath(&s.VenvDir, v) }},
	{"REPL_SHELL", "shell", "bash, else sh", "the shell that runs commands, with -c",
		func(s *settings, v string) error { s.Shell = v; return nil }},
	{"REPL_STATE_DIR", "state-dir", "XDG_STATE_HOME/async-repl", "the directory for records of jobs and long output",
		func(s *settings, v string) error { return setPath(&s.StateDir, v) }},
	{"REPL_GRACE", "grace", "2s", "how long execute and send calls wait for the job to end",
		func(s *settings, v string) error { return setDuration(&s.grace, v, time.Millisecond, 110*time.Second) }},
	{"REPL_TIMEOUT", "timeout", "0 (none)", "the time limit of jobs that set none, also at the cost of Python's variables; only running time counts",
		func(s *settings, v string) error { return setDuration(&s.timeout, v, 0, math.MaxInt64) }},
	{"REPL_MAX_JOBS", "max-jobs", "1000", "the most jobs running at once; others wait",
		func(s *settings, v string) error { return setCount(&s.MaxJobs, v) }},
	{"REPL_MAX_SESSIONS", "max-sessions", "50", "the most Python sessions at once",
		func(s *settings, v string) error { return setCount(&s.MaxSessions, v) }},
	{"REPL_MEMORY_MB", "memory-mb", "0 (no limit)", "the most memory of each process of a Python session, in MiB",
		func(s *settings, v string) error { return setMemory(&s.MemoryMB, v) }},
	{"REPL_SESSION_TTL", "session-ttl", "0 (never); over HTTP 2h", "how long a Python session can be idle before it is ended; a bare number is minutes",
		func(s *settings, v string) error { return setTTL(&s.SessionTTL, v) }},
	{"REPL_MAX_OUTPUT", "max-output", "1GiB", "the most output kept of each job: half from its start, half from its end",
		func(s *settings, v string) error { return setSize(&s.MaxOutput, v) }},
	{"REPL_MAX_STATE", "max-state", "10GiB", "the most output kept on disk, of all jobs; jobs that ended first lose theirs first; a tenth is for earlier servers' jobs",
		func(s *settings, v string) error { return setSize(&s.MaxState, v) }},
	{"REPL_HISTORY", "history", "1", "1 records the jobs, so that later servers in the workspace can show them: the first line of code and commands, output; 0 records nothing",
		func(s *settings, v string) error {
			history := false
			err := setSwitch(&history, v)
			s.NoHistory = !history
			return err
		}},
	{"REPL_TOOLSETS", "toolsets", "core,sessions", "the groups of tools that clients are offered: core, sessions, namespace, files, or all",
		func(s *settings, v string) (err error) { s.toolsets, err = server.ParseToolsets(v); return err }},
	{"REPL_MAX_CHARS", "max-chars", "16000", "the most characters of a reply whose call doesn't set max_chars, for clients that cut long ones",
		func(s *settings, v string) error { return setChars(&s.maxChars, v) }},
	{"REPL_IMAGES", "images", "on", "on, or off for clients that give a model images as text: replies then only name them",
		func(s *settings, v string) error { return setImages(&s.noImages, v) }},
	{"REPL_LOG_LEVEL", "log-level", "warn", "the least level logged to stderr: debug, info, warn or error",
		func(s *settings, v string) error {
			if err := s.logLevel.UnmarshalText([]byte(v)); err != nil {
				return errors.New("debug, info, warn or error")
			}
			return nil
		}},

	{"REPL_KEEPER", "keeper", "on; off on macOS", "on: jobs are in a process of their own, which outlives a client that was lost; off: the server is one process",
		func(s *settings, v string) error { return setKeeper(&s.keeps, v) }},
	{"REPL_LINGER", "linger", "2m; 0 if CI is set", "how long jobs and variables wait for the next client after one was lost",
		func(s *settings, v string) error { return setDuration(&s.linger, v, 0, math.MaxInt64) }},
	{"REPL_LINGER_GOODBYE", "linger-goodbye", "0", "the same after a client has quit",
		func(s *settings, v string) error { return setDuration(&s.lingerGoodbye, v, 0, math.MaxInt64) }},

	{"REPL_TRANSPORT", "transport", "stdio, or http with `serve` or an address", "how clients connect: stdio, or http for many",
		func(s *settings, v string) error { return setTransport(&s.transport, v) }},
	{"REPL_LISTEN", "listen", "127.0.0.1:8000", "where HTTP is served: HOST:PORT or unix:PATH",
		func(s *settings, v string) error { s.listen = v; return nil }},
	{"REPL_HOST", "host", "127.0.0.1", "the HOST of that address",
		func(s *settings, v string) error { s.host = v; return nil }},
	{"REPL_PORT", "port", "8000", "the PORT of that address",
		func(s *settings, v string) error { return setPort(&s.port, v) }},
	{"REPL_TOKENS", "tokens", "none", "the file of the tokens that clients need, and of their tenants",
		func(s *settings, v string) error { return setPath(&s.access.tokens, v) }},
	{"REPL_TRUSTED_TENANTS", "trusted-tenants", "false", "allow several tenants, although their jobs run as one system user",
		func(s *settings, v string) error { return setSwitch(&s.access.trusted, v) }},
	{"REPL_TLS_CERT", "tls-cert", "none", "the certificate for TLS, with those that it was signed by, in PEM",
		func(s *settings, v string) error { return setPath(&s.access.cert, v) }},
	{"REPL_TLS_KEY", "tls-key", "none", "the key of that certificate, in PEM",
		func(s *settings, v string) error { return setPath(&s.access.key, v) }},
	{"REPL_BEHIND_PROXY", "behind-proxy", "false", "allow other machines to connect without TLS, because a proxy before the server does it",
		func(s *settings, v string) error { return setSwitch(&s.access.proxy, v) }},

	{"REPL_PUBLIC_URL", "public-url", "the address", "the URL by which clients reach the server through a proxy",
		func(s *settings, v string) (err error) { s.publicURL, err = httpserver.ParseURL(v); return err }},
	{"REPL_ORIGIN", "origin", "none", "the origins of web pages elsewhere that may call, such as https://a.example,https://b.example",
		func(s *settings, v string) (err error) { s.origins, err = httpserver.ParseOrigins(v); return err }},
	{"REPL_METRICS", "metrics", "none", "where metrics are served for Prometheus, at /metrics: HOST:PORT or unix:PATH",
		func(s *settings, v string) error { s.metrics = v; return nil }},
	{"REPL_ACCESS_LOG", "access-log", "none", "the file to which each request over HTTP adds a line of JSON",
		func(s *settings, v string) error { return setPath(&s.accessLog, v) }},

	{"REPL_PAGE", "page", "off over HTTP; `async-repl page` shows all", "on: HTTP serves the page, to watch and answer jobs, at / of its address; off: `async-repl page` does not show them either",
		func(s *settings, v string) error { return setPage(&s.page, v) }},

	{"REPL_PLACES", "places", "none", "the file of other machines at which jobs can run",
		func(s *settings, v string) error { return setPath(&s.places, v) }},

	{"REPL_SANDBOX", "sandbox", "none", "none, or workspace: everything that jobs do is confined",
		func(s *settings, v string) error { return setSandbox(&s.sandbox, v) }},
	{"REPL_SANDBOX_READ", "sandbox-read", "none", "more paths that a sandbox reads, with : between",
		func(s *settings, v string) error { return setPaths(&s.sandbox.Read, v) }},
	{"REPL_SANDBOX_WRITE", "sandbox-write", "none", "more paths that a sandbox writes, with : between",
		func(s *settings, v string) error { return setPaths(&s.sandbox.Write, v) }},
	{"REPL_SANDBOX_NET", "sandbox-net", "none", "what a sandbox reaches: none, all, or a list of HOST[:PORT], *.HOST and packages, with commas",
		func(s *settings, v string) error { return setNetwork(&s.sandbox, v) }},
	{"REPL_SANDBOX_ENV", "sandbox-env", "none", "names of variables that a sandbox gets although they look like secrets, with commas",
		func(s *settings, v string) error { return setNames(&s.sandbox.Pass, v) }},
}

// otherNames are flags of the same meaning as one of the table, as other servers name them.
var otherNames = map[string][]string{"workdir": {"workspace", "workspace-dir"}}

func setSwitch(to *bool, v string) error {
	switch v {
	case "true", "1":
		*to = true
	case "false", "0":
		*to = false
	default:
		return errors.New("true or false")
	}
	return nil
}

func setImages(no *bool, v string) error {
	if v != "on" && v != "off" {
		return errors.New("on or off")
	}
	*no = v == "off"
	return nil
}

func setPage(to *string, v string) error {
	switch v {
	case "on", "true", "1":
		*to = "on"
	case "off", "false", "0":
		*to = "off"
	default:
		return errors.New("on or off")
	}
	return nil
}

func setKeeper(keeps *bool, v string) error {
	switch {
	case v == "off":
		*keeps = false
	case v != "on":
		return errors.New("on or off")
	case keeper.Available() != nil:
		return fmt.Errorf("only off: %v", keeper.Available())
	default:
		*keeps = true
	}
	return nil
}

func setPath(to *string, v string) error {
	if !filepath.IsAbs(v) {
		return errors.New("an absolute path")
	}
	*to = filepath.Clean(v)
	return nil
}

func setDuration(to *time.Duration, v string, least, most time.Duration) error {
	if secs, err := strconv.ParseFloat(v, 64); err == nil {
		v = strconv.FormatFloat(secs, 'f', -1, 64) + "s"
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < least || d > most {
		what := fmt.Sprintf("a time like 2s, 1.5m or a number of seconds, %v or more", least)
		if most < math.MaxInt64 {
			what += fmt.Sprintf(", %v at most", most)
		}
		return errors.New(what)
	}
	*to = d
	return nil
}

// setTTL reads a time of which a bare number is minutes.
func setTTL(to *time.Duration, v string) error {
	if _, err := strconv.ParseFloat(v, 64); err == nil {
		v += "m"
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return errors.New("a number of minutes, or a time like 90s or 2h; 0 means never")
	}
	*to = d
	return nil
}

func setCount(to *int, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return errors.New("a whole number, 1 or more")
	}
	*to = n
	return nil
}

// leastChars leaves room for output beside the lines about a job, also in a search.
const leastChars = 2000

func setChars(to *int, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < leastChars || n > server.MostChars {
		return fmt.Errorf("a whole number from %d to %d", leastChars, server.MostChars)
	}
	*to = n
	return nil
}

func setMemory(to *int, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n != 0 && (n < engine.LeastMemoryMB || n > engine.MostMemoryMB) {
		return fmt.Errorf("0, or a whole number from %d to %d", engine.LeastMemoryMB, engine.MostMemoryMB)
	}
	*to = n
	return nil
}

func setSize(to *int64, v string) error {
	number, unit := v, int64(1)
	for suffix, size := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(v, suffix); ok {
			number, unit = rest, size
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 4096/unit || n < 1 || n > math.MaxInt64/unit {
		return errors.New("a size of at least 4096 bytes, like 65536, 64KiB, 16MiB or 1GiB")
	}
	*to = n * unit
	return nil
}

// parseSettings reads the flags and the environment, of the subcommand serve or of none. Its error
// is flag.ErrHelp if the flags ask for help.
func parseSettings(args []string, getenv func(string) string, cwd string, serve bool) (settings, error) {
	s := settings{
		Config: engine.Config{
			Workspace: cwd, StateDir: defaultStateDir(getenv), SessionTTL: unset,
			MaxJobs: 1000, MaxSessions: 50, MaxOutput: 1 << 30, MaxState: 10 << 30,
		},
		grace: engine.DefaultGrace, logLevel: slog.LevelWarn, keeps: keeper.Available() == nil, linger: 2 * time.Minute,
	}
	if getenv("CI") != "" { // no client comes back, and the machine should be left as it was
		s.linger = 0
	}
	if dir := getenv("CLAUDE_PROJECT_DIR"); filepath.IsAbs(dir) {
		s.Workspace = dir
	}
	flags := flag.NewFlagSet("async-repl", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error is one line; no usage text follows
	given := make(map[string]*givenFlag)
	for _, row := range table {
		if row.flag != "" {
			given[row.flag] = &givenFlag{isSwitch: row.fallback == "false" || row.flag == "page"}
			for _, name := range append(otherNames[row.flag], row.flag) {
				flags.Var(given[row.flag], name, row.about)
			}
		}
	}
	if err := flags.Parse(args); err != nil {
		return s, fmt.Errorf("%w: see async-repl help", err)
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unknown command %q: see async-repl help", flags.Arg(0))
	}
	// Another setting of a sandbox confines nothing without REPL_SANDBOX.
	chosen, widens := false, ""
	for _, row := range table {
		name, value := row.env, getenv(row.env)
		if v := given[row.flag]; v != nil && v.text != "" {
			name, value = "-"+row.flag, v.text
		}
		if value == "" {
			continue
		}
		if err := row.set(&s, value); err != nil {
			return s, fmt.Errorf("%s=%q can't be used; allowed: %w", name, value, err)
		}
		if row.flag == "sandbox" {
			chosen = true
		} else if strings.HasPrefix(row.flag, "sandbox-") {
			widens = fmt.Sprintf("%s=%q", name, value)
		}
	}
	if widens != "" && !chosen {
		return s, fmt.Errorf("%s is for a sandbox, and there is none: set REPL_SANDBOX to workspace, or to none if nothing is to be confined", widens)
	}
	return s, s.chooseTransport(serve)
}

// A givenFlag is the value of a flag as it was given, or "". A switch needs none: that means true.
type givenFlag struct {
	text     string
	isSwitch bool
}

func (g *givenFlag) String() string     { return g.text }
func (g *givenFlag) Set(v string) error { g.text = v; return nil }
func (g *givenFlag) IsBoolFlag() bool   { return g.isSwitch }

// defaultStateDir returns the directory for records and long output if no setting names one, or "" if there is
// no home directory.
func defaultStateDir(getenv func(string) string) string {
	base := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "async-repl")
}

// findShell returns the absolute path of the shell that runs commands. SHELL is a person's choice
// of a shell to type at, and is not consulted.
func findShell(chosen string) (string, error) {
	names := []string{"bash", "/bin/bash", "sh", "/bin/sh"}
	if chosen != "" {
		names = []string{chosen}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	if chosen != "" {
		return "", fmt.Errorf("REPL_SHELL=%q can't be used; allowed: the path or name of a program that runs a command line given with -c", chosen)
	}
	return "", errors.New("there is neither bash nor sh, on PATH or in /bin: set REPL_SHELL to a shell")
}

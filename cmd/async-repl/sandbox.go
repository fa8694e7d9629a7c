//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/sandbox"
)

// sandboxSettings say how what a server runs is confined. They are part of the identity of an engine, which is
// made from their JSON.
type sandboxSettings struct {
	On          bool
	Read, Write []string // absolute paths
	Network     bool     // jobs have the network of the machine
	Hosts       []sandbox.Host
	Pass        []string // the names of variables that jobs get although they look like secrets
}

// outerCommand is the subcommand of the process that starts a sandbox and stays outside, and innerCommand
// that of the engine in it. Only the server uses them, so help does not name them.
const (
	outerCommand = "outer"
	innerCommand = "inner"
)

// mostSummary is the number of bytes that a summary has at most.
const mostSummary = 120

// summary says in one line what a sandbox allows that writes to these paths.
func (s sandboxSettings) summary(writes []string) string {
	network := "none"
	switch {
	case s.Network:
		network = "all"
	case len(s.Hosts) == 1:
		network = "one host"
	case s.Hosts != nil:
		network = fmt.Sprintf("%d hosts", len(s.Hosts))
	}
	more := 0
	for {
		text := "workspace; writes " + strings.Join(append(slices.Clip(writes), "/tmp"), ", ")
		if more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		text += "; home hidden; network " + network
		if len(text) <= mostSummary || len(writes) == 0 {
			return text
		}
		writes = writes[:len(writes)-1]
		more++
	}
}

// innerSettings are the settings of an engine in a sandbox. It reads no others: flags and variables
// can be about what only the process outside has.
type innerSettings struct {
	Config                engine.Config // settings.complete sets the rest
	Grace, Timeout        time.Duration
	Toolsets              []string
	MaxChars              int
	NoImages              bool
	LogLevel              slog.Level
	Linger, LingerGoodbye time.Duration
	Page, PageAt          string
}

// innerSettings returns the settings of an engine in a sandbox with this state directory.
func (s *settings) innerSettings(state string) json.RawMessage {
	c := engineSettings(s.Config)
	c.StateDir = state
	return rawjson.Of(innerSettings{c, s.grace, s.timeout, s.toolsets, s.maxChars, s.noImages, s.logLevel, s.linger, s.lingerGoodbye, s.page, s.pageAt})
}

// ofOuter returns the settings that the process outside the sandbox has sent.
func ofOuter(text json.RawMessage) (s settings, err error) {
	var in innerSettings
	if err := json.Unmarshal(text, &in); err != nil {
		return s, err
	}
	s = settings{
		Config: in.Config, grace: in.Grace, timeout: in.Timeout, toolsets: in.Toolsets, maxChars: in.MaxChars, noImages: in.NoImages,
		logLevel: in.LogLevel, linger: in.Linger, lingerGoodbye: in.LingerGoodbye, page: in.Page, pageAt: in.PageAt,
	}
	return s, s.complete()
}

// environ returns the environment that an engine gets of this process.
func (s *settings) environ() []string {
	if !s.sandbox.On {
		return s.GuardEnv
	}
	kept, _ := sandbox.Environment(s.GuardEnv, s.sandbox.Pass)
	return kept
}

func setSandbox(to *sandboxSettings, v string) error {
	switch v {
	case "none", "false":
		to.On = false
	case "workspace":
		to.On = true
	default:
		return errors.New("none, false or workspace")
	}
	return nil
}

func setPaths(to *[]string, v string) error {
	var paths []string
	for path := range strings.SplitSeq(v, ":") {
		if !filepath.IsAbs(path) {
			return errors.New("absolute paths with : between; a link can stand for one that has : in its name")
		}
		paths = append(paths, path)
	}
	*to = paths
	return nil
}

func setNetwork(to *sandboxSettings, v string) (err error) {
	to.Network, to.Hosts = v == "all", nil
	if v != "none" && v != "all" {
		if to.Hosts, err = sandbox.ParseHosts(v); err != nil {
			return fmt.Errorf("none, all, or a list with commas, in which %w", err)
		}
	}
	return nil
}

func setNames(to *[]string, v string) error {
	var names []string
	for name := range strings.SplitSeq(v, ",") {
		name = strings.TrimSpace(name)
		if name == "" || strings.ContainsAny(name, "=* \t\n") {
			return errors.New("names of variables with commas between")
		}
		names = append(names, name)
	}
	*to = names
	return nil
}

// sandboxHelp is the help text of the command sandbox, before the settings.
const sandboxHelp = `async-repl sandbox check [flags]: try the sandbox, and say what holds and what to do.

It starts a program in the sandbox that a server with these settings would have.
A line begins with ok, with note for what you should know, or with fails. The
exit status is 0 if all holds, 1 if something does not or the sandbox can't start,
and 2 if a flag or a variable can't be used.

Settings, by flag or environment variable, as the server has them:

`

// trySandbox tries each promise of the sandbox.
func trySandbox(ctx context.Context, args []string, std standardStreams) int {
	var set settings
	var err error
	switch {
	case len(args) == 0:
		err = errors.New("write async-repl sandbox check, with the flags of the server: see async-repl sandbox -h")
	case args[0] == "check":
		set, err = settingsToTry(args[1:])
	default: // -h, or a flag that must follow the word
		if _, err = settingsToTry(args); !errors.Is(err, flag.ErrHelp) {
			err = fmt.Errorf("%q is not check: see async-repl sandbox -h", args[0])
		}
	}
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(std.out, sandboxHelp)
		for _, row := range table {
			if row.flag != "sandbox" && strings.HasPrefix(row.flag, "sandbox") || slices.Contains([]string{"workdir", "python", "venv-dir", "shell", "state-dir"}, row.flag) {
				fmt.Fprint(std.out, row.line())
			}
		}
		return 0
	}
	if err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return 2
	}
	if err := set.probe(ctx, std.out); err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return 1
	}
	return 0
}

// settingsToTry returns the settings of a server with these flags. REPL_SANDBOX does not count, because a
// server that has it can fail to start.
func settingsToTry(args []string) (settings, error) {
	cwd, _ := os.Getwd() // an error: the workspace "" is not absolute
	getenv := func(name string) string {
		if name == "REPL_SANDBOX" {
			return "none"
		}
		return os.Getenv(name)
	}
	return parseSettings(args, getenv, cwd, false)
}

// errProbe is the error of a probe that has said itself what does not hold.
var errProbe = errors.New("the sandbox does not hold what it promises")

// canConfine returns why no server that a client starts here can be confined.
func canConfine(ctx context.Context) error {
	set, err := settingsToTry(nil)
	if err != nil {
		return err
	}
	if err = set.probe(ctx, io.Discard); errors.Is(err, errProbe) {
		return fmt.Errorf("%w: async-repl sandbox check says what fails", err)
	}
	return err
}

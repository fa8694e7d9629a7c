//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place"
	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// placesHelp is the help text of the command places, before the settings.
const placesHelp = `async-repl places check [NAME] [flags]: try each step of a job at each place, or at
one: reach it, bring async-repl there, start it, run Python, see a prompt that waits.
async-repl places clean NAME [flags]: remove what was brought to a place.

A line begins with ok, with note for what you should know, or with fails. With Slurm
and Kubernetes, check asks for an allocation and gives it back. The exit status is 0
if all is well, 1 if not, and 2 if a flag, a variable or the file can't be used.

Settings, by flag or environment variable, as the server has them:

`

// tryPlaces tries the places of the file, or cleans one.
func tryPlaces(ctx context.Context, args []string, std standardStreams) int {
	word, name, set, err := placesToTry(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(std.out, placesHelp)
		for _, row := range table {
			if slices.Contains([]string{"places", "workdir"}, row.flag) {
				fmt.Fprint(std.out, row.line())
			}
		}
		return 0
	}
	if err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return 2
	}
	ctx, release := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer release() // an allocation is given back before the end
	status := 0
	for _, conf := range set.placeList {
		if name != "" && conf.Name != name {
			continue
		}
		t := &placeTrial{set: set, conf: conf, out: std.out}
		if word == "check" {
			t.check(ctx)
		} else {
			t.clean(ctx)
		}
		if t.failed {
			status = 1
		}
	}
	return status
}

// placesToTry reads the arguments, the settings and the file of places.
func placesToTry(args []string) (word, name string, set *settings, err error) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		word, args = args[0], args[1:]
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	if last := len(args) - 1; last > 0 && name == "" && !strings.HasPrefix(args[last], "-") {
		if before := args[last-1]; !strings.HasPrefix(before, "-") || strings.Contains(before, "=") { // else it is the value of a flag
			name, args = args[last], args[:last]
		}
	}
	cwd, _ := os.Getwd() // an error: the workspace "" is not absolute
	s, err := parseSettings(args, os.Getenv, cwd, false)
	switch {
	case err != nil:
		return "", "", nil, err
	case word != "check" && word != "clean":
		return "", "", nil, fmt.Errorf("%q is neither check nor clean: see async-repl places -h", word)
	case word == "clean" && name == "":
		return "", "", nil, errors.New("name the place to clean: async-repl places clean NAME")
	case s.places == "":
		return "", "", nil, errors.New("there is no file of places: name it by -places or REPL_PLACES")
	}
	if err := s.readPlaces(); err != nil {
		return "", "", nil, err
	}
	var names []string
	for _, conf := range s.placeList {
		names = append(names, conf.Name)
	}
	if name != "" && !slices.Contains(names, name) {
		return "", "", nil, fmt.Errorf("there is no place %q: the places are %s", name, strings.Join(names, ", "))
	}
	return word, name, &s, nil
}

// A placeTrial tries one place, or cleans it.
type placeTrial struct {
	set    *settings
	conf   config.Place
	out    io.Writer
	failed bool

	allocated bool // the scheduler has given an allocation, or it waits for one
}

// say prints a line about a step.
func (t *placeTrial) say(word, step, text string) {
	t.failed = t.failed || word == "fails"
	fmt.Fprintf(t.out, "%-5s  %s: %s: %s\n", word, t.conf.Name, step, text)
}

// The limits of the steps that a place could take for ever.
const (
	pythonTime   = time.Minute      // bounds the wait for the first job of Python
	evidenceTime = 10 * time.Second // bounds the wait for the prompt
	strayTime    = time.Minute      // the engine ends by itself after this time if this process is killed
)

// check tries each step until one fails. The engine has a key of its own, and ends with the trial.
func (t *placeTrial) check(ctx context.Context) {
	conf := t.conf
	conf.Keep, conf.Linger = false, min(conf.Linger, strayTime)
	if conf.Kind.Allocates() {
		conf.Idle = min(conf.Idle, strayTime)
		t.say("note", "allocation", "one is asked for, and given back at the end; Ctrl-C gives it back at once")
	}
	var warnings bytes.Buffer // its writer is a handler, which writes one line at a time
	registry := jobs.NewRegistry(jobs.Config{})
	ps, err := place.New(place.Config{
		Places: []config.Place{conf}, Jobs: registry, Key: strings.ToLower(rand.Text()[:16]), Version: ownVersion(), Env: os.Environ(),
		Log:    slog.New(slog.NewTextHandler(&warnings, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Limits: far.Settings{MaxJobs: 10, MaxSessions: 10, MaxOutput: 1 << 20, MaxState: 16 << 20, NoHistory: true},
	})
	if err != nil { // readPlaces has made the same
		t.say("fails", "file", err.Error())
		return
	}
	g, reached := t.reach(ctx, ps)
	if reached {
		t.python(ctx, registry, ps)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ps.Close(limited)
	registry.Close(jobs.Stop{By: jobs.Shutdown})
	if reached && !conf.Kind.Allocates() {
		err = ps.Gone(limited, conf.Name, g)
	}
	switch {
	case warnings.Len() > 0:
		t.say("fails", "end", view.Line(warnings.String(), trialChars))
	case err != nil:
		t.say("fails", "end", fmt.Sprintf("the engine there is not seen to end: %s; it ends by itself in %v", view.Line(err.Error(), trialChars), strayTime))
	case t.allocated:
		t.say("ok", "end", "the allocation was given back")
	case reached:
		t.say("ok", "end", "the engine there has ended; the program and the workspace stay")
	}
}

// trialChars bounds what a place says in a line of a trial, in characters.
const trialChars = 1000

// reach tries what is needed until an engine answers.
func (t *placeTrial) reach(ctx context.Context, ps *place.Places) (far.Greeting, bool) {
	queued := func(why string) {
		t.allocated = true
		t.say("note", "allocation", why)
	}
	g, where, err := ps.Reach(ctx, t.conf.Name, t.conf.Name, queued)
	failed, _ := errors.AsType[*carry.Error](err)
	command, _ := errors.AsType[*allocation.Error](err)
	if t.conf.Kind.Allocates() && (err == nil || failed != nil) {
		t.allocated = true
		t.say("ok", "allocation", where)
	}
	steps := [...]string{carry.Reach: "reach", carry.Workspace: "workspace", carry.Carry: "carry", carry.Start: "start"}
	setup := failed != nil && strings.HasPrefix(failed.Text, "setup: ") // it runs before the program is brought
	switch {
	case setup:
		t.say("ok", "reach", "done")
		t.say("ok", "workspace", "done")
		t.say("fails", "start", failed.Text+"; "+failed.Cure)
	case failed != nil:
		for _, step := range steps[:failed.Step] {
			t.say("ok", step, "done")
		}
		t.say("fails", steps[failed.Step], failed.Text+"; "+failed.Cure)
	case command != nil && !command.Reached:
		t.say("fails", "reach", view.Line(err.Error(), trialChars)+"; see what ssh says when run by hand")
	case ctx.Err() != nil:
		t.say("fails", "reach", "it was interrupted")
	case err != nil && t.conf.Kind.Allocates():
		t.say("fails", "allocation", view.Line(err.Error(), trialChars)+"; correct the options in the file of places, or wait until the scheduler answers")
	case err != nil:
		t.say("fails", "reach", view.Line(err.Error(), trialChars))
	default:
		t.say("ok", "reach", fmt.Sprintf("the machine %q", g.Machine))
		t.say("ok", "workspace", view.Line(t.conf.Workspace, trialChars))
		t.say("ok", "carry", "async-repl "+g.Version)
		t.say("ok", "start", "the engine has answered")
	}
	return g, err == nil
}

// prompts is Python that says its version. Then a child of it waits for a line.
const prompts = `import subprocess, sys
print(sys.version.split()[0], "at", sys.executable, flush=True)
subprocess.run(["/bin/sh", "-c", "read answer"])
`

// python runs a job in Python, and answers its prompt.
func (t *placeTrial) python(ctx context.Context, registry *jobs.Registry, ps *place.Places) {
	spec := jobs.Spec{Kind: jobs.Python, Session: t.conf.Name, Place: t.conf.Name, Code: prompts}
	arguments := rawjson.Of(map[string]string{"code": prompts, "session": t.conf.Name})
	run, err := ps.Runner(t.conf.Name, server.Start{Tool: "execute_python", Arguments: arguments, Kind: jobs.Python, Session: t.conf.Name})
	var j *jobs.Job
	if err == nil {
		j, err = registry.Start(spec, run)
	}
	if err != nil {
		t.say("fails", "Python", view.Line(err.Error(), trialChars))
		return
	}
	r := await(ctx, j, pythonTime, func(jobs.Record) bool { return strings.Contains(outputOf(j), "\n") })
	version, _, answered := strings.Cut(outputOf(j), "\n")
	if !answered || r.Status == jobs.Failed {
		t.say("fails", "Python", t.why(r)+`; name the interpreter there in "python", or install python3 there`)
		return
	}
	t.say("ok", "Python", view.Line(version, trialChars))
	r = await(ctx, j, evidenceTime, func(r jobs.Record) bool { return r.Status == jobs.WaitingInput })
	if r.Status != jobs.WaitingInput {
		t.say("fails", "evidence", "a program that waits for input is not seen to wait, so a job that asks is shown as running; let processes there see each other in /proc")
		return
	}
	if _, err := j.Send(ctx, jobs.Input{Line: true}); err != nil {
		t.say("fails", "evidence", "the prompt takes no answer: "+view.Line(err.Error(), trialChars))
		return
	}
	if r = await(ctx, j, evidenceTime, func(jobs.Record) bool { return false }); r.Status != jobs.Completed {
		t.say("fails", "evidence", "the job has had its answer, and does not end: "+t.why(r))
		return
	}
	t.say("ok", "evidence", "a prompt that waits is seen, and takes an answer")
}

// clean removes what was brought to the place.
func (t *placeTrial) clean(ctx context.Context) {
	ps, err := place.New(place.Config{Places: []config.Place{t.conf}, Key: "clean", Env: os.Environ()})
	if err != nil { // readPlaces has made the same
		t.say("fails", "file", err.Error())
		return
	}
	swept, err := ps.Clean(ctx, t.conf.Name)
	for _, path := range swept.Gone {
		t.say("ok", "removed", path)
	}
	for _, path := range swept.Used {
		t.say("note", "kept", path+", which an engine there uses")
	}
	for _, why := range swept.Stuck {
		t.say("fails", "clean", why)
	}
	switch {
	case errors.Is(err, place.ErrNothingToClean):
		t.say("note", "clean", err.Error())
	case err != nil:
		t.say("fails", "clean", view.Line(err.Error(), trialChars))
	case len(swept.Gone)+len(swept.Used)+len(swept.Stuck) == 0:
		t.say("ok", "clean", "nothing was there")
	}
}

// await waits until the job has ended or f holds of its record, for limit at most, and returns the last record.
func await(ctx context.Context, j *jobs.Job, limit time.Duration, f func(jobs.Record) bool) jobs.Record {
	late := time.After(limit)
	for {
		changed := j.Changed()
		r := j.Record()
		if r.Status.Final() || f(r) {
			return r
		}
		select {
		case <-changed:
		case <-late:
			return r
		case <-ctx.Done():
			return r
		}
	}
}

// outputOf returns the begin of what a job has printed.
func outputOf(j *jobs.Job) string {
	var b strings.Builder
	_, chunk := j.Read(0, trialChars)
	for _, span := range chunk.Spans {
		b.Write(span.Data)
	}
	return b.String()
}

// why says how far a job has come, and what it has printed last.
func (t *placeTrial) why(r jobs.Record) string {
	text := report.StatusText(r)
	if !r.Status.Final() {
		text = "no answer, the job is " + text
	}
	return view.Line(text, trialChars)
}

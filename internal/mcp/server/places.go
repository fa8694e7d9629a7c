package server

// This file decides whether a call does its work here or at a place, and does what is done there. A
// session lives in one place: the call that makes it can name the place by on, and later calls for the
// session go there by themselves.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// Places are other machines at which jobs run. The methods are safe for concurrent use, and only Call and
// Find wait for a place. Texts can be from other machines: they are escaped and shortened here.
type Places interface {
	// Names returns the names of the places in order. They are names of sessions, too: the default session
	// of a place has its name.
	Names() []string
	// Keeps reports whether all jobs at a place are kept, as if each call said so.
	Keeps(place string) bool
	// Of returns the place at which a session of Python lives or, if kind is Shell, a shell session. It
	// returns "" if the session is here or nowhere.
	Of(kind jobs.Kind, session string) string
	// Left returns the place at which a session was, if it is nowhere now and no call has deleted it: its
	// engine has ended, or could not be started. Otherwise it returns "".
	Left(kind jobs.Kind, session string) string
	// Runner returns the runner of a job that mirrors one at a place. A session that lives nowhere lives
	// there from then on. The error says why there can be no such job; if another call has just made the
	// session elsewhere, that is why.
	Runner(place string, s Start) (jobs.Runner, error)
	// Call calls a tool at a place and returns its reply. The error is for a reply that has not come before
	// ctx was done, or could not: it says whether the tool may have done its work.
	Call(ctx context.Context, place, tool string, args json.RawMessage) (text string, isError bool, err error)
	// List returns the state of the places as it is known now, in the order of their names.
	List(ctx context.Context) []overview.Place
	// Find asks the connected places for the job with an id that is unknown here. It returns the mirror of
	// that job, or nil if no place has it.
	Find(ctx context.Context, id string) *jobs.Job
}

// A Start is what starts a job at a place, see [StartAs].
type Start struct {
	Tool      string
	Arguments json.RawMessage // of the tool, with the session's name and without on, keep and wait_seconds
	Kind      jobs.Kind
	Session   string // empty: a shell job without a session
	From      string // the session that a new one continues with; empty: none
	Keep      bool
	MadeAgain func() // called if the engine that had the session is gone, so that the job makes it again; nil: no caller asks
}

// onMax bounds the names of places in the description of a parameter, in characters.
const onMax = 30

// placeNames returns the names of the places in a few words, and "" if there are none.
func (c *Config) placeNames() string {
	if c.Places == nil {
		return ""
	}
	return view.Line(strings.Join(c.Places.Names(), ", "), onMax)
}

// listPlaces returns the state of the places, if there are any.
func (c *conn) listPlaces(ctx context.Context) []overview.Place {
	if c.Places == nil {
		return nil
	}
	return c.Places.List(ctx)
}

// idLength is the length of a complete id of a job.
const idLength = 26

// orAdopted returns what a search for a job has returned, unless the id is unknown here and a place has
// the job: an engine there can have outlived the server that started it.
func (c *conn) orAdopted(ctx context.Context, id string, j *jobs.Job, err error) (*jobs.Job, error) {
	id = strings.ToUpper(strings.TrimSpace(id))
	if _, unknown := errors.AsType[*jobs.NotFoundError](err); !unknown || c.Places == nil || len(id) != idLength {
		return j, err
	}
	limited, cancel := context.WithTimeout(ctx, c.scope.GraceTime())
	defer cancel()
	if adopted := c.Places.Find(limited, id); adopted != nil {
		return adopted, nil
	}
	return j, err
}

// do runs a tool where the job or the session of the call is.
func (c *call) do(ctx context.Context, t *tool, given json.RawMessage) (*report.Reply, error) {
	if c.Places == nil || t.at == here {
		return t.call(c, ctx)
	}
	err := c.locate(ctx, t)
	if err != nil {
		return nil, err
	}
	if c.place == "" {
		return t.call(c, ctx)
	}
	c.there = c.argumentsThere(t, given)
	if t.at == sentOn {
		return c.sendOn(ctx, t)
	}
	c.args.Keep = c.args.Keep || c.Places.Keeps(c.place)
	return t.call(c, ctx)
}

// locate sets the place of the call, and the name of its session there.
func (c *call) locate(ctx context.Context, t *tool) error {
	a, places := c.args, c.Places.Names()
	if a.On != "" && !slices.Contains(places, a.On) {
		return report.Mistakef("There is no place %.64q. The places are: %s. Leave on out to run it here.", a.On, nameList(places))
	}
	kind, session := jobs.Python, &a.Session
	switch t.name {
	case "execute_command_async":
		kind, session = jobs.Shell, &a.ShellSession
	case "create_session":
		session = &a.Name
	}
	from, err := c.continued(ctx)
	if err != nil {
		return err
	}
	place, bound := a.On, a.On != ""
	if from != nil {
		if bound && from.place != place {
			return report.Mistakef("%s is %s, not at %q: leave on out.", from.what, whereIs(from.place), place)
		}
		place, bound, c.from = from.place, true, from.session
	}
	name := *session
	switch {
	case name != "":
	case kind == jobs.Shell, a.FromJob != "" && place == "":
		c.place = place // no session, or one whose name is chosen later
		return nil
	case a.FromJob != "":
		name = c.freeName(from.session)
		c.chosen = name
	case place != "":
		name = place
	default:
		name = c.session()
	}
	remedy := "take another session."
	if a.On != "" {
		remedy = "leave on out, or " + remedy
	}
	lives := c.Places.Of(kind, name)
	if lives == "" && kind == jobs.Python && slices.Contains(t.optional, "on") && slices.Contains(places, name) && !c.livesHere(kind, name) {
		lives = name // the default session of that place, which the call can make
	}
	switch {
	case lives != "" && bound && lives != place:
		return report.Mistakef("Session %q lives at %q: %s", name, lives, remedy)
	case lives != "":
		place = lives
	case place != "" && c.livesHere(kind, name):
		return report.Mistakef("Session %q lives here, not at %q: %s", name, place, remedy)
	case place == "" && t.name != "create_session" && slices.Contains(t.optional, "on"):
		// What was meant for the place must not run here, in another directory and on other files.
		if left := c.Places.Left(kind, name); left != "" && !c.livesHere(kind, name) {
			return report.Mistakef("Session %q was at %q and is not there now: give on=%q to make it there, or take another session.", name, left, left)
		}
	}
	if c.place = place; place != "" {
		*session = name
	}
	return nil
}

// A continued is a job or a session whose state the call continues with.
type continued struct{ what, session, place string }

// continued returns what the call continues with, or nil. It is nil, too, for a session that does not
// exist.
func (c *call) continued(ctx context.Context) (*continued, error) {
	if c.args.FromJob != "" {
		j, err := c.find(ctx, c.args.FromJob)
		if err != nil {
			return nil, err
		}
		record := j.Record()
		return &continued{"Job " + record.ID, record.Session, record.Place}, nil
	}
	name := c.args.FromSession
	if name == "" {
		return nil, nil
	}
	place := c.Places.Of(jobs.Python, name)
	if place == "" && !c.livesHere(jobs.Python, name) {
		return nil, nil
	}
	return &continued{fmt.Sprintf("Session %q", name), name, place}, nil
}

// whereIs returns a place in words.
func whereIs(place string) string {
	if place == "" {
		return "here"
	}
	return fmt.Sprintf("at %q", place)
}

// livesHere reports whether a session is here. The session of calls that name none always is.
func (c *call) livesHere(kind jobs.Kind, name string) bool {
	if kind == jobs.Shell {
		return slices.ContainsFunc(c.Backend.Status(c.scope).Shells, func(s overview.Shell) bool { return s.Name == name })
	}
	_, err := c.Backend.Session(name)
	return c.absent(err) == nil
}

// freeName returns a name after that of another session, which no session has.
func (c *call) freeName(after string) string {
	for n := 2; ; n++ {
		name := fmt.Sprintf("%.60s-%d", after, n)
		if c.Places.Of(jobs.Python, name) == "" && !c.livesHere(jobs.Python, name) {
			return name
		}
	}
}

// argumentsThere returns the arguments of the call for its place. Paths, the environment and the limit of
// the run time are the call's; how long to wait and how much to show is decided here.
func (c *call) argumentsThere(t *tool, given json.RawMessage) json.RawMessage {
	there := make(map[string]json.RawMessage)
	for name, value := range rawjson.Members(given) {
		there[name] = value
	}
	leftOut := []string{"on"}
	if t.at == mirrored {
		leftOut = append(leftOut, "keep", "wait_seconds", "max_chars")
	}
	for _, name := range leftOut {
		delete(there, name)
	}
	takes := slices.Concat(t.required, t.optional)
	if slices.Contains(takes, "session") {
		there["session"] = rawjson.Of(c.args.Session)
	}
	if t.at == sentOn && slices.Contains(takes, "max_chars") {
		there["max_chars"] = rawjson.Of(c.window(0).MaxChars)
	}
	return rawjson.Of(there)
}

// mirror starts a job at the call's place, and the job here that mirrors it.
func (c *call) mirror(ctx context.Context, tool string, spec jobs.Spec) (*report.Reply, error) {
	made := spec.Kind != jobs.Shell && c.Places.Of(jobs.Python, spec.Session) == ""
	run, err := c.Places.Runner(c.place, Start{Tool: tool, Arguments: c.there, Kind: spec.Kind, Session: spec.Session, From: c.from, Keep: c.args.Keep, MadeAgain: func() { c.again.Store(spec.Kind != jobs.Shell) }})
	if err != nil {
		return nil, report.Mistakef("%s", bounded(err.Error(), errorChars))
	}
	spec.Place = c.place
	c.made = made
	return c.execute(ctx, spec, run)
}

// errorChars bounds the text of an error about a place, in characters.
const errorChars = 2000

// sendOn has the place of the call run the tool, and returns its reply below a line of ours.
func (c *call) sendOn(ctx context.Context, t *tool) (*report.Reply, error) {
	// A later call must not overtake this one, nor wait for a place out of reach.
	slow := time.AfterFunc(deliverTime, c.ticket.Pass)
	defer slow.Stop()
	defer c.progress.Start(ctx, 0, func() delivery.Note { return delivery.Note{Line: "asking " + c.place} })()
	limited, cancel := context.WithTimeout(ctx, c.scope.GraceTime())
	defer cancel()
	text, refused, err := c.Places.Call(limited, c.place, t.name, c.there)
	if err != nil {
		return nil, report.Mistakef("%s", bounded(err.Error(), errorChars))
	}
	r := &report.Reply{}
	r.Line("Place", c.place)
	r.Body(bounded(text, c.window(0).MaxChars))
	if refused {
		return nil, report.Mistakef("%s", r)
	}
	if t.name == "create_session" {
		c.followInstall(limited, text)
	}
	return r, nil
}

// followInstall makes the install that a place has begun for a new session a job here, because the first jobs of the
// session wait for it. The reply from there names it.
func (c *call) followInstall(ctx context.Context, reply string) {
	_, id, _ := strings.Cut(reply, "\nInstalling: job ")
	id, _, _ = strings.Cut(id, ";")
	if j, err := c.job(ctx, id); err == nil && j.Record().Place == c.place {
		c.changes.Changed()
		c.notices.Watch(j)
		c.notices.Shows(j.Record())
	}
}

// bounded returns a text from outside in room characters, with escaped control characters. It keeps
// newlines and tabs.
func bounded(text string, room int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for i, cell := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			if i > 0 {
				b.WriteByte('\t')
				room--
			}
			if room <= 0 {
				return b.String() + "…"
			}
			cell = view.Line(cell, room)
			room -= utf8.RuneCountInString(cell)
			b.WriteString(cell)
		}
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
			room--
		}
	}
	return b.String()
}

// StartAs runs a tool that starts a job, whose id another engine has chosen. It returns once the job is
// started. The error is a *[jobs.TakenError], or has the text in which the tool refuses the call.
func StartAs(ctx context.Context, shared Config, sc engine.Scope, id, tool string, args json.RawMessage, keep bool) error {
	c := newConn(shared, sc)
	t := c.tool(tool)
	if t == nil || t.at != mirrored {
		return fmt.Errorf("%.64q is no tool that starts jobs", tool)
	}
	a, err := t.signature().Decode(args)
	if err != nil {
		return err
	}
	a.ExpandHome(sc.Home)
	a.Keep = keep
	_, err = t.call(&call{conn: c, args: a, as: id, ticket: delivery.TicketOf(nil), notices: c.Notices.Call()}, ctx)
	if taken, ok := errors.AsType[*jobs.TakenError](err); ok {
		return taken
	}
	if err != nil {
		return errors.New(c.refusal(err).String())
	}
	return nil
}

// A passing is the ticket of a call that another engine has sent on.
type passing struct {
	delivery.Ticket
	pass func()
}

// Pass implements delivery.Ticket.
func (p passing) Pass() { p.pass() }

// CallTool calls a tool for another engine, and returns the text of its reply. It calls begun, at least once, when the
// call has taken effect.
func CallTool(ctx context.Context, shared Config, sc engine.Scope, tool string, args json.RawMessage, begun func()) (text string, isError bool) {
	c := newConn(shared, sc)
	t := c.tool(tool)
	if t == nil {
		return fmt.Sprintf("There is no tool %.64q.", tool), true
	}
	req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: tool, Arguments: args}}
	res := c.run(ctx, t, req, passing{delivery.TicketOf(nil), begun})
	return res.Content[0].(*mcp.TextContent).Text, res.IsError
}

//go:build unix

package people

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/resource"
	"asyncrepl/internal/text/pattern"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A host is a server that a command is connected to: an engine's, or the one over the records.
type host struct {
	sockets.Welcome // zero: the records
	mcp             *client.Client
	conn            io.Closer
	what            string // its name in errors
	place           string // the directory of its socket
	name            sockets.Name
	patience        time.Duration // how long a command waits for an answer
}

// recordsTime bounds an answer of the server over the records. This process reads them, so nothing but a busy
// machine or a slow disk can hold the answer up.
const recordsTime = 15 * time.Second

// A fleet is the engines of a user.
type fleet struct {
	config  *Config
	engines []*host
	silent  []error // why others could not be asked
	records *host   // nil: not connected to, or there are none
}

// reach connects to all engines at once. It takes no longer than the slowest of them may,
// HelloTime.
func (c *Config) reach(ctx context.Context) *fleet {
	f := &fleet{config: c}
	ctx, cancel := context.WithTimeout(ctx, sockets.HelloTime)
	defer cancel()
	var mu sync.Mutex
	var dialing errgroup.Group
	dirs, errs := sockets.OpenAll(c.Places)
	f.silent = errs
	for _, dir := range dirs {
		defer dir.Close()
		names, err := dir.Names()
		if err != nil {
			mu.Lock()
			f.silent = append(f.silent, fmt.Errorf("listing the engines in %s: %w", dir.Path(), err))
			mu.Unlock()
		}
		for _, name := range names {
			dialing.Go(func() error { // owned by this call, which waits for it; ends within HelloTime
				e, err := c.dial(ctx, dir, name)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && slices.ContainsFunc(f.engines, func(o *host) bool { return o.name == e.name }):
					e.conn.Close() // two paths lead to one directory
				case err == nil:
					f.engines = append(f.engines, e)
				case !errors.Is(err, sockets.ErrGone):
					f.silent = append(f.silent, fmt.Errorf("process %d: %w", name.PID, err))
				}
				return nil
			})
		}
	}
	dialing.Wait() // no call returns an error
	slices.SortFunc(f.engines, func(a, b *host) int { return a.Since.Compare(b.Since) })
	return f
}

// cancelGrace is how long a cancel waits for the end of its job.
const cancelGrace = time.Second

// dial connects to an engine and opens the connection of MCP.
func (c *Config) dial(ctx context.Context, dir *sockets.Dir, name sockets.Name) (*host, error) {
	conn, welcome, err := dir.Dial(ctx, name, sockets.Hello{Role: sockets.Person, Grace: cancelGrace, Toolsets: []string{"core"}})
	if err != nil {
		return nil, err
	}
	e := &host{
		Welcome: welcome, mcp: client.New(conn, conn), conn: conn, what: fmt.Sprintf("the engine of process %d", welcome.PID),
		place: dir.Path(), name: name, patience: sockets.HelloTime,
	}
	if err := e.mcp.Initialize(ctx); err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("it does not answer within %v", sockets.HelloTime)
		}
		return nil, err
	}
	return e, nil
}

// past connects to the server over the records. It returns nil if there are none.
func (f *fleet) past(ctx context.Context) (*host, error) {
	if f.config.Past == nil || f.records != nil {
		return f.records, nil
	}
	conn, err := f.config.Past(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the records of past jobs: %w", err)
	}
	f.records = &host{mcp: client.New(conn, conn), conn: conn, what: "the records of past jobs", patience: recordsTime}
	return f.records, f.records.mcp.Initialize(ctx)
}

// close ends the connections.
func (f *fleet) close() {
	for _, e := range f.engines {
		e.conn.Close()
	}
	if f.records != nil {
		f.records.conn.Close()
	}
}

// isGone reports whether the error of a server says that it has no such job.
func isGone(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "No such ") }

// A job is a job of an engine, or of the records, as it was when it was found.
type job struct {
	*report.Document
	at *host
}

// adrift returns an error if the job was left at a place by a server that has ended, and no other has followed it
// since: it can go on there.
func (j job) adrift() error {
	if j.Receipt == nil || j.Receipt.End != jobs.LeftThere {
		return nil
	}
	return leftAt(j.ID, j.Place)
}

func leftAt(id, place string) error {
	return fmt.Errorf("job %s was left at %s when its server ended, and can go on there: the next server of its workspace takes it over, see async-repl ps", id, place)
}

// noted returns where a job is that no server and no record has, if a server that has ended has left it at a place,
// as an error.
func (c *Config) noted(id string) error {
	all, _ := keyfile.ReadLeft(c.KeyFiles) // an error: none is found
	for _, left := range all {
		for _, e := range left.Engines {
			for _, job := range e.Jobs {
				if strings.HasPrefix(job, strings.ToUpper(id)) {
					return leftAt(job, oneLine(e.Place))
				}
			}
		}
	}
	return nil
}

// idLength is the length of an id.
const idLength = 26

// leastID is the length of the shortest prefix of an id that is searched for, as in the tools.
const leastID = 8

// isID matches what can be the id of a job, or the begin of one.
var isID = pattern.Lazy(fmt.Sprintf(`^[0-9A-Za-z]{%d,}$`, leastID))

// find returns the job with an id, which can be shortened.
func (f *fleet) find(ctx context.Context, id string) (job, error) {
	if !isID().MatchString(id) {
		return job{}, fmt.Errorf("%q is no job: give its id, or the first %d characters or more of it", id, leastID)
	}
	var found []job
	var several, other error // a server has several such jobs, or could not be asked
	ask := func(e *host) {
		doc, err := e.document(ctx, id)
		switch {
		case err == nil:
			if !slices.ContainsFunc(found, func(j job) bool { return j.ID == doc.ID }) { // two engines can have one record
				found = append(found, job{doc, e})
			}
		case strings.HasPrefix(err.Error(), "The ids of "):
			several = err
		case !isGone(err):
			other = err
		}
	}
	for _, e := range f.engines {
		ask(e)
	}
	if len(found) == 0 && several == nil {
		past, err := f.past(ctx)
		if err == nil && past != nil {
			ask(past)
		}
		other = cmp.Or(other, err)
	}
	switch {
	case several != nil:
		return job{}, several
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return job{}, fmt.Errorf("the ids of %d jobs begin with %s: give more of the id", len(found), id)
	case other != nil:
		return job{}, other
	case f.silent != nil:
		return job{}, fmt.Errorf("no job %s was found, and an engine that may have it can't be asked: %w", id, f.silent[0])
	}
	if left := f.config.noted(id); left != nil {
		return job{}, left
	}
	return job{}, fmt.Errorf("there is no job %s: async-repl ps --all lists them", id)
}

// answer returns the result of ask, which gets a context that allows wait and the host's patience. A
// refusal is returned in the words of the server alone.
func answer[T any](ctx context.Context, e *host, wait time.Duration, ask func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, wait+e.patience)
	defer cancel()
	got, err := ask(limited)
	refusal := (*client.Refusal)(nil)
	switch {
	case err == nil, ctx.Err() != nil:
		return got, err
	case errors.As(err, &refusal):
		return got, errors.New(strings.TrimSuffix(view.Text([]byte(refusal.Text)), "."))
	case limited.Err() != nil:
		return got, fmt.Errorf("%s does not answer within %v", e.what, wait+e.patience)
	}
	return got, &lostError{e, err}
}

// A lostError is the error of a request to an engine that has ended.
type lostError struct {
	from *host
	why  error
}

func (l *lostError) Error() string {
	return fmt.Sprintf("the connection to %s is lost: %v", l.from.what, l.why)
}

// call calls a tool, which can wait for so long.
func (e *host) call(ctx context.Context, wait time.Duration, tool string, args map[string]any) (client.Reply, error) {
	return answer(ctx, e, wait, func(ctx context.Context) (client.Reply, error) { return e.mcp.Call(ctx, tool, args) })
}

// A content is one part of a resource.
type content struct {
	Text *string
	Blob []byte
	Meta map[string]json.RawMessage `json:"_meta"`
}

// about decodes what is said of a part of a job's output.
func (c content) about(to any) error {
	if err := json.Unmarshal(c.Meta[resource.OutputMeta], to); err != nil {
		return fmt.Errorf("the answer has no place in the output: %w", err)
	}
	return nil
}

// lineMax bounds what a server says in one line, in characters.
const lineMax = 2000

// oneLine returns what a server says without anything that a terminal obeys.
func oneLine(s string) string { return view.Line(s, lineMax) }

// read reads a resource, which can wait for so long.
func (e *host) read(ctx context.Context, wait time.Duration, uri string) ([]content, error) {
	return answer(ctx, e, wait, func(ctx context.Context) ([]content, error) {
		var result struct{ Contents []content }
		raw, err := e.mcp.Request(ctx, "resources/read", map[string]any{"uri": uri})
		if err == nil {
			err = json.Unmarshal(raw, &result)
		}
		if err == nil && len(result.Contents) == 0 {
			err = errors.New("the answer is empty")
		}
		return result.Contents, err
	})
}

// document reads a job.
func (e *host) document(ctx context.Context, id string) (*report.Document, error) {
	parts, err := e.read(ctx, 0, report.JobURI(id))
	if err != nil {
		return nil, err
	}
	doc := &report.Document{}
	if parts[0].Text == nil || json.Unmarshal([]byte(*parts[0].Text), doc) != nil || len(doc.ID) != idLength || !isID().MatchString(doc.ID) {
		return nil, errors.New("the answer is no job")
	}
	// Jobs of a confined engine can have written these, and a terminal would obey them.
	doc.Kind = jobs.Kind(oneLine(string(doc.Kind)))
	for _, text := range []*string{&doc.Session, &doc.Status, &doc.StatusText, &doc.Place, &doc.Where, &doc.Link, &doc.Queued, &doc.Input} {
		*text = oneLine(*text)
	}
	return doc, nil
}

// linkLost is how the words about a link begin that is lost.
const linkLost = "lost for "

// awayLines returns the lines of replies about the link to a job's place, and what the job waits for there.
func awayLines(d *report.Document) (lines []string) {
	for _, line := range [][2]string{{"Link", d.Link}, {"Queued", d.Queued}, {"Input", d.Input}} {
		if line[1] != "" {
			lines = append(lines, line[0]+": "+line[1])
		}
	}
	return lines
}

// endTime bounds how long an engine that ends has its records for itself.
const endTime = 5 * time.Second

// findAgain returns a job whose engine has closed the connection, and the fleet that has it, which the
// caller closes. Another process can read the records once the engine's process has ended.
func (c *Config) findAgain(ctx context.Context, id string) (*fleet, job, error) {
	for late := time.Now().Add(endTime); ; {
		f := c.reach(ctx)
		j, err := f.find(ctx, id)
		if err == nil || time.Now().After(late) || ctx.Err() != nil {
			return f, j, err
		}
		f.close()
		<-time.After(spinPause)
	}
}

//go:build unix

package people

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A state is what ps shows.
type state struct {
	Engines []engineState      `json:"engines"`
	Left    []leftState        `json:"left,omitempty"` // what servers that have ended have left at places
	Past    []*report.Document `json:"past,omitempty"` // jobs of engines that have ended
	Silent  []string           `json:"silent,omitempty"`
}

// An engineState is an engine as ps shows it.
type engineState struct {
	sockets.Welcome
	Sessions []string           `json:"sessions,omitempty"`
	Jobs     []*report.Document `json:"jobs"`
}

// A leftState is an engine at a place whose server has ended, as that server has noted it. What has become of it
// since is unknown: only a server asks.
type leftState struct {
	Place      string    `json:"place"`
	Machine    string    `json:"machine,omitempty"`
	Allocation string    `json:"allocation,omitempty"`
	Workspace  string    `json:"workspace"`   // the server's workspace
	File       string    `json:"places_file"` // the server's file of places
	Sessions   []string  `json:"sessions,omitempty"`
	Jobs       []leftJob `json:"jobs,omitempty"`
}

// A leftJob is a job that was left at a place. Without a record of it there is only the id.
type leftJob struct {
	ID      string    `json:"id"`
	Kind    jobs.Kind `json:"kind,omitempty"`
	Title   string    `json:"title,omitempty"`
	Session string    `json:"session,omitempty"`
}

func (c *Config) ps() *cobra.Command {
	var watch, all, asJSON bool
	cmd := &cobra.Command{Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		for before := ""; ; {
			s, err := c.look(cmd.Context(), all)
			if err != nil {
				return err
			}
			var b strings.Builder
			if asJSON {
				text, _ := json.MarshalIndent(s, "", "  ") // an error: nothing is written
				writeJSON(&b, text)
			} else {
				writeTable(&b, s)
			}
			if text := b.String(); text != before {
				if before = text; watch && c.toTerminal() {
					text = "\x1b[H\x1b[2J" + text
				}
				if _, err := io.WriteString(c.Out, text); err != nil {
					return err
				}
			}
			if !watch {
				return nil
			}
			select {
			case <-time.After(watchPause):
			case <-cmd.Context().Done():
				return nil
			}
		}
	}}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again when it has changed, until ctrl-c")
	cmd.Flags().BoolVar(&all, "all", false, "show the jobs that have ended, too, and those of earlier runs")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// watchPause is the time between two looks of a watching ps.
const watchPause = time.Second

// look asks all engines what they do.
func (c *Config) look(ctx context.Context, all bool) (*state, error) {
	f := c.reach(ctx)
	defer f.close()
	s := &state{Engines: []engineState{}}
	for _, err := range f.silent {
		s.Silent = append(s.Silent, err.Error())
	}
	shown := make(map[string]bool)
	for _, e := range f.engines {
		jobs, err := e.list(ctx, all)
		var status client.Reply
		if err == nil {
			status, err = e.call(ctx, 0, "server_status", nil)
		}
		if err != nil { // it has ended meanwhile, or hangs
			s.Silent = append(s.Silent, fmt.Sprintf("process %d: %v", e.PID, err))
			continue
		}
		one := engineState{Welcome: e.Welcome, Jobs: []*report.Document{}}
		for _, j := range jobs {
			switch {
			case !j.Past:
				one.Jobs = append(one.Jobs, j)
			case !shown[j.ID]: // this engine has the record of an earlier one
				s.Past = append(s.Past, j)
			}
			shown[j.ID] = true
		}
		for line := range strings.Lines(string(status)) {
			for _, kind := range []string{"Session", "Shell session"} {
				if text, ok := strings.CutPrefix(line, kind+": "); ok {
					one.Sessions = append(one.Sessions, strings.ToLower(kind)+" "+oneLine(strings.TrimSpace(text)))
				}
			}
		}
		s.Engines = append(s.Engines, one)
	}
	if err := f.left(ctx, s, shown); err != nil {
		s.Silent = append(s.Silent, err.Error())
	}
	if !all {
		return s, nil
	}
	past, err := f.past(ctx)
	if err != nil || past == nil {
		return s, err
	}
	earlier, err := past.list(ctx, true)
	if err != nil { // jobs of a confined engine can have made its records slow to read
		s.Silent = append(s.Silent, err.Error())
	}
	s.Past = append(s.Past, slices.DeleteFunc(earlier, func(j *report.Document) bool { return shown[j.ID] })...)
	newestFirst(s.Past)
	return s, nil
}

// left adds what servers that have ended have left at places to s, and its jobs to shown.
func (f *fleet) left(ctx context.Context, s *state, shown map[string]bool) error {
	all, err := keyfile.ReadLeft(f.config.KeyFiles)
	if err != nil || len(all) == 0 {
		return err
	}
	records, err := f.past(ctx)
	for _, left := range all {
		for _, name := range slices.Sorted(maps.Keys(left.Engines)) {
			e := left.Engines[name]
			one := leftState{
				Place: oneLine(e.Place), Machine: oneLine(e.Greeting.Machine), Allocation: oneLine(e.Allocation),
				Workspace: oneLine(left.Workspace), File: oneLine(left.Places),
			}
			for _, session := range e.Sessions {
				kind := map[jobs.Kind]string{jobs.Python: "session ", jobs.Shell: "shell session "}[session.Kind]
				one.Sessions = append(one.Sessions, kind+oneLine(session.Name))
			}
			for _, id := range e.Jobs {
				j := leftJob{ID: id}
				if records != nil {
					doc, gone := records.document(ctx, id)
					switch {
					case gone == nil && doc.Receipt != nil && doc.Receipt.End != jobs.LeftThere:
						continue // it had ended before its server did
					case gone == nil:
						j.Kind, j.Title, j.Session = doc.Kind, doc.Title, doc.Session
					case !isGone(gone):
						err = gone
					}
				}
				shown[id] = true
				one.Jobs = append(one.Jobs, j)
			}
			s.Left = append(s.Left, one)
		}
	}
	return err
}

// list returns the jobs of an engine, the newest first: those that have not ended, or all.
func (e *host) list(ctx context.Context, all bool) ([]*report.Document, error) {
	list := []*report.Document{}
	// A job whose question is answered meanwhile runs again.
	statuses := []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput, jobs.Running}
	if all {
		statuses = []jobs.Status{""}
	}
	for _, status := range statuses {
		for before, more := "", true; more; {
			reply, err := e.call(ctx, 0, "list_jobs", map[string]any{"limit": 200, "status": status, "before": before})
			if err != nil {
				return nil, err
			}
			_, lines, _ := strings.Cut(string(reply), "\n\n")
			for line := range strings.Lines(lines) {
				id, _, _ := strings.Cut(line, " ")
				doc, err := e.document(ctx, id)
				if isGone(err) {
					continue // its record was removed meanwhile
				}
				if err != nil {
					return nil, err
				}
				list = append(list, doc)
			}
			_, before, more = strings.Cut(reply.Header("More"), "before=")
		}
	}
	newestFirst(list)
	return slices.CompactFunc(list, func(a, b *report.Document) bool { return a.ID == b.ID }), nil
}

func newestFirst(list []*report.Document) {
	slices.SortFunc(list, func(a, b *report.Document) int { return strings.Compare(b.ID, a.ID) })
}

// writeJSON writes JSON without the control characters that JSON allows in strings: some terminals obey them.
func writeJSON(b *strings.Builder, text []byte) {
	for _, r := range string(text) {
		if r >= 0x7f && r < 0xa0 {
			fmt.Fprintf(b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('\n')
}

// titleMax bounds what a job runs in a table, in characters.
const titleMax = 60

// writeTable writes a state for people.
func writeTable(w io.Writer, s *state) {
	for _, e := range s.Engines {
		fmt.Fprintf(w, "ENGINE %d  %s  up %s, %s\n", e.PID, report.OneLine(e.Workspace), report.Duration(time.Since(e.Since)), e.client())
		table(w, e.Jobs)
		for _, session := range e.Sessions {
			fmt.Fprintln(w, "  "+session)
		}
	}
	for _, l := range s.Left {
		l.write(w)
	}
	if len(s.Past) > 0 {
		fmt.Fprintln(w, "EARLIER RUNS")
		table(w, s.Past)
	}
	if len(s.Engines)+len(s.Left)+len(s.Past) == 0 {
		fmt.Fprintln(w, "No engine has a job.")
	}
	for _, why := range s.Silent {
		fmt.Fprintln(w, "NOT ASKED:", report.OneLine(why))
	}
}

// write writes what was left at a place for people.
func (l *leftState) write(w io.Writer) {
	where := ""
	if l.Machine != "" {
		where = "on " + l.Machine
	}
	if l.Allocation != "" {
		where = strings.TrimPrefix(where+", allocation "+l.Allocation, ", ")
	}
	fmt.Fprintf(w, "LEFT AT %s\n", report.PlaceText(l.Place, where))
	fmt.Fprintf(w, "  Its server has ended. The next one in %s with the places of %s takes it over.\n", l.Workspace, l.File)
	var list []*report.Document
	for _, j := range l.Jobs {
		list = append(list, &report.Document{ID: j.ID, Kind: j.Kind, Title: j.Title, Session: j.Session, StatusText: "left there"})
	}
	newestFirst(list)
	table(w, list)
	for _, session := range l.Sessions {
		fmt.Fprintln(w, "  "+session)
	}
}

// client says whether a client is connected to the engine, and when the engine ends otherwise.
func (e *engineState) client() string {
	switch {
	case e.Attended:
		return "with its client"
	case !e.Trims.IsZero():
		return fmt.Sprintf("no client; it stays for what is kept (%d), what else there is ends in %s", e.Kept, until(e.Trims))
	case e.Ends.IsZero():
		return fmt.Sprintf("no client; it stays for what is kept (%d)", e.Kept)
	}
	return "no client; ends in " + until(e.Ends)
}

func until(t time.Time) string { return report.Duration(max(0, time.Until(t))) }

// table writes some jobs, one a line. Lines about the way to its place follow a job.
func table(w io.Writer, list []*report.Document) {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, j := range list {
		kind := string(j.Kind)
		if j.Session != "" {
			kind += " " + j.Session
		}
		if j.Place != "" {
			kind += " at " + report.PlaceText(j.Place, j.Where)
		}
		what := view.Line(j.Title, titleMax)
		if q := j.Question; q != nil && q.Prompt != "" {
			what += fmt.Sprintf(" (asks %q)", view.Line(q.Prompt, titleMax))
		} else if q != nil {
			what += fmt.Sprintf(" (waits for a %s)", q.Kind)
		}
		status, took := j.StatusText, ""
		if j.Keep {
			status += ", kept"
		}
		if !j.Started.IsZero() && (!j.Ended.IsZero() || !jobs.Status(j.Status).Final()) { // else it has not run, or how long it did is unknown
			took = report.Duration(time.Duration(j.Elapsed * float64(time.Second)))
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", j.ID[:idShown], status, kind, took, what)
	}
	t.Flush() // nothing fails to be written to a Builder
	rows := strings.SplitAfter(b.String(), "\n")
	for i, j := range list {
		io.WriteString(w, rows[i]) // an error: the caller finds that nothing was written
		for _, line := range awayLines(j) {
			fmt.Fprintln(w, "      "+line)
		}
	}
}

// idShown is how many characters of an id a table shows: the time and 20 random bits.
const idShown = 14

//go:build unix

package people

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A state is what ps shows.
type state struct {
	Engines []engineState      `json:"engines"`
	Past    []*report.Document `json:"past,omitempty"` // jobs of the records that no engine has
	Silent  []string           `json:"silent,omitempty"`
}

// An engineState is an engine as ps shows it.
type engineState struct {
	PID       int                `json:"pid"`
	Version   string             `json:"version"`
	Workspace string             `json:"workspace"`
	Since     time.Time          `json:"since"`
	Attended  bool               `json:"attended"` // a client is connected
	Left      time.Time          `json:"client_left,omitzero"`
	Ends      time.Time          `json:"ends,omitzero"`      // when it ends unless a client comes
	Trims     time.Time          `json:"rest_ends,omitzero"` // when it ends what is not kept
	Kept      int                `json:"kept,omitempty"`
	Sessions  []string           `json:"sessions,omitempty"`
	Jobs      []*report.Document `json:"jobs"`
}

func (c *Config) ps() *cobra.Command {
	var watch, all, asJSON bool
	cmd := &cobra.Command{Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		write := writeTable
		if asJSON {
			write = func(w io.Writer, s *state) { writeJSON(w, s) }
		}
		for before := []byte(nil); ; {
			s, err := c.look(cmd.Context(), all)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			write(&b, s)
			if !bytes.Equal(b.Bytes(), before) {
				if watch && c.toTerminal() {
					b = *bytes.NewBuffer(append([]byte("\x1b[H\x1b[2J"), b.Bytes()...))
				}
				if _, err := c.Out.Write(b.Bytes()); err != nil {
					return err
				}
			}
			if !watch {
				return nil
			}
			before = bytes.TrimPrefix(b.Bytes(), []byte("\x1b[H\x1b[2J"))
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
		status, statusErr := e.call(ctx, 0, "server_status", nil)
		if err != nil || statusErr != nil { // it has ended meanwhile, or hangs
			s.Silent = append(s.Silent, fmt.Sprintf("process %d: %v", e.PID, firstOf(err, statusErr)))
			continue
		}
		jobs = slices.DeleteFunc(jobs, func(j *report.Document) bool {
			earlier := j.Created.Before(e.Since) // of an engine before it, whose records it has
			if earlier && !shown[j.ID] {
				s.Past = append(s.Past, j)
			}
			shown[j.ID] = true
			return earlier
		})
		one := engineState{
			PID: e.PID, Version: e.Version, Workspace: e.Workspace, Since: e.Since.UTC(), Attended: e.Attended, Left: e.Left, Ends: e.Ends, Trims: e.Trims, Kept: e.Kept, Jobs: jobs,
		}
		for line := range strings.Lines(string(status)) {
			for _, kind := range []string{"Session", "Shell session"} {
				if text, ok := strings.CutPrefix(line, kind+": "); ok {
					one.Sessions = append(one.Sessions, strings.ToLower(kind)+" "+strings.TrimSpace(text))
				}
			}
		}
		s.Engines = append(s.Engines, one)
	}
	if !all {
		return s, nil
	}
	past, err := f.past(ctx)
	if err != nil || past == nil {
		return s, err
	}
	earlier, err := past.list(ctx, true)
	s.Past = append(s.Past, slices.DeleteFunc(earlier, func(j *report.Document) bool { return shown[j.ID] })...)
	newestFirst(s.Past)
	return s, err
}

func firstOf(errs ...error) error {
	return errs[slices.IndexFunc(errs, func(err error) bool { return err != nil })]
}

// list returns the jobs of an engine, the newest first: those that have not ended, or all.
func (e *host) list(ctx context.Context, all bool) ([]*report.Document, error) {
	list := []*report.Document{}
	statuses := []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput}
	if all {
		statuses = []jobs.Status{""}
	}
	for _, status := range statuses {
		for before, more := "", true; more; {
			args := map[string]any{"limit": 200}
			if status != "" {
				args["status"] = status
			}
			if before != "" {
				args["before"] = before
			}
			reply, err := e.call(ctx, 0, "list_jobs", args)
			if err != nil {
				return nil, err
			}
			_, lines, _ := strings.Cut(string(reply), "\n\n")
			for line := range strings.Lines(lines) {
				id, _, _ := strings.Cut(line, " ")
				doc, err := e.document(ctx, id)
				if err != nil {
					return nil, err
				}
				list = append(list, doc)
			}
			_, before, more = strings.Cut(reply.Header("More"), "before=")
		}
	}
	newestFirst(list)
	return list, nil
}

func newestFirst(list []*report.Document) {
	slices.SortFunc(list, func(a, b *report.Document) int { return strings.Compare(b.ID, a.ID) })
}

func writeJSON(w io.Writer, s *state) {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(s) // an error: the caller finds that nothing was written
}

// titleMax bounds what a job runs in a table, in characters.
const titleMax = 60

// writeTable writes a state for people.
func writeTable(w io.Writer, s *state) {
	var all []*report.Document
	for _, e := range s.Engines {
		all = append(all, e.Jobs...)
	}
	short := shortest(append(all, s.Past...))
	for _, e := range s.Engines {
		fmt.Fprintf(w, "ENGINE %d  %s  up %s, %s\n", e.PID, report.OneLine(e.Workspace), report.Duration(time.Since(e.Since)), e.client())
		table(w, e.Jobs, short)
		for _, session := range e.Sessions {
			fmt.Fprintln(w, "  "+session)
		}
	}
	if len(s.Past) > 0 {
		fmt.Fprintln(w, "EARLIER RUNS")
		table(w, s.Past, short)
	}
	if len(s.Engines)+len(s.Past) == 0 {
		fmt.Fprintln(w, "No engine has a job.")
	}
	for _, why := range s.Silent {
		fmt.Fprintln(w, "NOT ASKED:", report.OneLine(why))
	}
}

// client says whether a client is connected to the engine, and when the engine ends otherwise.
func (e *engineState) client() string {
	switch {
	case e.Attended:
		return "with its client"
	case !e.Trims.IsZero():
		return fmt.Sprintf("no client; it stays for what is kept (%d), the rest ends in %s", e.Kept, until(e.Trims))
	case e.Ends.IsZero():
		return fmt.Sprintf("no client; it stays for what is kept (%d)", e.Kept)
	}
	return "no client; ends in " + until(e.Ends)
}

func until(t time.Time) string { return report.Duration(max(0, time.Until(t))) }

// table writes some jobs, one a line.
func table(w io.Writer, list []*report.Document, short int) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, j := range list {
		kind := string(j.Kind)
		if j.Session != "" {
			kind += " " + j.Session
		}
		what := view.Line(j.Title, titleMax)
		if q := j.Question; q != nil && q.Prompt != "" {
			what += fmt.Sprintf(" (asks %q)", view.Line(q.Prompt, titleMax))
		} else if q != nil {
			what += fmt.Sprintf(" (waits for a %s)", q.Kind)
		}
		status := j.StatusText
		if j.Keep {
			status += ", kept"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", j.ID[:short], status, kind, report.Duration(seconds(j.Elapsed)), what)
	}
	t.Flush() // an error: the caller finds that nothing was written
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// idShown is how many characters of an id a table shows at least.
const idShown = 12

// shortest returns how many characters of their ids distinguish some jobs.
func shortest(list []*report.Document) int {
	ids := make([]string, len(list))
	for i, j := range list {
		ids[i] = j.ID
	}
	slices.Sort(ids)
	n := idShown
	for i := 1; i < len(ids); i++ {
		for n < len(ids[i]) && ids[i][:n] == ids[i-1][:n] {
			n++
		}
	}
	return n
}

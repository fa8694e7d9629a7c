package waits

import (
	"fmt"
	"slices"
	"strings"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/search"
)

// Describe says in one line why a wait is over.
func (c *Conditions) Describe(outcomes []Outcome) string {
	met := 0
	var why, end []string // end has the reasons that end the wait for all jobs
	for _, o := range outcomes {
		switch {
		case o.event == nothing:
		// The job meets the conditions.
		case o.event == matched, o.event == quiet, o.event == ended && c.Pattern == nil:
			met++
			why = append(why, c.reason(o))
		case o.event == stopped:
			end = slices.Insert(end, 0, c.reason(o))
		default:
			end = append(end, c.reason(o))
		}
	}
	why = append(end, why...)
	if c.Pattern == nil && c.Stop == nil && c.Quiet == 0 { // it waits for ends and questions only
		return endsText(outcomes, c.Every)
	}
	has := func(e event) bool {
		return slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.event == e })
	}
	const most = 3
	if len(why) > most {
		why = append(why[:most], fmt.Sprintf("%d more", len(why)-most))
	}
	reasons := strings.Join(why, ", ")
	switch {
	case has(stopped):
		return "stopped: " + reasons
	case met == len(outcomes), met > 0 && !c.Every, has(asks) && c.Pattern == nil:
		return "met: " + reasons
	case reasons == "":
		return "not met; call again to wait longer"
	case c.over(ended) && has(ended) || has(asks):
		return "not met: " + reasons
	}
	return fmt.Sprintf("not met by %d of %d: %s; call again to wait longer", len(outcomes)-met, len(outcomes), reasons)
}

// reason says what has happened to a job.
func (c *Conditions) reason(o Outcome) string {
	s := "job " + o.record.ID + " "
	switch o.event {
	case matched:
		return s + "matches pattern"
	case stopped:
		return s + "matches stop_pattern"
	case quiet:
		return s + "has printed nothing for " + report.Duration(c.Quiet)
	case asks:
		if o.probably() {
			return s + "accepts input"
		}
		return s + "waits for input"
	}
	s += string(o.record.Status)
	if c.Pattern != nil {
		s += " without a match of pattern"
	}
	return s
}

// maxCaptures is how many captures of one match a reply shows, each in a separate line.
const maxCaptures = 10

// A header takes the header lines of a reply.
type header interface{ Line(name, value string) }

// Add adds the match in a job's output to the lines about the job, and how to continue.
func (c *Conditions) Add(r header, o Outcome) {
	if o.next < 0 {
		return
	}
	if o.match != nil {
		r.Line("Matched", o.Line())
		for i, capture := range o.match.captures {
			if i == maxCaptures {
				r.Line("Captured", fmt.Sprintf("%d more", len(o.match.captures)-i))
				break
			}
			r.Line("Captured", capture.Name+"="+capture.Text)
		}
	}
	if len(o.dropped) > 0 {
		r.Line("Note", "output that can't be read any more was not looked at: "+report.Ranges(o.dropped))
	}
	if o.record.Asks() || o.event == ended || o.record.Status.Final() && o.next >= o.record.Output.End {
		return // the job needs another call, or has printed nothing else
	}
	names := ""
	if c.Pattern != nil {
		names += ", pattern=…"
	}
	if c.Stop != nil {
		names += ", stop_pattern=…"
	}
	r.Line("Next", fmt.Sprintf("wait_for_jobs(job_ids=[…]%s, cursor=%d)", names, o.next))
}

// Line returns the line that matches, with its stream and cursor. It is empty if none does.
func (o *Outcome) Line() string {
	if o.match == nil {
		return ""
	}
	return fmt.Sprintf("%s %d: %s", o.match.section, o.match.at, o.match.text)
}

// aroundLines is how many lines before a match, and after it, a reply shows.
const aroundLines = 3

// Around returns the match of the outcome with an index and the lines around it. It returns the
// empty string if there are none, or if several jobs have a match: a caller that waits until all
// jobs are ready needs no more than that.
func Around(log output.Reader, outcomes []Outcome, index int) string {
	matches := 0
	for _, o := range outcomes {
		if o.match != nil {
			matches++
		}
	}
	m := outcomes[index].match
	if m == nil || matches > 1 {
		return ""
	}
	return search.Around(log, search.Line{Section: m.section, At: m.at, Text: m.text}, aroundLines)
}

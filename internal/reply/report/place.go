package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// Place writes where a job runs, unless that is here, and what is known of the way there. A lost link is no
// end: the job is as it was when the link was lost.
func (rp *Reporter) Place(r *Reply, record jobs.Record, live jobs.Live) {
	if record.Place == "" {
		return
	}
	link := LinkOf(live)
	r.Line("Place", PlaceText(record.Place, cmp.Or(link.Where, record.Where))) // an ended job has no link
	if text := rp.LinkText(link); text != "" {
		r.Line("Link", text)
	}
	if link.Input != "" {
		r.Line("Input", link.Input)
	}
}

// PlaceText returns the value of the Place line. where says more about the place, or is empty.
func PlaceText(place, where string) string {
	if where == "" {
		return place
	}
	return place + " (" + where + ")"
}

// LinkOf returns what is known of the way to the place of a job.
func LinkOf(live jobs.Live) (link jobs.Link) {
	if live.Link != nil {
		link = live.Link()
	}
	return link
}

// LinkText returns the value of the Link line, or "" if the place answers and has sent all.
func (rp *Reporter) LinkText(link jobs.Link) string {
	var parts []string
	if !link.Lost.IsZero() {
		lost := "lost for " + seconds(rp.time().Sub(link.Lost))
		if link.Why != "" {
			lost += " (" + link.Why + ")"
		}
		parts = append(parts, lost)
	}
	switch {
	case link.Behind > 0:
		parts = append(parts, bytesText(link.Behind)+" behind", "ended there")
	case link.Lost.IsZero():
	case link.Unknown:
		parts = append(parts, "not known to have started")
	case !link.AsOf.IsZero():
		parts = append(parts, "as of "+rp.clock(link.AsOf))
	}
	return strings.Join(parts, "; ")
}

// clock returns a time of today, or a date with it.
func (rp *Reporter) clock(t time.Time) string {
	t = t.Local()
	if now := rp.time().Local(); t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// seconds is Duration without a fraction: a link is not watched more closely.
func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	}
	return Duration(d)
}

// bytesText returns a number of bytes in few characters: 812 MB.
func bytesText(n int64) string {
	if n < 1000 {
		return view.CountOf(n, "byte")
	}
	v, unit := float64(n), ""
	for _, unit = range []string{" kB", " MB", " GB", " TB"} {
		if v /= 1000; v < 999.5 {
			break
		}
	}
	return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Log10(v))), 64) + unit
}

package overview

import (
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
)

// A Place is the state of a place as the server knows it.
type Place struct {
	Name  string
	Kind  string // how the server gets in: ssh
	Where string // more about that, such as the destination of ssh; empty: nothing

	Reachable bool
	Why       string    // why the place is out of reach; empty: not known, or the server has not tried
	Since     time.Time // when it was connected or lost; zero: there was no connection yet

	Version     string        // the version of the program there; empty: unknown
	Allocations int           // the allocations of a scheduler that the server holds
	Sessions    []Session     // as last known
	TimeLeft    time.Duration // until the first allocation ends; 0: unknown
	Holds       string        // what keeps an allocation that no job uses; empty: nothing
}

// Own returns the sessions of the place, which say that they are there.
func (p Place) Own() []Session {
	list := slices.Clone(p.Sessions)
	for i := range list {
		list[i].Place = p.Name
	}
	return list
}

// String describes the place in one line.
func (p Place) String() string {
	about := strings.TrimSpace(p.Kind + " " + p.Where)
	parts := []string{p.Name, about}
	if about == "" {
		parts = parts[:1]
	}
	since := ""
	if !p.Since.IsZero() {
		since = " for " + report.Duration(time.Since(p.Since))
	}
	switch {
	case p.Reachable:
		parts = append(parts, "connected"+since)
	case p.Since.IsZero() && p.Why == "":
		parts = append(parts, "not connected yet")
	default:
		parts = append(parts, "out of reach"+since)
	}
	if p.Version != "" {
		parts = append(parts, "version "+p.Version)
	}
	if p.Allocations > 0 {
		parts = append(parts, view.CountOf(p.Allocations, "allocation"))
	}
	if p.TimeLeft > 0 {
		parts = append(parts, report.Duration(p.TimeLeft)+" left")
	}
	if len(p.Sessions) > 0 {
		parts = append(parts, view.CountOf(len(p.Sessions), "session"))
	}
	if p.Holds != "" {
		parts = append(parts, "held by "+p.Holds)
	}
	text := strings.Join(parts, ", ")
	if p.Why != "" && !p.Reachable { // last: it can be long
		text += ": " + p.Why
	}
	return view.Line(text, lineMax)
}

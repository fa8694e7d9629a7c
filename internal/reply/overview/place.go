package overview

import (
	"fmt"
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

	Version     string       // the version of the program there; empty: unknown
	Allocations []Allocation // those of a scheduler that the server holds
	Sessions    []Session    // what the engines there say now
	Last        []string     // the names of the sessions of Python that engines had which have not answered
}

// An Allocation is one that a scheduler has given, or was asked for.
type Allocation struct {
	Where    string        // its name and where it is, or why it waits: "Slurm job 812, node n2"
	TimeLeft time.Duration // until its time limit ends it; 0: unknown, or there is none
	Holds    string        // what it is held by; empty: nothing
	Back     time.Duration // when it goes back because nothing holds it; 0: that is not known
	Why      string        // why it is out of reach; empty: it is not
}

// String describes the allocation, without its place.
func (a Allocation) String() string {
	parts := []string{a.Where}
	if a.TimeLeft > 0 {
		parts = append(parts, report.Duration(a.TimeLeft)+" left")
	}
	switch {
	case a.Holds != "":
		parts = append(parts, "held by "+a.Holds)
	case a.Back > 0:
		parts = append(parts, "unused, goes back in "+report.Duration(a.Back))
	}
	if a.Why != "" { // last: it can be long
		parts = append(parts, "out of reach: "+a.Why)
	}
	return strings.Join(parts, ", ")
}

// allocationsMax is the most allocations of a place that a reply shows.
const allocationsMax = 20

// lines writes the lines about the place.
func (p Place) lines(r *report.Reply) {
	r.Line("Place", p.String())
	for i, a := range p.Allocations {
		if i == allocationsMax {
			r.Line("Allocation", fmt.Sprintf("%s, %d more", p.Name, len(p.Allocations)-i))
			break
		}
		r.Line("Allocation", view.Line(p.Name+", "+a.String(), lineMax))
	}
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
		parts = append(parts, "not connected")
	default:
		parts = append(parts, "out of reach"+since)
	}
	if p.Version != "" {
		parts = append(parts, "version "+p.Version)
	}
	if n := len(p.Allocations); n > 0 {
		parts = append(parts, view.CountOf(n, "allocation"))
	}
	if len(p.Sessions) > 0 {
		parts = append(parts, view.CountOf(len(p.Sessions), "session"))
	}
	if n := len(p.Last); n > 0 {
		text := view.CountOf(n, "session") + " as last known: "
		parts = append(parts, view.Line(text+strings.Join(p.Last, ", "), lineMax/4))
	}
	text := strings.Join(parts, ", ")
	if p.Why != "" && !p.Reachable { // last: it can be long
		text += ": " + p.Why
	}
	return view.Line(text, 2*lineMax) // the end of Why says what helps
}

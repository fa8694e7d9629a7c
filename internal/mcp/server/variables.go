package server

// This file writes the variables of a session as text to read: how many there are and since when
// they are known, then a line each.

import (
	"fmt"
	"strings"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
)

// lineOfNamesMax bounds a line that lists modules, functions or classes, in bytes.
const lineOfNamesMax = 2000

// variablesReply returns the reply that lists the variables of a session that match pattern; an empty
// pattern stands for all. If there are none it says why. The list takes less than room bytes, and a
// line of the reply counts the variables that don't fit.
func variablesReply(session, pattern string, vars engine.Variables, room int) *report.Reply {
	count := view.Count(vars.Total)
	switch {
	case pattern != "" && vars.Lost == nil:
		count += " that match " + pattern
		if vars.Total == 0 && !strings.ContainsAny(pattern, "*?[") {
			count += ", which stands for the whole name; try " + pattern + "*"
		}
	case vars.Total == 0:
		return none(session, vars)
	}
	r := &report.Reply{}
	r.Line("Session", session)
	r.Line("Variables", count)
	if asOf := knownSince(vars); asOf != "" {
		r.Line("As of", asOf)
	}
	text, shown := lines(vars, room)
	if left := vars.Total - shown; left > 0 {
		r.Line("Omitted", view.CountOf(left, "variable"))
	}
	if text != "" {
		r.Body(text)
	}
	return r
}

// none returns the reply for a session without known variables, which says why.
func none(session string, vars engine.Variables) *report.Reply {
	switch {
	case vars.Lost != nil:
		return report.Textf("No variables: session %s's Python %s after job %s.", session, vars.Lost.How, vars.Lost.Job)
	case vars.Busy != "":
		return report.Textf("No variables are known in session %s yet; it is busy with job %s.", session, vars.Busy)
	case vars.Silent:
		return report.Textf("No variables are known in session %s; its Python does not answer.", session)
	}
	return report.Textf("No variables in session %s.", session)
}

// knownSince says since when the variables are known, or returns "" if they are up to date.
func knownSince(vars engine.Variables) string {
	switch {
	case vars.Busy != "" && vars.AsOf == "":
		return fmt.Sprintf("before job %s, with which the session is busy", vars.Busy)
	case vars.Busy != "":
		return fmt.Sprintf("job %s; the session is busy with job %s", vars.AsOf, vars.Busy)
	case vars.Silent:
		return fmt.Sprintf("job %s; Python does not answer", vars.AsOf)
	}
	return ""
}

// lines returns the text of a list of variables in less than room bytes, and how many of them it
// shows: a line each, then the names of modules, functions and classes.
func lines(vars engine.Variables, room int) (text string, shown int) {
	var others strings.Builder
	for _, group := range []struct {
		title string
		names []string
	}{{"Modules", vars.Modules}, {"Functions", vars.Functions}, {"Classes", vars.Classes}} {
		shown += nameLine(&others, group.title, group.names)
	}
	var list strings.Builder
	for _, v := range vars.Vars {
		text := line(v) + "\n"
		if list.Len()+len(text)+others.Len() >= room {
			break
		}
		list.WriteString(text)
		shown++
	}
	if list.Len() > 0 && others.Len() > 0 {
		list.WriteString("\n")
	}
	return list.String() + others.String(), shown
}

// nameLine adds a line of names to b, and returns how many names the line has.
func nameLine(b *strings.Builder, title string, names []string) (shown int) {
	start := b.Len()
	for _, name := range names {
		name = report.OneLine(name)
		if b.Len()-start+len(name) > lineOfNamesMax {
			break
		}
		if shown == 0 {
			b.WriteString(title + ": " + name)
		} else {
			b.WriteString(", " + name)
		}
		shown++
	}
	if shown > 0 {
		b.WriteString("\n")
	}
	return shown
}

// line returns name, type, size and value of a variable.
func line(v engine.Variable) string {
	s := report.OneLine(v.Name)
	if v.Type != "" {
		s += ": " + report.OneLine(v.Type)
	}
	switch {
	case v.Len != nil:
		s += ", " + view.Count(*v.Len) + " " + unit(v.Type, *v.Len)
	case v.Shape != nil:
		s += ", shape " + shapeText(v.Shape)
	}
	if v.Value != "" {
		s += " = " + report.OneLine(v.Value)
	}
	return s
}

// unit returns the word for the n elements of a container of a type.
func unit(typ string, n int64) string {
	name := "item"
	switch typ {
	case "str":
		name = "character"
	case "bytes", "bytearray":
		name = "byte"
	}
	if n != 1 {
		name += "s"
	}
	return name
}

// shapeText returns a shape as Python writes it: (3, 4).
func shapeText(shape []int64) string {
	if len(shape) == 1 {
		return fmt.Sprintf("(%d,)", shape[0])
	}
	return "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]") + ")"
}

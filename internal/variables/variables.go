// Package variables writes the variables of a session as text to read. It knows no protocol.
package variables

import (
	"fmt"
	"strings"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/report"
	"asyncrepl/internal/view"
)

// namesMax bounds a line that lists modules, functions or classes, in bytes.
const namesMax = 2000

// Lines returns the text of a list of variables in less than room bytes, and how many of them it
// shows: a line each, then the names of modules, functions and classes.
func Lines(vars engine.Variables, room int) (text string, shown int) {
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
		if b.Len()-start+len(name) > namesMax {
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

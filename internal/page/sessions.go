//go:build unix

package page

import (
	"fmt"
	"net/http"
	"strings"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/report"
)

// A Session is a session in the list.
type Session struct {
	Name      string  `json:"name"`
	Parent    string  `json:"parent,omitempty"` // the session that it is a branch of
	Job       string  `json:"job,omitempty"`    // the running job
	Doing     string  `json:"doing,omitempty"`  // its other work, such as "a restart"
	Queued    int     `json:"queued"`           // jobs behind Job
	Variables int     `json:"variables"`
	Jobs      int     `json:"jobs"` // the jobs that have ended
	Memory    int64   `json:"memory_bytes"`
	Idle      float64 `json:"idle_seconds"`
	Python    string  `json:"python,omitempty"` // its interpreter
	Dir       string  `json:"dir"`              // the directory in which it starts
	Server    string  `json:"server,omitempty"` // set on a page over several servers
}

func (a *api) serveSessions(w http.ResponseWriter, _ *http.Request) {
	all, _ := a.engine.Sessions()
	list := []Session{}
	for _, s := range all {
		list = append(list, Session{
			Name: s.Name, Parent: s.Parent, Job: s.Job, Doing: s.Doing, Queued: s.Queued, Variables: s.Variables,
			Jobs: s.Jobs, Memory: s.Memory, Idle: s.Idle.Seconds(), Python: s.Python, Dir: s.Dir,
		})
	}
	answer(w, map[string]any{"sessions": list})
}

// A Namespace is what is known of a session's variables.
type Namespace struct {
	Name      string     `json:"name"`
	Variables []Variable `json:"variables"`
	Total     int        `json:"total"` // all names, including those that are not listed
	// AsOf is the job that reported the names; empty: they are of now. Busy is the running job; then
	// there are only names.
	AsOf string `json:"as_of,omitempty"`
	Busy string `json:"busy,omitempty"`
	Lost string `json:"lost,omitempty"` // how the idle Python ended, with all variables

	Modules   []string `json:"modules,omitempty"`
	Functions []string `json:"functions,omitempty"`
	Classes   []string `json:"classes,omitempty"`
}

// A Variable is a variable in words.
type Variable struct {
	Name  string `json:"name"`
	Type  string `json:"type,omitempty"`
	Size  string `json:"size,omitempty"` // a count of elements, or the sides of an array: 3 × 4
	Value string `json:"value,omitempty"`
}

func (a *api) serveSession(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	s, err := a.engine.Session(name)
	if err != nil {
		refuse(w, http.StatusNotFound, "There is no session %s.", report.OneLine(name))
		return
	}
	all, err := s.Variables(r.Context(), "")
	if err != nil {
		refuse(w, http.StatusConflict, "The variables of session %s can't be read: %s.", report.OneLine(name), report.OneLine(err.Error()))
		return
	}
	n := Namespace{
		Name: name, Variables: []Variable{}, Total: all.Total, AsOf: all.AsOf, Busy: all.Busy,
		Modules: all.Modules, Functions: all.Functions, Classes: all.Classes,
	}
	if all.Lost != nil {
		n.Lost = all.Lost.String()
	}
	for _, v := range all.Vars {
		n.Variables = append(n.Variables, Variable{v.Name, v.Type, sizeOf(v), v.Value})
	}
	answer(w, n)
}

// sizeOf returns the size of a variable in words, or "".
func sizeOf(v engine.Variable) string {
	if v.Len != nil {
		return fmt.Sprint(*v.Len)
	}
	var sides []string
	for _, n := range v.Shape {
		sides = append(sides, fmt.Sprint(n))
	}
	return strings.Join(sides, " × ")
}

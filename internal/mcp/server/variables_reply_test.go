package server

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/engine"
)

func Example_variables() {
	rows := int64(3)
	vars := engine.Variables{Total: 3, Vars: []engine.Variable{
		{Name: "name", Type: "str", Len: &rows, Value: "'abc'"},
		{Name: "table", Type: "DataFrame", Shape: []int64{3, 2}},
	}}
	vars.Modules, vars.Functions, vars.Classes = []string{"math", "os"}, []string{"f"}, []string{"C"}
	fmt.Println(variablesReply("default", "", vars, 1000))
	// Output:
	// Session: default
	// Variables: 3
	//
	// name: str, 3 characters = 'abc'
	// table: DataFrame, shape (3, 2)
	//
	// Modules: math, os
	// Functions: f
	// Classes: C
}

// A reply says how many variables there are and since when that is known, or why there are none.
func TestReplySaysHowManyAndSinceWhen(t *testing.T) {
	some := []engine.Variable{{Name: "x"}}
	for _, tt := range []struct {
		name    string
		pattern string
		vars    engine.Variables
		want    string // its lines, with | between them
	}{
		{"none", "", engine.Variables{}, "No variables in session lab."},
		{"none known, busy", "", engine.Variables{Busy: "b1"}, "No variables are known in session lab yet; it is busy with job b1."},
		{"none known, silent", "", engine.Variables{Silent: true}, "No variables are known in session lab; its Python does not answer."},
		{"lost", "", engine.Variables{Lost: &engine.Loss{Job: "l1", How: "was killed"}}, "No variables: session lab's Python was killed after job l1."},
		{"lost, and a pattern", "x*", engine.Variables{Lost: &engine.Loss{Job: "l1", How: "was killed"}}, "No variables: session lab's Python was killed after job l1."},
		{"those of now", "", engine.Variables{Total: 1, Vars: some}, "Session: lab|Variables: 1||x"},
		{"busy", "", engine.Variables{Total: 1, Vars: some, Busy: "b1", AsOf: "a1"}, "Session: lab|Variables: 1|As of: job a1; the session is busy with job b1||x"},
		{"busy since the first job", "", engine.Variables{Total: 1, Vars: some, Busy: "b1"}, "Session: lab|Variables: 1|As of: before job b1, with which the session is busy||x"},
		{"silent", "", engine.Variables{Total: 1, Vars: some, Silent: true, AsOf: "a1"}, "Session: lab|Variables: 1|As of: job a1; Python does not answer||x"},
		{"a pattern", "x*", engine.Variables{Total: 1, Vars: some}, "Session: lab|Variables: 1 that match x*||x"},
		{"a pattern that matches none", "y*", engine.Variables{}, "Session: lab|Variables: 0 that match y*"},
		{"a name that matches none", "y", engine.Variables{}, "Session: lab|Variables: 0 that match y, which stands for the whole name; try y*"},
		{"more than were sent", "", engine.Variables{Total: 1200, Vars: some}, "Session: lab|Variables: 1,200|Omitted: 1,199 variables||x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.TrimSpace(variablesReply("lab", tt.pattern, tt.vars, 1000).String())
			if got = strings.ReplaceAll(got, "\n", "|"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Each kind of value is described in the words of its type.
func TestVariablesAreDescribed(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	for _, tt := range []struct {
		v    engine.Variable
		want string
	}{
		{engine.Variable{Name: "a"}, "a"},
		{engine.Variable{Name: "a", Type: "int", Value: "1"}, "a: int = 1"},
		{engine.Variable{Name: "a", Type: "str", Len: n(1), Value: "'x'"}, "a: str, 1 character = 'x'"},
		{engine.Variable{Name: "a", Type: "bytearray", Len: n(2)}, "a: bytearray, 2 bytes"},
		{engine.Variable{Name: "a", Type: "list", Len: n(12000)}, "a: list, 12,000 items"},
		{engine.Variable{Name: "a", Type: "list", Len: n(0), Value: "[]"}, "a: list, 0 items = []"},
		{engine.Variable{Name: "a", Type: "dict", Len: n(1), Value: "{1: 2}"}, "a: dict, 1 item = {1: 2}"},
		{engine.Variable{Name: "a", Type: "ndarray", Shape: []int64{7}}, "a: ndarray, shape (7,)"},
		{engine.Variable{Name: "a", Type: "ndarray", Shape: []int64{}}, "a: ndarray, shape ()"},
		{engine.Variable{Name: "a", Type: "str", Value: "'x\ny'"}, "a: str = 'x\\ny'"},
	} {
		text := variablesReply("lab", "", engine.Variables{Total: 1, Vars: []engine.Variable{tt.v}}, 1000).String()
		if _, got, _ := strings.Cut(strings.TrimSpace(text), "\n\n"); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

// The list stays within its room, names of modules included, and what is omitted is counted.
func TestListStaysWithinItsRoom(t *testing.T) {
	vars := engine.Variables{}
	for i := range 500 {
		vars.Vars = append(vars.Vars, engine.Variable{Name: fmt.Sprintf("name_%03d", i)})
		vars.Modules = append(vars.Modules, fmt.Sprintf("module_%03d", i))
	}
	vars.Total = 1000
	const room = 4000
	head, list, _ := strings.Cut(variablesReply("lab", "", vars, room).String(), "\n\n")
	if len(list) >= room {
		t.Errorf("the list has %d bytes, want less than %d", len(list), room)
	}
	shown := strings.Count(list, "name_") + strings.Count(list, "module_")
	if strings.Count(list, "name_") < 100 || strings.Count(list, "module_") < 100 {
		t.Errorf("variables and modules must share the room:\n%s", list)
	}
	if want := fmt.Sprintf("Omitted: %d variables", 1000-shown); !strings.HasSuffix(strings.TrimSpace(head), want) {
		t.Errorf("head %q, want %q in it", head, want)
	}
}

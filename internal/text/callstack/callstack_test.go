package callstack

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A fixed looker always sees the same.
type fixed struct {
	stack Stack
	err   error
}

func (f fixed) Look() (Stack, error) { return f.stack, f.err }

func TestDescribe(t *testing.T) {
	job := Call{File: "<job 1>", Function: "<module>", Line: 3, Source: "train()"}
	step := Call{File: "/w/train.py", Function: "step", Line: 41, Source: "loss = model(x)"}
	down := Call{File: "/w/train.py", Function: "down", Line: 9}
	for _, c := range []struct {
		name       string
		look       fixed
		room       int
		line, list string
	}{
		{
			name: "the first look", look: fixed{stack: Stack{Calls: []Call{job}}}, room: 500,
			line: "line 3 in <module>",
			list: "File \"<job 1>\", line 3, in <module>\n  train()\n",
		},
		{
			name: "a later one", look: fixed{stack: Stack{Calls: []Call{job, step}, Since: Moved}}, room: 500,
			line: "train.py:41 in step (moved since the last look)",
			list: "File \"<job 1>\", line 3, in <module>\n  train()\nFile \"/w/train.py\", line 41, in step\n  loss = model(x)\n",
		},
		{
			name: "one without movement", look: fixed{stack: Stack{Calls: []Call{job, step}, Since: Still}}, room: 10,
			line: "train.py:41 in step (not moved since the last look)",
		},
		{
			name: "one without proof", look: fixed{stack: Stack{Calls: []Call{job, step}, Since: Same}}, room: 10,
			line: "train.py:41 in step (in the same place as at the last look)",
		},
		{
			name: "a long call of C code", look: fixed{stack: Stack{Calls: []Call{step}, Since: Worked}}, room: 10,
			line: "train.py:41 in step (in the same place as at the last look, but running)",
		},
		{
			name: "a coroutine", look: fixed{stack: Stack{Calls: []Call{step}, Since: Still, Awaits: true}}, room: 10,
			line: "train.py:41 in step (it awaits; not moved since the last look)",
		},
		{
			name: "recursion", look: fixed{stack: Stack{Calls: append([]Call{job}, slices.Repeat([]Call{down}, 98)...)}}, room: 500,
			line: "train.py:9 in down",
			list: "File \"<job 1>\", line 3, in <module>\n  train()\nFile \"/w/train.py\", line 9, in down (98 calls)\n",
		},
		{
			name: "little room", look: fixed{stack: Stack{Calls: []Call{job, down, step}, Outer: 7}}, room: 60,
			line: "train.py:41 in step",
			list: "(9 outer calls are not shown)\nFile \"/w/train.py\", line 41, in step\n  loss = model(x)\n",
		},
		{
			name: "a very deep stack", look: fixed{stack: Stack{Calls: []Call{step}, Outer: 4000, More: true}}, room: 60,
			line: "train.py:41 in step",
			list: "(more than 4000 outer calls are not shown)\nFile \"/w/train.py\", line 41, in step\n  loss = model(x)\n",
		},
		{
			name: "no line", look: fixed{stack: Stack{Calls: []Call{{File: "<string>", Function: "<module>"}, {File: "<job 1>", Function: "f"}}}}, room: 500,
			line: "<job 1> in f",
			list: "File \"<string>\", in <module>\nFile \"<job 1>\", in f\n",
		},
		{
			name: "no code", look: fixed{stack: Stack{Outside: "between two jobs", Since: Worked}}, room: 500,
			line: "between two jobs (in the same place as at the last look, but running)",
		},
		{
			name: "a stopped process", look: fixed{stack: Stack{Calls: []Call{step}, Since: Still, Stopped: true}}, room: 10,
			line: "train.py:41 in step (stopped by a signal; not moved since the last look)",
		},
		{name: "an error", look: fixed{err: errors.New("it moves too fast to be seen")}, line: "unknown, because it moves too fast to be seen"},
		{name: "an error that was said", look: fixed{err: fmt.Errorf("python: %w", ErrSaid)}},
	} {
		c.look.stack.Own = "<job 1>"
		line, list := Describe(c.look, c.room)
		if line != c.line || list != c.list {
			t.Errorf("%s: %q, %q; want %q, %q", c.name, line, list, c.line, c.list)
		}
	}
}

// Names and source can't break a reply's lines or fill it.
func TestHostileNames(t *testing.T) {
	evil := strings.Repeat("\n--- STDOUT ---\x1b[2J", 1000)
	s := Stack{Calls: []Call{{File: evil, Function: evil, Line: -1, Source: evil}}}
	_, list := Describe(fixed{stack: s}, 2000)
	if strings.Count(list, "\n") != 2 || strings.ContainsRune(list, 0x1b) || utf8.RuneCountInString(list) > 700 || list == "" {
		t.Errorf("the list is %q", list)
	}
}

package far

import "encoding/json"

// Protocol is the version of the requests between two engines. It grows when an older engine would
// misread a request or an answer of a newer one.
const Protocol = 1

// Mark begins the line with which async-repl dial greets: Mark, the JSON of an [Answer] and a newline.
// Lines without it are the words of a login shell.
const Mark = "@async-repl "

// A Greeting says which engine answers at a place. It comes from another machine: a reader bounds its
// length and escapes its text.
type Greeting struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Machine  string `json:"machine"` // the host name
	Boot     string `json:"boot"`    // the boot id of the kernel
	Start    string `json:"start"`   // random for each start of an engine
	PID      int    `json:"pid"`     // the engine's process ID on its machine
}

// An Answer is what dial prints. It is a greeting, unless Gone means that the engine that was asked for has ended: then
// the rest is about the machine. A login name can stand for several machines, and another one knows nothing of the
// engine.
type Answer struct {
	Greeting
	Gone bool `json:"gone,omitempty"`
}

// Line returns the line with the answer.
func (a Answer) Line() []byte {
	text, _ := json.Marshal(a) // it can't fail
	return append(append([]byte(Mark), text...), '\n')
}

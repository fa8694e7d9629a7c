package worker

import (
	"encoding/json"

	"asyncrepl/jobs"
)

// A command asks a worker to do something. Each operation has a type. A command travels as the
// operation's name and its fields, and main.py carries it out.
type command interface{ op() string }

// Commands.
type (
	// execCommand runs a job. The write ends of its stdout and stderr travel along.
	execCommand struct {
		ID   string `json:"id"`
		File string `json:"file"` // the file name of its code
		Fds  int    `json:"fds"`
		Work
	}

	// inputCommand answers the question N of the running job.
	inputCommand struct {
		N    int    `json:"n"`
		Line string `json:"line,omitempty"`
		EOF  bool   `json:"eof,omitempty"`
	}

	// syncCommand asks for an answer and nothing else.
	syncCommand struct {
		N int `json:"n"`
	}

	// variablesCommand asks for the names of the namespace and what can be shown of their values.
	variablesCommand struct {
		N       int    `json:"n"`
		Pattern string `json:"pattern,omitempty"` // a pattern of fnmatch; empty: all names match
	}

	// importedCommand asks which of the modules the session has imported.
	importedCommand struct {
		N       int      `json:"n"`
		Modules []string `json:"modules"`
	}

	// forkCommand forks an idle worker. The worker's end of a new channel, a terminal and the
	// stdout and stderr of the new worker travel along.
	forkCommand struct {
		N       int    `json:"n"`
		Token   string `json:"token"`   // begins each event of the new worker
		Mark    string `json:"mark"`    // the new worker's ASYNC_REPL_JOB; descendants inherit it
		Session string `json:"session"` // the name of the session that is forked
		Fds     int    `json:"fds"`
	}

	// exitCommand asks an idle worker to exit as Python does.
	exitCommand struct{}
)

func (execCommand) op() string      { return "exec" }
func (inputCommand) op() string     { return "input" }
func (syncCommand) op() string      { return "sync" }
func (variablesCommand) op() string { return "variables" }
func (importedCommand) op() string  { return "imported" }
func (forkCommand) op() string      { return "fork" }
func (exitCommand) op() string      { return "exit" }

// An Event is a message of a worker: a value of one of the types below. Events about a job have a
// method Job; they are stale when that job is over.
type Event any

// An aboutJob is an event about a job.
type aboutJob struct {
	ID string `json:"id"`
}

// Job returns the id of the job that the event is about.
func (e aboutJob) Job() string { return e.ID }

// An answer is an event that answers the command of the same number.
type answer struct {
	N int `json:"n"`
}

func (a answer) to() int { return a.N }

// Events.
type (
	// helloEvent is a worker's first word.
	helloEvent struct {
		Version string `json:"version"`
	}

	// RaisedEvent says that the interrupt was raised in the job's code.
	RaisedEvent struct {
		aboutJob
		Handler bool `json:"handler"` // it was not raised: the code handles or ignores SIGINT
	}

	// QuestionEvent asks for a line of input.
	QuestionEvent struct {
		aboutJob
		N      int    `json:"n"`
		Kind   string `json:"kind"` // line or secret
		Prompt string `json:"prompt"`
		By     string `json:"by"`
	}

	// TakenEvent says that the worker has taken the answer to the question N.
	TakenEvent struct {
		aboutJob
		N int `json:"n"`
	}

	// ResumedEvent says that the question N was withdrawn.
	ResumedEvent struct {
		aboutJob
		N int `json:"n"`
	}

	// poolsEvent gives the read ends of the session's pipes for processes of pools.
	poolsEvent struct{ files []int }

	// loopEvent gives the descriptor by which the session's event loop waits: an epoll set, on Linux.
	loopEvent struct {
		FD int `json:"fd"`
	}

	// heldEvent says that the worker holds back text without a newline.
	heldEvent struct {
		Stream string `json:"stream"` // out or err
	}

	// DoneEvent says how a job ended.
	DoneEvent struct {
		aboutJob
		End         string   `json:"end"` // returned, exit or raised
		Code        int      `json:"code"`
		Error       string   `json:"error"`
		Hint        string   `json:"hint"`        // a jobs.Cause: "no module", "no python" or ""
		Memory      bool     `json:"memory"`      // the error says that memory was short
		Subject     string   `json:"subject"`     // the module or the line that the hint is about
		Interrupted bool     `json:"interrupted"` // the code may have had one, see interrupts.py
		Sockets     bool     `json:"sockets"`     // the session can have opened a socket
		Result      *string  `json:"result"`
		ResultCut   int      `json:"result_cut"` // characters that were left out
		Markdown    bool     `json:"markdown"`   // the result is text in Markdown
		Pending     int      `json:"pending"`
		Names       []string `json:"names"`  // nil: unchanged
		Hidden      *int     `json:"hidden"` // names with a leading underscore; nil: unknown

		// Form is "awaits" if the code has an await at top level, "uncompiled" if Python has not
		// accepted it, and else empty.
		Form string `json:"form"`

		Hashes map[string]string `json:"hashes"` // a [FileHash] for each file that the job has run

		// How the set of names has changed: the first ones, and the number of all.
		New       []string `json:"new"`
		NewCount  int      `json:"new_count"`
		Gone      []string `json:"gone"`
		GoneCount int      `json:"gone_count"`

		DisplaysLeft int `json:"displays_left"` // displays that were not sent because of the limits

		Exception json.RawMessage `json:"exception"` // see [DoneEvent.Raised]
	}

	syncEvent struct{ answer }

	variablesEvent struct {
		answer
		Namespace
	}

	importedEvent struct {
		answer
		Modules []string `json:"modules"`
	}

	// forkedEvent says that the worker was forked, or why not.
	forkedEvent struct {
		answer
		Error  string   `json:"error"`
		Shared []string `json:"shared"` // things that the two workers share, in words
	}

	// unsupportedEvent answers a command that the worker does not know.
	unsupportedEvent struct {
		answer
		Op string `json:"op"`
	}
)

// maxException bounds the description of an exception, because the receipts of ended jobs are kept.
// The worker keeps it below that.
const maxException = 128 << 10

// Raised returns the exception that ended the job, or nil.
func (e DoneEvent) Raised() *jobs.Exception {
	x := new(jobs.Exception)
	if len(e.Exception) == 0 || len(e.Exception) > maxException || json.Unmarshal(e.Exception, x) != nil || x.Type == "" {
		return nil
	}
	return x
}

// decoders decode the fields of an event, by its name.
var decoders = map[string]func([]byte) (Event, error){
	"hello":       decode[helloEvent],
	"raised":      decode[RaisedEvent],
	"input":       decode[QuestionEvent],
	"taken":       decode[TakenEvent],
	"resumed":     decode[ResumedEvent],
	"held":        decode[heldEvent],
	"pools":       decode[poolsEvent],
	"loop":        decode[loopEvent],
	"display":     decode[displayEvent],
	"done":        decode[DoneEvent],
	"sync":        decode[syncEvent],
	"variables":   decode[variablesEvent],
	"imported":    decode[importedEvent],
	"forked":      decode[forkedEvent],
	"unsupported": decode[unsupportedEvent],
}

func decode[E Event](fields []byte) (Event, error) {
	var e E
	err := json.Unmarshal(fields, &e)
	return e, err
}

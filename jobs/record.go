package jobs

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/callstack"
)

// A Spec describes a job.
type Spec struct {
	Kind    Kind   `json:"kind"`
	Session string `json:"session,omitempty"` // empty: none
	Title   string `json:"title"`             // one line for lists

	// Code is the code or the command that the job runs, its first 16 KiB. It is empty if the title is
	// all of it. CodeBytes is the length of the complete code, also in records that are kept without it.
	Code      string `json:"code,omitempty"`
	CodeBytes int    `json:"code_bytes,omitempty"`

	Timeout time.Duration `json:"timeout_ns,omitempty"` // limits the time in Running; 0: no limit

	// Spare makes the timeout keep the variables of a Python session, see [Stop.Spare]. It is set
	// if the client chose the timeout: a guess that was too short must not cost hours of work.
	Spare bool `json:"spare,omitempty"`
	// Aside marks a Python job that only asks for something. It is left out of the code that the
	// session ran.
	Aside bool `json:"aside,omitempty"`

	// Keep lets the job continue when the client that started it has said goodbye.
	Keep bool `json:"keep,omitempty"`

	// Place is the place at which the job runs, see [Port.Mirror]. Empty: it runs here.
	Place string `json:"place,omitempty"`

	Site  string `json:"site,omitempty"`  // the environment that an install changes; empty: none
	Holds bool   `json:"holds,omitempty"` // the Python jobs of its session wait for this install
}

// codeKept bounds the code in a record, in bytes, because ended jobs are kept for long.
const codeKept = 16 << 10

// keepCode leaves of the code what a record keeps.
func (s *Spec) keepCode() {
	if strings.TrimSpace(s.Code) == s.Title {
		s.Code = ""
	}
	if s.CodeBytes = len(s.Code); s.CodeBytes > codeKept {
		end := codeKept
		for end > 0 && !utf8.RuneStart(s.Code[end]) {
			end--
		}
		s.Code = strings.Clone(s.Code[:end]) // the rest need not stay in memory
	}
}

// RecordVersion is the version of a [Record] that this program makes. It grows when a field changes
// its meaning, but not when a field is added.
const RecordVersion = 1

// A Record is a snapshot of a job. It is plain data: its JSON reads back as what was written, except
// that bytes that are no UTF-8 become U+FFFD. Durations are in nanoseconds, cursors and sizes in
// bytes.
type Record struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Spec
	Status   Status    `json:"status"`
	Question *Question `json:"question,omitempty"` // set while WaitingInput
	// Accepts and Stopped are set only in Running. Accepts is a program that would take input if
	// there were any. Stopped is a program that was stopped because it read the terminal in the
	// background.
	Accepts Reader `json:"reader,omitzero"`
	Stopped string `json:"stopped,omitempty"`
	Asked   int    `json:"asked,omitempty"` // how often it has begun to wait for input
	// Answered is when a person last typed something for it. Without it, the agent would answer a
	// question that is no longer open.
	Answered   time.Time `json:"answered_by_person,omitzero"`
	Cancelling Rung      `json:"cancelling,omitempty"` // set while a stop is under way
	Receipt    Receipt   `json:"receipt,omitzero"`     // set once Status is final
	HasResult  bool      `json:"has_result,omitempty"`
	// Result has the first 32,000 characters of the result; the output ends with all of it.
	// ResultChars is the length of the complete result, if Result is not all of it.
	Result      string `json:"result,omitempty"`
	ResultChars int    `json:"result_chars,omitempty"`
	// Listening has what was opened since the job was started. It is nil once Status is final.
	Listening []Listener `json:"listening,omitempty"`
	// Denied has what the proxy of the sandbox has refused the job's processes.
	Denied Denied `json:"denied,omitzero"`
	// Where says more about the place at which the job has run: "Slurm job 812, node n2". It is set with the end.
	Where    string `json:"where,omitempty"`
	PID      int    `json:"pid,omitempty"`      // the process in the foreground; 0: unknown
	Terminal *Size  `json:"terminal,omitempty"` // the size of its terminal; nil if it has none

	Created time.Time   `json:"created"`
	Started time.Time   `json:"started,omitzero"`
	Ended   time.Time   `json:"ended,omitzero"` // zero also if its server was killed: the time is unknown
	Output  output.Stat `json:"output"`
	// Cleared is the cursor up to which the job has replaced its output, see [Port.Clear].
	Cleared int64 `json:"cleared,omitempty"`

	// Unknown holds the fields that a newer version of this program wrote. They are written back, so
	// that a record that an older version keeps loses nothing.
	Unknown map[string]json.RawMessage `json:"-"`
}

// Asks reports whether the job waits for an answer. A job that is being stopped does not: it ends
// without one.
func (r *Record) Asks() bool { return r.Status == WaitingInput && r.Cancelling == "" }

// MarshalJSON writes the record with its unknown fields.
func (r Record) MarshalJSON() ([]byte, error) {
	type plain Record // has no methods
	if len(r.Receipt.Unknown) > 0 {
		return marshalWith(plain(r), r.Unknown)
	}
	// Each job is written twice, and the JSON of a method is read again by its caller. The outer of
	// two fields with one name counts.
	type plainReceipt Receipt
	return marshalWith(struct {
		plain
		Receipt plainReceipt `json:"receipt,omitzero"`
	}{plain(r), plainReceipt(r.Receipt)}, r.Unknown)
}

// UnmarshalJSON reads a record, of a newer version, too.
func (r *Record) UnmarshalJSON(b []byte) (err error) {
	type plain Record
	r.Unknown, err = unmarshalKnown(b, (*plain)(r))
	return err
}

// Live holds the ways to ask a running job about itself. A field is nil if the runner set none.
type Live struct {
	Probe  Probe            // measures its processes
	Looker callstack.Looker // shows where its code is
	Hold   Holder           // says why a stop has not ended it
	// OnLoop returns the addresses that are served by an event loop that runs only while the code
	// awaits.
	OnLoop func() []string
	Link   func() Link // says what is known of the way to the job's place; nil: the job runs here
}

// A Hold says why a stop that spares a session's variables has not ended its job yet.
type Hold struct {
	Why       string // "waiting for numpy.linalg.svd to return"
	Reached   bool   // the code has had the interrupt, and continues: another stop repeats it
	Variables int    // the number of variables that a higher rung would cost
}

// A Holder returns the present Hold of a job, or false if nothing holds it.
type Holder func() (Hold, bool)

// marshalWith returns the JSON of a struct with fields added.
func marshalWith(known any, unknown map[string]json.RawMessage) ([]byte, error) {
	b, err := json.Marshal(known)
	if err != nil || len(unknown) == 0 {
		return b, err
	}
	more, err := json.Marshal(unknown)
	return bytes.Join([][]byte{bytes.TrimSuffix(b, []byte("}")), bytes.TrimPrefix(more, []byte("{"))}, []byte(",")), err
}

// unmarshalKnown reads a JSON object into the struct that known points to, and returns the fields
// that the struct does not have.
func unmarshalKnown(b []byte, known any) (unknown map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(b, known); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &unknown); err != nil {
		return nil, err
	}
	for _, name := range namesOf(reflect.TypeOf(known).Elem()) {
		delete(unknown, name)
	}
	if len(unknown) == 0 {
		return nil, nil
	}
	return unknown, nil
}

// fieldNames has what namesOf has returned: a list of past jobs reads a thousand records.
var fieldNames sync.Map

// namesOf returns the names that the fields of a struct have in JSON.
func namesOf(known reflect.Type) (names []string) {
	if names, ok := fieldNames.Load(known); ok {
		return names.([]string)
	}
	for _, field := range reflect.VisibleFields(known) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	fieldNames.Store(known, names)
	return names
}

package jobs

// An Exception describes an exception of Python, as programs read it. Causes follow its __cause__
// and __context__: https://docs.python.org/3/library/exceptions.html#exception-context
type Exception struct {
	// Relation is the relation to the one before it in Causes: cause or context.
	Relation string   `json:"relation,omitempty"`
	Type     string   `json:"type"` // the class, with its module unless it is built in
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"` // the interpreter's suggestion: Did you mean: 'x'?
	Notes    []string `json:"notes,omitempty"`

	Position      *Position `json:"position,omitempty"` // set for a SyntaxError
	Frames        []Frame   `json:"frames,omitempty"`   // outermost first
	OmittedFrames int       `json:"omitted_frames,omitempty"`

	Causes  []Exception `json:"causes,omitempty"`     // those that led to it, the newest first
	Members []Exception `json:"exceptions,omitempty"` // the members of an ExceptionGroup
}

// A Frame is a line of a traceback.
type Frame struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
	Source   string `json:"source,omitempty"`
}

// A Position is where code can't be compiled. Lines and columns begin with 1; 0 is unknown.
type Position struct {
	File      string `json:"file,omitempty"`
	Line      int    `json:"line"`
	Column    int    `json:"column,omitempty"`
	EndLine   int    `json:"end_line,omitempty"`
	EndColumn int    `json:"end_column,omitempty"`
	Source    string `json:"source,omitempty"`
}

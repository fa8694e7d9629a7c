package notebook

// A Notebook is what a session ran, in order.
type Notebook struct {
	Session string
	Cells   []Cell
}

// The formats, by the extensions of their files.
const (
	Jupyter = ".ipynb"
	Script  = ".py" // a script has no outputs
)

// Encode returns the content of a file with that extension.
func (n *Notebook) Encode(ext string) ([]byte, error) {
	if ext == Script {
		return n.script(), nil
	}
	return n.ipynb()
}

// A Cell is a piece of code with its outputs, or a text.
type Cell struct {
	// ID is unique in the notebook: at most 64 letters, digits, - and _.
	// https://jupyter.org/enhancement-proposals/62-cell-id/cell-id.html
	ID string

	Text string // if not empty, the cell is this Markdown, and no field below is set

	Code    string
	Count   int    // the number of the execution; 0 if the cell has none
	Title   string // one line that says which job it was and how it ended
	Awaits  bool   // the code awaits at top level
	Comment string // why the code is written as a comment; empty if it stays code
	Raises  string // the class of the exception that ends the code; empty if none does
	Outputs []Output
}

// An Output is a stream, an error or a display.
type Output struct {
	Stream string // stdout or stderr; empty if the output is no stream

	Text string // what the stream holds, or the error's message

	Name      string   // the error's class or status; empty if the output is no error
	Traceback []string // the lines of the error's traceback

	Items  []Item // the display in one or several formats
	Result bool   // the display is the value of the last expression
}

// An Item is one format of a display.
type Item struct {
	MIME string
	Data []byte
}

package notebook

// A Notebook is what a session ran, in order.
type Notebook struct {
	Session string
	Cells   []Cell
}

// The formats, by the extensions of their files.
const (
	Jupyter = ".ipynb"
	Script  = ".py" // without outputs
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
	ID   string // unique; letters, digits, - and _, at most 64
	Text string // not empty: Markdown, and nothing below is set

	Code    string
	Count   int    // the number of the execution; 0: none
	Title   string // one line: which job it was and how it ended
	Awaits  bool   // it awaits at top level
	Comment string // why the code is written as a comment; empty: it is code
	Raises  string // the class of the exception that ends it; empty: none does
	Outputs []Output
}

// An Output is a stream, an error or a display.
type Output struct {
	Stream string // stdout or stderr; Text is what it holds

	Text string

	Name      string   // not empty: an error, and Text is its message
	Traceback []string // of the error, in lines

	Items  []Item // a display, in one or several formats
	Result bool   // it is the value of the last expression
}

// An Item is one format of a display.
type Item struct {
	MIME string
	Data []byte
}

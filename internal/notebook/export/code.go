package export

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"asyncrepl/internal/notebook"
	"asyncrepl/internal/text/pattern"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl"
)

// cell returns the code of a job as a cell. It reports false if the job needs no cell: a request
// that only reads variables, or has not completed, changed nothing.
func cell(e *pyrepl.Entry, script bool) (notebook.Cell, bool) {
	c := notebook.Cell{ID: e.Job, Code: e.Code(), Awaits: e.Awaits, Comment: harm(e), Raises: raises(e.Receipt)}
	if q := e.Work.Request; q != nil {
		c.Code = strings.TrimSuffix(request(q), "\n")
		return c, c.Code != "" && !e.Ended.IsZero() && e.Receipt.Status() == jobs.Completed
	}
	isFile := e.Work.Path != "" && filepath.Ext(e.Work.Path) != ".ipynb"
	switch {
	case c.Comment != "":
	case isFile && (script || strings.ContainsAny(c.Code, expanded)):
		c.Code = fileRun(e.Work.Path, e.Work.Args)
	case script && e.Uncompiled:
		c.Comment = "Python does not run this"
	}
	return c, true
}

// harm says why nothing should run the code of a job again, or returns "": it can end what runs it,
// or run without end, as it did in the session.
func harm(e *pyrepl.Entry) string {
	switch rec := e.Receipt; {
	case e.Ended.IsZero():
	case rec.Stop != nil || len(rec.Rungs) > 0:
		return "This was stopped"
	case rec.State == jobs.Lost:
		return "Python ended while this ran"
	case e.Unread:
		return "This file could not be read" // a FIFO or a device can be read without end
	}
	return ""
}

// raises returns the class of the exception that has ended a job, or "".
func raises(rec jobs.Receipt) string {
	switch {
	case rec.Stop != nil || rec.State == jobs.Lost:
	case rec.End == jobs.Raised || rec.End == jobs.OutOfMemory:
		return "Exception"
	case rec.End == jobs.Exited:
		return "SystemExit"
	}
	return ""
}

// expanded are the characters that IPython expands or interprets in a line %run:
// https://ipython.readthedocs.io/en/stable/interactive/magics.html#magic-run
const expanded = "\n\r{}$*?[]~"

// fileRun returns code that runs a file as a job does, because plain Python has no %run. The file
// shares the namespace, and can end with sys.exit.
func fileRun(path string, args []string) string {
	argv := []string{strconv.Quote(path)}
	for _, arg := range args {
		argv = append(argv, strconv.Quote(arg))
	}
	return fmt.Sprintf(`import os, sys
__file__, sys.argv = os.path.abspath(%s), [%s]
sys.path.insert(0, os.path.dirname(__file__))
try:
    exec(compile(open(__file__, "rb").read(), __file__, "exec", dont_inherit=True))
except SystemExit:
    pass`, argv[0], strings.Join(argv, ", "))
}

// deleteAll deletes all variables but the names that Python and Jupyter need.
const deleteAll = `for _name in [name for name in globals() if not name.startswith("_")]:
    del globals()[_name]`

// plainName matches a name that Python reads as it is written.
var plainName = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)

// request returns code that changes variables as the request q does, or "" if q changes none.
func request(q *pyrepl.Request) string {
	switch {
	case q.Do == "set":
		return q.Name + " = " + literal(strings.TrimSpace(q.Value))
	case q.Do == "delete" && q.All:
		return deleteAll
	case q.Do == "delete":
		var b strings.Builder
		for i, name := range q.Names {
			switch {
			case slices.Contains(q.Names[:i], name):
			case plainName().MatchString(name):
				b.WriteString("del " + name + "\n")
			default:
				fmt.Fprintf(&b, "globals().pop(%q, None)\n", name)
			}
		}
		return b.String()
	}
	return ""
}

// nested is how deep brackets can be nested so that the parser of every Python reads them.
const nested = 50

// tokens matches the words that Python spells differently than JSON, and strings and brackets.
var tokens = pattern.Lazy(`"(?:[^"\\]|\\.)*"|true|false|null|[\[\]{}]`)

// foreign matches escapes in a string that Python reads differently than JSON.
var foreign = pattern.Lazy(`\\(/|u[dD][89a-fA-F])`)

// literal returns a JSON text as Python code. If that would not be the same value, the code reads
// the text: surrogates, escapes that Python does not have, deep nesting.
func literal(text string) string {
	same, depth := true, 0
	code := tokens().ReplaceAllStringFunc(text, func(token string) string {
		switch token {
		case "true", "false":
			return strings.ToUpper(token[:1]) + token[1:]
		case "null":
			return "None"
		case "[", "{":
			depth++
			same = same && depth <= nested
		case "]", "}":
			depth--
		default:
			same = same && !foreign().MatchString(token)
		}
		return token
	})
	if same {
		return code
	}
	return `__import__("json").loads(` + strconv.QuoteToASCII(text) + ")"
}

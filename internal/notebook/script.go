package notebook

import (
	"fmt"
	"strconv"
	"strings"

	"asyncrepl/internal/text/pattern"
)

// scriptHead is the format of a script's first line. By this line the worker recognizes an export,
// which may await at top level (EXPORT in pyrepl/worker/scripts.py).
const scriptHead = "# Session %q, exported by async-repl\n"

// awaitsNote stands above code that awaits.
const awaitsNote = "# This cell awaits at top level: Jupyter, IPython and execute_python run it, plain Python does not.\n"

// script returns the notebook as Python code in cells. Its outputs are left out.
func (n *Notebook) script() []byte {
	var futures []string
	var body strings.Builder
	for _, c := range n.Cells {
		if c.Text != "" {
			body.WriteString("\n# %% [markdown]\n" + commented(c.Text))
			continue
		}
		fmt.Fprintf(&body, "\n# %%%% %s\n", oneLine(c.Title))
		code := c.source()
		if c.Comment != "" {
			body.WriteString(code)
			continue
		}
		if c.Awaits {
			body.WriteString(awaitsNote)
		}
		moved, rest := takeFutures(code)
		futures = append(futures, moved...)
		if c.Raises != "" && (indentable(rest) || !c.Awaits) {
			rest = guarded(rest, c.Raises)
		}
		body.WriteString(rest)
		if !strings.HasSuffix(rest, "\n") {
			body.WriteString("\n")
		}
	}
	return []byte(fmt.Sprintf(scriptHead, n.Session) + strings.Join(futures, "") + body.String())
}

// source returns the code as both formats write it: commented out if the cell has a Comment.
func (c *Cell) source() string {
	if c.Comment != "" {
		return "# " + oneLine(c.Comment) + ", so it is a comment here:\n" + commented(c.Code)
	}
	code := newlines.Replace(c.Code)
	if c.Raises == "SystemExit" && exits().MatchString(code) {
		if futures, rest := takeFutures(code); !strings.Contains(rest, "__future__") {
			return strings.Join(futures, "") + exitNote + rest
		}
	}
	return code
}

// exits matches calls of exit and quit. In Jupyter they end the kernel (jupyter/notebook#4400); in
// plain Python they close the standard input:
// https://github.com/python/cpython/blob/main/Lib/_sitebuiltins.py
var exits = pattern.Lazy(`(^|[^.\w])(exit|quit)\(`)

// exitNote stands above code that calls exit or quit.
const exitNote = "from sys import exit, exit as quit  # Jupyter's own would end its kernel\n"

// indentable reports whether indenting code changes nothing else: no string spans several lines.
func indentable(code string) bool {
	return !strings.Contains(code, `"""`) && !strings.Contains(code, "'''") && !strings.Contains(code, "\\\n")
}

// guarded returns code that continues after an exception of a class, as the session did.
func guarded(code, class string) string {
	if !indentable(code) {
		code = "exec(" + strconv.QuoteToASCII(code) + ")"
	}
	var b strings.Builder
	b.WriteString("try:\n")
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
	}
	b.WriteString("except " + class + ":\n    __import__(\"traceback\").print_exc()\n")
	return b.String()
}

// newlines replaces every end of a line by \n, as Python does when it reads code:
// https://docs.python.org/3/reference/lexical_analysis.html#physical-lines
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// oneLine returns s without characters that end a line of Python.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", "\x00", " ").Replace(s)
}

// commented returns the lines of s as comments.
func commented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(newlines.Replace(s)) {
		b.WriteString(strings.TrimRight("# "+oneLine(strings.TrimSuffix(line, "\n")), " ") + "\n")
	}
	return b.String()
}

// takeFutures returns the lines with __future__ imports at the beginning of code, and code without
// these lines. In a script they must stand before all other statements:
// https://docs.python.org/3/reference/simple_stmts.html#future-statements
func takeFutures(code string) (futures []string, rest string) {
	var kept strings.Builder
	at := 0
	for line := range strings.Lines(code) {
		bare := strings.TrimSpace(line)
		if strings.HasPrefix(bare, "from __future__ import ") && !strings.ContainsAny(bare, `(\;`) {
			futures = append(futures, bare+"\n")
		} else if bare == "" || bare[0] == '#' {
			kept.WriteString(line)
		} else {
			break
		}
		at += len(line)
	}
	return futures, kept.String() + code[at:]
}

package pystack_test

import (
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"testing"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/test/must"
)

// tables prints the table of lines of each code object of two modules, its first line, and the
// instructions and lines that Python reads there. It does not import these modules.
const tables = `
import dis, json, os, sys
old = sys.version_info < (3, 10)
out = []
def add(code):
    table = code.co_lnotab if old else code.co_linetable
    if old:
        lines = list(dis.findlinestarts(code))
    else:
        lines = [(start, line) for start, end, line in code.co_lines() if line is not None and start < end]
    spans = []
    if hasattr(code, "co_positions"):
        for i, (line, end_line, column, end_column) in enumerate(code.co_positions()):
            if None not in (line, end_line, column, end_column) and end_column:
                spans.append([2 * i, line, column, end_line, end_column])
    out.append({"table": table.hex(), "first": code.co_firstlineno, "lines": lines, "spans": spans})
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            add(const)
for module in ("asyncio/tasks.py", "argparse.py"):
    path = os.path.join(os.path.dirname(os.__file__), module)
    add(compile(open(path, encoding="utf-8").read(), "x", "exec"))
print(json.dumps({"minor": sys.version_info[1], "codes": out}))
`

// The lines and the places of expressions are those that each Python reads in its own tables.
func TestLinesAreThoseOfPython(t *testing.T) {
	for _, python := range interpreters(t) {
		text := must.Get(exec.Command(python.path, "-I", "-S", "-c", tables).Output())(t)
		var said struct {
			Minor int
			Codes []struct {
				Table string
				First int
				Lines [][2]int
				Spans [][5]int
			}
		}
		must.Do(t, json.Unmarshal(text, &said))
		n, spans := 0, 0
		for _, c := range said.Codes {
			table := must.Get(hex.DecodeString(c.Table))(t)
			for _, s := range c.Spans {
				spans++
				want := pystack.Span{Line: s[1], Column: s[2], EndLine: s[3], EndColumn: s[4]}
				if _, got := pystack.Location(table, c.First, s[0]); got != want {
					t.Fatalf("%s: the expression at %d of the code of line %d is at %v; want %v", python.version, s[0], c.First, got, want)
				}
			}
			for _, l := range c.Lines {
				n++
				if got := pystack.LineIn(said.Minor, table, c.First, l[0]); got != l[1] {
					t.Fatalf("%s: the instruction at %d of the code of line %d is on line %d; want %d", python.version, l[0], c.First, got, l[1])
				}
			}
		}
		if n < 1000 || said.Minor >= 11 && spans < 1000 {
			t.Errorf("%s: only %d lines and %d expressions were compared", python.version, n, spans)
		}
	}
}

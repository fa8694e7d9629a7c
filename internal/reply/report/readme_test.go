package report

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/readmetest"
	"asyncrepl/jobs"
)

var update = flag.Bool("update", false, "rewrite the generated parts of README.md and docs")

const page = "docs/replies.md"

// recordExample is the record of some job, in Markdown.
func recordExample(t *testing.T) string {
	t.Helper()
	created := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	const written = 4210
	record := jobs.Record{
		ID:     "01M0WZ5JN3Q0R1ZC5D0J8V7K2T",
		Spec:   jobs.Spec{Kind: jobs.Shell, Title: "npm test; make check", Timeout: 30 * time.Second},
		Status: jobs.Failed, Created: created, Started: created.Add(2 * time.Millisecond), Ended: created.Add(4202 * time.Millisecond),
		Output: output.Stat{End: written, Final: written, Last: created.Add(3 * time.Second)},
		Receipt: jobs.Receipt{
			End: jobs.Exited, Code: 2, By: jobs.Program,
			HungUp: []jobs.Process{{PID: 812, Program: "npm"}},
		},
	}
	b := must.Get(json.MarshalIndent((&Reporter{}).Document(record, jobs.Live{}, nil, nil), "", "  "))(t)
	return "```json\n" + string(b) + "\n```\n"
}

// The page says what each header line of a reply about a job means.
func TestDocsExplainReplyLines(t *testing.T) {
	_, section, _ := strings.Cut(readmetest.Text(t, page), "\n## Lines\n")
	section, _, _ = strings.Cut(section, "\n## ")
	found := 0
	explain := func(path string, e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		found++
		if name := strings.Trim(lit.Value, `"`); !strings.Contains(section, "`"+name+":`") {
			t.Errorf("%s writes a line %q, which %s does not explain under Lines", path, name, page)
		}
	}
	// The others write lines of lists, which explain themselves.
	for _, path := range []string{"job.go", "progress.go", "question.go", "receipt.go", "notices.go", "display.go", "../../mcp/server/input.go", "../search/reply.go", "../waits/reply.go"} {
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Line" || sel.Sel.Name == "Processes") && len(call.Args) > 1 {
					explain(path, call.Args[0])
				}
			}
			return true
		})
	}
	if found < 15 {
		t.Errorf("only %d lines were found", found)
	}
}

func TestDocsShowARecord(t *testing.T) { readmetest.Part(t, page, "record", recordExample(t), *update) }

func TestDocsNameWhatProgramsRead(t *testing.T) {
	text := readmetest.Text(t, page)
	for _, part := range []any{documentQuestion{}, documentUsage{}} {
		for typ, i := reflect.TypeOf(part), 0; i < typ.NumField(); i++ {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s does not name %s of a %s", page, name, typ.Name())
			}
		}
	}
}

package report

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A reply about a flood is short. A page of text is not, and what fits is shown as it is.
func TestFloodsAreShort(t *testing.T) {
	repeat := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
		}
		return b.String()
	}
	file := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Repeat(string(b), 1+20_000/len(b))
	}
	tests := repeat(1000, func(i int) string {
		name := fmt.Sprintf("Test%c%s%d", 'A'+i%26, strings.Repeat("x", i%7), i)
		return "=== RUN   " + name + "\n=== RUN   " + name + "/case\n--- PASS: " + name + " (0.00s)\n    --- PASS: " + name + "/case (0.00s)\n"
	})
	optuna := func(i int) string {
		return fmt.Sprintf("[I 2026-11-26 01:02:03,%d] Trial %d finished with value: %v and parameters: {'x': %v}. Best is trial 3 with value: 0.1.\n", i, i, 1/float64(i+1), float64(i)/7)
	}
	const fails, bad = "--- FAIL: TestTotal (0.00s)\n", "main.c:3:5: error: 'x' undeclared\n"
	document := file("job.go")
	for _, tt := range []struct {
		name   string
		kind   jobs.Kind
		text   string
		result string
		fails  bool
		short  bool
		stderr bool // the text is standard error
	}{
		{"tests that pass", jobs.Shell, tests, "", false, true, false},
		{"tests that fail", jobs.Shell, tests[:len(tests)/2] + fails + tests[len(tests)/2:], "", true, true, false},
		{"a build that fails", jobs.Shell, document + bad + document, "", true, true, false},
		{"a build that fails at its begin", jobs.Shell, bad + document, "", true, true, false},
		{"warnings", jobs.Python, repeat(1000, func(i int) string {
			return fmt.Sprintf("<job 01M8A26GJME88Y3MYDSSFHENM4>:3: UserWarning: value %d\n  warnings.warn(f\"value {i}\")\n", i)
		}), "", false, true, false},
		{"optuna", jobs.Python, repeat(300, optuna), "", false, true, false},
		{"optuna with the usual number of trials", jobs.Python, repeat(130, optuna), "", false, true, true},
		{"as much of it on standard output", jobs.Python, repeat(130, optuna), "", false, false, false},
		{"a document on standard error", jobs.Python, document, "", false, false, true},
		{"a million numbers", jobs.Python, "", "[" + repeat(1_000_000, func(i int) string { return fmt.Sprintf("%d, ", i) }) + "]", false, true, false},
		{"a list that nearly fits", jobs.Shell, tests[:25_000], "", false, false, false},
		{"code", jobs.Shell, document, "", false, false, false},
		{"a document", jobs.Shell, file("../../../docs/replies.md"), "", false, false, false},
		{"differences", jobs.Shell, "+" + strings.ReplaceAll(document, "\n", "\n+"), "", true, false, false},
		{"a document and an exception", jobs.Python, document + "Traceback (most recent call last):\nValueError: bad\n", "", true, false, false},
		{"tests that fit", jobs.Shell, tests[:15_000], "", true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := script{
				write: func(p *jobs.Port) {
					if tt.stderr {
						errs(p, tt.text)
					} else {
						out(p, tt.text)
					}
				},
				result: tt.result,
				fails:  tt.fails,
			}
			j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: tt.kind}, r)
			jobstest.End(t, j)
			var rp Reporter
			w := Window{MaxChars: 16_000, FloodMax: 4000}
			got := rp.Job(j, w)
			if n := got.Chars(); tt.short != (n <= 4000) || !tt.short && n < 12_000 || n < 3000 {
				t.Errorf("%d characters:\n%.3000s", n, got)
			}
			if strings.Contains(tt.text, bad) && !strings.Contains(got.String(), strings.TrimSuffix(bad, "\n")) {
				t.Errorf("without the error:\n%s", got)
			}
			if w.Part = Forward; rp.Job(j, w).Chars() < 12_000 {
				t.Error("a page from a cursor is short, too")
			}
			if got := rp.Job(j, Window{MaxChars: 16_000}); got.Chars() < 12_000 {
				t.Errorf("with max_chars it has %d characters", got.Chars())
			}
		})
	}
}

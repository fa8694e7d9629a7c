package report_test

import (
	"encoding/json"
	"fmt"
	"time"

	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// A job is shown as a line of a list and as JSON.
func Example() {
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	var rp report.Reporter
	record := jobs.Record{
		ID: "01M0WZ5JN3Q0R1ZC5D0J8V7K2T", Spec: jobs.Spec{Kind: jobs.Shell, Title: "npm init"},
		Status: jobs.WaitingInput, Created: start,
		Question: &jobs.Question{Kind: "line", Prompt: "package name: ", By: "node (pid 812)"},
	}
	fmt.Println(rp.Line(record))

	b, err := json.Marshal(rp.Document(record, jobs.Live{}, nil, nil).Question)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(string(b))
	// Output:
	// 01M0WZ5JN3Q0R1ZC5D0J8V7K2T waiting_input, shell: npm init (asks "package name: ")
	// {"kind":"line","prompt":"package name: ","by":"node (pid 812)"}
}

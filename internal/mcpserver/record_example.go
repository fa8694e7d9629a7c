package mcpserver

import (
	"encoding/json"
	"time"

	"asyncrepl/jobs"
)

// RecordExample returns the record of some job, in Markdown, for the README.
func RecordExample() string {
	created := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	const output = 4210
	info := jobs.Info{
		ID:     "01M0WZ5JN3Q0R1ZC5D0J8V7K2T",
		Spec:   jobs.Spec{Kind: jobs.Shell, Title: "npm test; make check", Timeout: 30 * time.Second},
		Status: jobs.Failed, Created: created, Started: created.Add(2 * time.Millisecond), LastOutput: created.Add(3 * time.Second), Ended: created.Add(4202 * time.Millisecond),
		Output: jobs.LogStat{End: output, Final: output},
		Receipt: jobs.Receipt{
			End: jobs.Exited, Code: 2, By: jobs.Program,
			HungUp: []jobs.Process{{PID: 812, Program: "npm"}},
		},
	}
	b, err := json.MarshalIndent((&reporter{}).record(info), "", "  ")
	if err != nil {
		panic(err) // a record can always be encoded
	}
	return "```json\n" + string(b) + "\n```\n"
}

package main

import (
	"fmt"

	"asyncrepl/internal/release/wheel"
)

const metadata = `Metadata-Version: 2.4
Name: async-repl
Version: %s
Summary: An MCP server that gives a coding agent a persistent Python and real terminals
Keywords: mcp,agent,repl,terminal,jobs
License-Expression: MIT
License-File: LICENSES
Requires-Python: >=3.9
Description-Content-Type: text/plain

An MCP server that gives a coding agent a persistent Python and real terminals, as one static program.
An MCP client starts it by the command async-repl; "async-repl demo" shows a session, and
"async-repl help" lists the settings.
`

// programWheel returns the wheel of one program and no module: pip and uv put the program on the
// PATH.
func programWheel(version string, tags []string, binary, licenses []byte) wheel.Wheel {
	const name = "async_repl"
	base := name + "-" + version
	return wheel.Wheel{
		Name: name, Version: version, Tags: tags, Metadata: fmt.Sprintf(metadata, version),
		Files: []wheel.File{
			{Name: base + ".data/scripts/async-repl", Content: binary},
			{Name: base + ".dist-info/licenses/LICENSES", Content: licenses},
		},
	}
}

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/reply/report"
)

// A tool is one entry of the list that clients see. Schema and documentation keep the order of
// required and optional.
type tool struct {
	name     string
	toolset  string
	about    string // the first sentence decides whether a model uses it
	required []string
	optional []string
	wait     string // the description of its wait_seconds, without a default that about names
	at       location
	hints    hints
	call     func(c *call, ctx context.Context) (*report.Reply, error)

	definition *definition // the definition that clients see
}

// A definition is a tool as clients see it. mcp.ToolAnnotations would state hints that have their
// default value, too.
type definition struct {
	*mcp.Tool
	Annotations map[string]bool `json:"annotations,omitempty"` // the hints that differ from their defaults
}

// A listing is the result of tools/list.
type listing struct {
	*mcp.ListToolsResult
	Tools []*definition `json:"tools"`
}

// A call is one call of a tool.
type call struct {
	*conn
	args     *arguments.Args
	ticket   delivery.Ticket     // passed before the call waits
	progress *delivery.Progress  // reports to the client while the call waits
	notices  *report.CallNotices // the events of jobs that the reply announces
	place    string              // where the call's job or session is; empty: here
	there    json.RawMessage     // the arguments that the place gets
	as       string              // the id that the call's job must have; empty: any
	made     bool                // it has made the session that it is for
	again    atomic.Bool         // its job at a place makes a session again that was lost there
	chosen   string              // the name of that session, if the reply must say it
	from     string              // the session at a place that it continues with; empty: none
}

// A location says where a tool does its work if the call's job or session is at a place.
type location int

const (
	here     location = iota // here; what is at places has a mirror here
	mirrored                 // a job starts there, and a job here mirrors it
	sentOn                   // there: the reply comes from the place
)

// hints are the properties of a tool that clients rely on. Clients run read-only tools side by side
// and others one at a time.
type hints struct{ readOnly, idempotent, destructive, openWorld bool }

var (
	reads = hints{readOnly: true, idempotent: true}
	runs  = hints{destructive: true, openWorld: true}
	ends  = hints{destructive: true, idempotent: true}
	makes = hints{openWorld: true}
)

// annotations returns the hints that differ from their defaults. By default, a tool is not read-only,
// not idempotent, destructive and of an open world. Two hints have no meaning for a read-only tool:
// https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations.
func (h hints) annotations() map[string]bool {
	stated := map[string]bool{}
	if h.readOnly {
		stated["readOnlyHint"] = true
	}
	if h.idempotent && !h.readOnly {
		stated["idempotentHint"] = true
	}
	if !h.destructive && !h.readOnly {
		stated["destructiveHint"] = false
	}
	if !h.openWorld {
		stated["openWorldHint"] = false
	}
	return stated
}

// defaultLonger is how long wait_for_jobs waits: less than the minute after which some clients give
// up.
const defaultLonger = 45 * time.Second

// defaults are settings that the descriptions of tools name.
type defaults struct {
	grace time.Duration
	chars int // the default of max_chars
	// places are the names of the places. Without any, no tool takes on.
	places string
}

// tools returns all tools in the order of their names.
func tools(of defaults) []*tool {
	after := strconv.FormatFloat(of.grace.Seconds(), 'f', -1, 64)
	const longest = "max 110"
	atOnce, shortly, longer := "default 0, "+longest, "default "+after+", "+longest, "default 45, max 3600"
	all := []*tool{{
		name: "cancel_job", toolset: core,
		about:    "Stop a job, or what an ended job left running: interrupt, after 5 s terminate, after 10 s kill. Python with variables is only interrupted.",
		required: []string{"job_id"}, optional: []string{"force"},
		hints: hints{destructive: true}, call: (*call).cancelJob, // again, it can interrupt again
	}, {
		name: "check_job_status", toolset: core,
		about:    "Show a job's status and output: the latest while it runs, all of it once it has ended.",
		required: []string{"job_id"}, optional: []string{"wait_seconds", "cursor", "view", "max_chars"},
		wait: atOnce, hints: reads, call: (*call).checkJobStatus,
	}, {
		name: "check_python_status", toolset: core,
		about:    "Show a Python job's status, output and stack; by default the session's current or last job.",
		optional: []string{"job_id", "session", "wait_seconds", "cursor", "max_chars"},
		wait:     atOnce, hints: reads, call: (*call).checkPythonStatus,
	}, {
		name: "complete_code", toolset: namespace,
		about:    "List the names, attributes or modules that complete Python code. Runs none of it.",
		required: []string{"code"}, optional: []string{"cursor", "session"},
		at: sentOn, hints: makes, call: (*call).completeCode,
	}, {
		name: "create_session", toolset: sessions,
		about:    "Make a Python session with its own interpreter, packages and directory.",
		required: []string{"name"}, optional: []string{"python", "venv", "packages", "cwd", "env", "from_session", "memory_mb", "on"},
		at: sentOn, hints: makes, call: (*call).createSession,
	}, {
		name: "delete_file", toolset: FilesToolset,
		about:    "Delete a file of the workspace.",
		optional: []string{"path", "filename"},
		hints:    ends, call: (*call).deleteFile,
	}, {
		name: "delete_session", toolset: sessions,
		about:    "End a session: its Python, jobs and variables.",
		required: []string{"session"},
		at:       sentOn, hints: ends, call: (*call).deleteSession,
	}, {
		name: "delete_variables", toolset: namespace,
		about:    "Delete variables of a Python session: those named, or none if one is missing; or all.",
		optional: []string{"names", "all", "session"},
		at:       sentOn, hints: runs, call: (*call).deleteVariables,
	}, {
		name: "edit_file", toolset: FilesToolset,
		about:    "Replace the text old of a file by new. Nothing changes if old is missing or occurs more often than count.",
		required: []string{"path", "old", "new"}, optional: []string{"count"},
		hints: hints{destructive: true}, call: (*call).editFile,
	}, {
		name: "execute_command_async", toolset: core,
		about:    "Run a shell command as a job on a terminal. Returns its output, or after " + after + " s a job id while it continues.",
		required: []string{"command"}, optional: []string{"shell_session", "cwd", "env", "tty", "keep", "wait_seconds", "timeout_seconds", "max_chars", "on"},
		wait: longest, at: mirrored, hints: runs, call: (*call).executeCommand,
	}, {
		name: "execute_python", toolset: core,
		about:    "Run Python code or a file as a job in a session that keeps variables. Returns output and result, or after " + after + " s a job id while it continues.",
		optional: []string{"code", "path", "args", "session", "from_job", "rerun", "checkpoint", "keep", "wait_seconds", "timeout_seconds", "max_chars", "on"},
		wait:     longest, at: mirrored, hints: runs, call: (*call).executePython,
	}, {
		name: "export_session", toolset: sessions,
		about:    "Write what a session ran to a notebook (.ipynb, with outputs) or script (.py).",
		required: []string{"path"}, optional: []string{"session", "overwrite"},
		at: sentOn, hints: ends, call: (*call).exportSession,
	}, {
		name: "get_variable", toolset: namespace,
		about:    "Show the value of a variable or any Python expression.",
		required: []string{"name"}, optional: []string{"session", "format", "cursor", "max_chars"},
		at: sentOn, hints: runs, call: (*call).getVariable,
	}, {
		name: "inspect_object", toolset: namespace,
		about:    "Show a Python object's signature and documentation, or its source.",
		required: []string{"name"}, optional: []string{"session", "source"},
		at: sentOn, hints: runs, call: (*call).inspectObject,
	}, {
		name: "install_package_async", toolset: core,
		about:    "Install Python packages for a session as a job. They can be imported at once.",
		required: []string{"package"}, optional: []string{"session", "wait_seconds", "on"},
		wait: shortly, at: mirrored, hints: runs, call: (*call).installPackage,
	}, {
		name: "list_files", toolset: FilesToolset,
		about:    "List files and directories of the workspace, as paths or as a tree.",
		optional: []string{"path", "recursive", "tree", "max_depth", "include_files", "include_dirs"},
		hints:    reads, call: (*call).listFiles,
	}, {
		name: "list_jobs", toolset: core,
		about:    "List jobs, newest first.",
		optional: []string{"status", "session", "limit", "before"},
		hints:    reads, call: (*call).listJobs,
	}, {
		name: "list_sessions", toolset: sessions,
		about: "List Python sessions with state, jobs, memory, age, interpreter and directory.",
		hints: reads, call: (*call).listSessions,
	}, {
		name: "list_variables", toolset: core,
		about:    "List a Python session's variables, even while it is busy.",
		optional: []string{"session", "pattern"},
		at:       sentOn, hints: reads, call: (*call).listVariables,
	}, {
		name: "read_file", toolset: FilesToolset,
		about:    "Read a file of the workspace: text, a picture, or else base64.",
		required: []string{"path"}, optional: []string{"max_bytes", "offset"},
		hints: reads, call: (*call).readFile,
	}, {
		name: "restart_python_worker", toolset: core,
		about:    "Restart a session's Python: its jobs end, its variables are lost.",
		optional: []string{"session", "checkpoint"},
		at:       sentOn, hints: ends, call: (*call).restartPython,
	}, {
		name: "search_job_output", toolset: core,
		about:    "Find lines in a job's output. A match shows the cursor from which check_job_status reads on.",
		required: []string{"job_id", "pattern"}, optional: []string{"context", "max_matches", "cursor"},
		hints: reads, call: (*call).searchJobOutput,
	}, {
		name: "send_command_input", toolset: core,
		about:    "Type into a job's terminal: \\n in text is Enter, and nothing is added. Order: size, signal, text, keys, eof.",
		required: []string{"job_id"}, optional: []string{"text", "keys", "eof", "secret", "paste", "size", "signal", "wait_seconds"},
		wait: shortly, hints: runs, call: (*call).sendCommandInput,
	}, {
		name: "send_python_input", toolset: core,
		about:    "Answer the question of a waiting Python job with one line.",
		required: []string{"text"}, optional: []string{"job_id", "session", "eof", "wait_seconds"},
		wait: shortly, hints: runs, call: (*call).sendPythonInput,
	}, {
		name: "server_status", toolset: core,
		about: "Show the server's version, features, Python, jobs, sessions, memory and disk usage.",
		hints: reads, call: (*call).serverStatus,
	}, {
		name: "set_variable", toolset: namespace,
		about:    "Set a variable of a Python session to a JSON value.",
		required: []string{"name", "value"}, optional: []string{"session"},
		at: sentOn, hints: runs, call: (*call).setVariable,
	}, {
		name: "wait_for_jobs", toolset: core,
		about:    "Wait until any or all of several jobs end, print a line that matches, or are quiet; or one waits for input.",
		required: []string{"job_ids"}, optional: []string{"until", "pattern", "stop_pattern", "quiet_seconds", "cursor", "show", "wait_seconds"},
		wait: longer, hints: reads, call: (*call).waitForJobs,
	}, {
		name: "write_file", toolset: FilesToolset,
		about:    "Write a file of the workspace, and the directories that it needs.",
		required: []string{"path", "content"}, optional: []string{"binary_base64", "overwrite"},
		hints: ends, call: (*call).writeFile,
	}}
	if of.places == "" {
		for _, t := range all {
			t.optional = slices.DeleteFunc(t.optional, func(name string) bool { return name == "on" })
		}
	}
	return all
}

// toolsByDefaults are the tools that connections share. A server has few settings.
var toolsByDefaults sync.Map

// sharedTools returns all tools in the order of their names, with their definitions.
func sharedTools(of defaults) []*tool {
	if made, ok := toolsByDefaults.Load(of); ok {
		return made.([]*tool)
	}
	all := tools(of)
	for _, t := range all {
		t.definition = t.define(of)
	}
	first, _ := toolsByDefaults.LoadOrStore(of, all)
	return first.([]*tool)
}

// defaults returns the settings of the connection that descriptions name.
func (c *conn) defaults() defaults {
	return defaults{grace: c.scope.GraceTime(), chars: c.replyChars(), places: c.placeNames()}
}

// listTools lists the tools that clients are offered.
func (c *conn) listTools(p *mcp.ListToolsParams) (mcp.Result, error) {
	if p != nil && p.Cursor != "" {
		return nil, errNoSuchPage
	}
	list := &listing{&mcp.ListToolsResult{Cacheable: unchanging}, []*definition{}}
	for _, t := range c.tools(c.defaults()) {
		if c.offers(t.toolset) {
			list.Tools = append(list.Tools, t.definition)
		}
	}
	return list, nil
}

// callTool calls the tool that a request names.
func (c *conn) callTool(ctx context.Context, req *mcp.CallToolRequest) (mcp.Result, error) {
	t := c.tool(req.Params.Name)
	switch {
	case t == nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", req.Params.Name)}
	case !c.offers(t.toolset):
		refused := report.Textf("%s is in the toolset %s, which this server does not offer. A person can add it to REPL_TOOLSETS.", t.name, t.toolset)
		return delivery.Answer(req, delivery.Text(refused, true)), nil
	}
	return delivery.Answer(req, c.run(ctx, t, req, delivery.TicketOf(req.Extra))), nil
}

// tool returns the tool of that name, or nil.
func (c *conn) tool(name string) *tool {
	all := c.tools(c.defaults())
	i := slices.IndexFunc(all, func(t *tool) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// signature returns the parameters of the tool.
func (t *tool) signature() *arguments.Signature {
	return &arguments.Signature{Tool: t.name, Required: t.required, Optional: t.optional, Wait: t.wait}
}

// define returns the tool as clients see it.
func (t *tool) define(of defaults) *definition {
	signature := t.signature()
	signature.MaxChars, signature.Places = of.chars, of.places
	d := &definition{
		Tool:        &mcp.Tool{Name: t.name, Description: t.about, InputSchema: signature.Schema()},
		Annotations: t.hints.annotations(),
	}
	if slices.Contains(report.NextTools, t.name) {
		d.Meta = mcp.Meta{"anthropic/alwaysLoad": true}
	}
	return d
}

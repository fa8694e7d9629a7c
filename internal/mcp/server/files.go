package server

import (
	"context"
	"time"

	"asyncrepl/internal/files"
	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/internal/reply/report"
)

func (c *call) listFiles(ctx context.Context) (*report.Reply, error) {
	return c.onFiles(func(d *files.Dir, a *arguments.Args) (*report.Reply, error) {
		return listFiles(ctx, d, a, c.replyChars())
	})
}

func (c *call) readFile(context.Context) (*report.Reply, error) {
	return c.onFiles(func(d *files.Dir, a *arguments.Args) (*report.Reply, error) {
		r, err := readFile(d, a, c.replyChars())
		if err == nil && c.NoImages && r.Blocks != nil {
			r.Blocks = nil
			r.Line("Note", "images are off (REPL_IMAGES); max_bytes shows it as base64")
		}
		return r, err
	})
}

func (c *call) writeFile(context.Context) (*report.Reply, error) { return c.onFiles(writeFile) }

func (c *call) editFile(context.Context) (*report.Reply, error) { return c.onFiles(editFile) }

func (c *call) deleteFile(context.Context) (*report.Reply, error) { return c.onFiles(deleteFile) }

// onFiles calls a tool for files. The next call waits until it is done, so that calls see each
// other's files, but not for a slow disk.
func (c *call) onFiles(tool func(*files.Dir, *arguments.Args) (*report.Reply, error)) (*report.Reply, error) {
	slow := time.AfterFunc(deliverTime, c.ticket.Pass)
	defer slow.Stop()
	return tool(c.Files.Dir(c.scope.Workspace), c.args)
}

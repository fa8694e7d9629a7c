package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/report"
)

// A pictureResult is the result of a tool that has pictures. The SDK's own types would encode each
// picture and then copy it twice, byte by byte, which takes longer than all the rest of a reply.
type pictureResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType,omitempty"`
	Content    []any  `json:"content"`
	IsError    bool   `json:"isError,omitempty"`
}

// A picture is an image block.
type picture struct {
	Type     string `json:"type"`
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

// unreadMax bounds the bytes of pictures and displays in answers that are not queued to the client
// yet, because it has not read those before. While it is encoded, an answer takes some three times
// as much memory.
const unreadMax = 16 << 20

// withBlocks returns a reply with its pictures as the SDK's type, once other answers leave room for
// them. The caller releases that when the answer is queued. A picture whose data is gone stays as its
// line of text, as do all if ctx is done before there is room: then no client waits for them.
func (c *call) withBlocks(ctx context.Context, r *report.Reply, isError bool) (res *mcp.CallToolResult, release func()) {
	res = result(r, isError)
	var size int64
	for _, b := range r.Blocks {
		size += int64(b.Size)
	}
	if size > 0 {
		c.ticket.Pass()
	}
	release, err := c.claim(ctx, size)
	if err != nil {
		return res, func() {}
	}
	for _, b := range r.Blocks {
		if data, err := b.Read(); err == nil {
			res.Content = append(res.Content, &mcp.ImageContent{MIMEType: b.MIMEType, Data: data})
		}
	}
	return res, release
}

// claim waits until other answers leave room for size bytes. One without pictures does not wait.
func (c *conn) claim(ctx context.Context, size int64) (release func(), err error) {
	if size = min(size, unreadMax); size == 0 {
		return func() {}, nil
	}
	if err := c.unread.Acquire(ctx, size); err != nil {
		return nil, err
	}
	return func() { c.unread.Release(size) }, nil
}

// withPictures is a middleware that returns results with pictures in a form that is encoded once.
func withPictures(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		r, ok := res.(*mcp.CallToolResult)
		if !ok || r == nil || len(r.Content) < 2 {
			return res, err
		}
		plain := &pictureResult{ResultBase: mcp.ResultBase{Meta: r.Meta}, IsError: r.IsError}
		for _, c := range r.Content {
			if image, ok := c.(*mcp.ImageContent); ok {
				plain.Content = append(plain.Content, picture{"image", image.MIMEType, image.Data})
			} else {
				plain.Content = append(plain.Content, c)
			}
		}
		if speaksNewer(req) {
			plain.ResultType = "complete"
		}
		return plain, err
	}
}

// speaksNewer reports whether a request is of the protocol era from 2026-07-28 on.
func speaksNewer(req mcp.Request) bool {
	_, newer := req.GetParams().GetMeta()["io.modelcontextprotocol/protocolVersion"]
	return newer
}

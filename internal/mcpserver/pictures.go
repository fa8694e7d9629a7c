package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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

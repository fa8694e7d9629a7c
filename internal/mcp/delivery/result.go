package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/semaphore"

	"asyncrepl/internal/reply/report"
)

// A pictureResult is the result of a tool that has pictures. The SDK's own types would encode each
// picture and then copy it twice, byte by byte, which takes longer than all the rest of a reply.
type pictureResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType,omitempty"`
	Content    []any  `json:"content"`
	IsError    bool   `json:"isError,omitempty"`
}

// Said returns the text of the result, and whether it is an error.
func (r *pictureResult) Said() (text string, isError bool) {
	if block, ok := r.Content[0].(*mcp.TextContent); ok {
		text = block.Text
	}
	return text, r.IsError
}

// A picture is an image block.
type picture struct {
	Type     string `json:"type"`
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

// A Room bounds the bytes of pictures and displays in answers that are not queued to the client yet,
// because it has not read those before. While it is encoded, an answer takes some three times as much
// memory.
type Room struct {
	size     int64
	free     *semaphore.Weighted
	patience time.Duration
}

// NewRoom returns room for size bytes, for which an answer waits for as long as patience, and for as
// long as its call does if that is 0.
func NewRoom(size int64, patience time.Duration) *Room {
	return &Room{size, semaphore.NewWeighted(size), patience}
}

// ErrNoRoom says that other answers have left no room for an answer.
var ErrNoRoom = errors.New("other answers with pictures have not been read; try again later")

// Claim waits until other answers leave room for size bytes, or all of it. An answer without
// pictures does not wait. If the patience ends before ctx, the error is ErrNoRoom.
func (r *Room) Claim(ctx context.Context, size int64) (release func(), err error) {
	if size = min(size, r.size); size == 0 {
		return func() {}, nil
	}
	release = func() { r.free.Release(size) }
	if r.free.TryAcquire(size) { // even if the patience ends before this is tried
		return release, nil
	}
	if r.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.patience, ErrNoRoom)
		defer cancel()
	}
	if r.free.Acquire(ctx, size) != nil {
		return nil, context.Cause(ctx)
	}
	return release, nil
}

// Result returns a reply with its pictures as the SDK's type, once other answers leave room for
// them. The caller releases that when the answer is queued. A picture whose data is gone stays as its
// line of text, as do all if ctx is done before there is room: then no client waits for them. A note
// says so if the patience ended.
func (r *Room) Result(ctx context.Context, t Ticket, reply *report.Reply, isError bool) (res *mcp.CallToolResult, release func()) {
	res = Text(reply, isError)
	var size int64
	for _, b := range reply.Blocks {
		size += int64(b.Size)
	}
	if size > 0 {
		t.Pass()
	}
	release, err := r.Claim(ctx, size)
	if err != nil {
		if errors.Is(err, ErrNoRoom) {
			reply.Insert("Note", "without its pictures: "+err.Error()+", or read the resources")
			res = Text(reply, isError)
		}
		return res, func() {}
	}
	for _, b := range reply.Blocks {
		if data, err := b.Read(); err == nil {
			res.Content = append(res.Content, &mcp.ImageContent{MIMEType: b.MIMEType, Data: data})
		}
	}
	return res, release
}

// Text returns the text of a reply as the SDK's type.
func Text(r *report.Reply, isError bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.String()}}, IsError: isError}
}

// complete is the empty result of a request of the newer era. The SDK has no other way to set its
// type for a tool that is not registered with it. It is made when it is first needed: decoding it
// takes as long as a tenth of the start of the server.
var complete = sync.OnceValue(func() (r mcp.CallToolResult) {
	if err := json.Unmarshal([]byte(`{"content":[],"resultType":"complete"}`), &r); err != nil {
		panic(err)
	}
	return r
})

// Answer returns the result of a tool in the form of the request's era, and with pictures in a form
// that is encoded once.
func Answer(req mcp.Request, r *mcp.CallToolResult) mcp.Result {
	if len(r.Content) < 2 {
		if !SpeaksNewer(req) {
			return r
		}
		marked := complete()
		marked.Content, marked.IsError = r.Content, r.IsError
		return &marked
	}
	plain := &pictureResult{IsError: r.IsError}
	for _, c := range r.Content {
		if image, ok := c.(*mcp.ImageContent); ok {
			plain.Content = append(plain.Content, picture{"image", image.MIMEType, image.Data})
		} else {
			plain.Content = append(plain.Content, c)
		}
	}
	if SpeaksNewer(req) {
		plain.ResultType = "complete"
	}
	return plain
}

// SpeaksNewer reports whether a request is of the protocol era from 2026-07-28 on.
func SpeaksNewer(req mcp.Request) bool {
	_, newer := req.GetParams().GetMeta()["io.modelcontextprotocol/protocolVersion"]
	return newer
}

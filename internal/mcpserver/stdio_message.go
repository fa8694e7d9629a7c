package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// codeBusy is a JSON-RPC error code of our own: too many calls are in flight.
const codeBusy = -32000

// A refusal is the answer to a line that can't be used.
type refusal struct {
	id      []byte // nil: null
	code    int64
	message string
}

func refuse(id []byte, code int64, format string, a ...any) *refusal {
	return &refusal{id, code, fmt.Sprintf(format, a...)}
}

func (r *refusal) appendTo(b []byte) []byte {
	return appendError(b, r.id, &jsonrpc.Error{Code: r.code, Message: r.message})
}

// An envelope is a JSON-RPC message in its parts, as they were written; nil where
// it has none.
type envelope struct{ id, method, params, result, error []byte }

// parseLine takes a line apart.
func parseLine(line []byte) (e envelope, refused *refusal) {
	switch {
	case !utf8.Valid(line):
		return e, refuse(nil, jsonrpc.CodeParseError, "the line is not UTF-8")
	case !json.Valid(line):
		return e, refuse(nil, jsonrpc.CodeParseError, "the line is not JSON: send one whole message a line")
	case line[0] == '[':
		return e, refuse(nil, jsonrpc.CodeInvalidRequest, "batches are not supported: send one message a line")
	case line[0] != '{':
		return e, refuse(nil, jsonrpc.CodeInvalidRequest, "a message must be a JSON object")
	}
	var version []byte
	eachMember(line, func(key, value []byte) {
		switch string(unquoted(key)) {
		case "jsonrpc":
			version = value
		case "id":
			e.id = value
		case "method":
			e.method = value
		case "params":
			e.params = value
		case "result":
			e.result = value
		case "error":
			e.error = value
		}
	})
	if string(version) != `"2.0"` {
		var id []byte // an answer's id is not the client's to be told about
		if _, ok := parseID(e.id); ok && e.method != nil {
			id = e.id
		}
		return e, refuse(id, jsonrpc.CodeInvalidRequest, `"jsonrpc" must be "2.0"`)
	}
	return e, nil
}

// request makes a call or a notification of a message that has a method.
func (e envelope) request() (*jsonrpc.Request, *refusal) {
	var id jsonrpc.ID
	if e.id != nil {
		var ok bool
		if id, ok = parseID(e.id); !ok {
			return nil, refuse(nil, jsonrpc.CodeInvalidRequest,
				`"id" must be a string or a number, of at most %d bytes; leave it out of a notification`, maxID)
		}
	}
	if e.method[0] != '"' {
		return nil, refuse(e.id, jsonrpc.CodeInvalidRequest, `"method" must be a string`)
	}
	if e.params != nil && e.params[0] != '{' && string(e.params) != "null" && e.id != nil {
		return nil, refuse(e.id, jsonrpc.CodeInvalidParams, `"params" must be an object`)
	}
	return &jsonrpc.Request{ID: id, Method: string(unquoted(e.method)), Params: e.params}, nil
}

// response makes an answer of a message that has no method. One that answers
// nothing is ignored: to answer it could go on for ever.
func (e envelope) response() (*jsonrpc.Response, *refusal) {
	id, ok := parseID(e.id)
	if e.result == nil && e.error == nil {
		var raw []byte
		if ok {
			raw = e.id
		}
		return nil, refuse(raw, jsonrpc.CodeInvalidRequest, `the message has no "method"`)
	}
	if !ok {
		return nil, nil
	}
	r := &jsonrpc.Response{ID: id, Result: e.result}
	if e.error != nil && string(e.error) != "null" {
		wire := &jsonrpc.Error{}
		if err := json.Unmarshal(e.error, wire); err != nil {
			wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "malformed error"}
		}
		r.Error = wire
	}
	return r, nil
}

// maxID is how many bytes an id may have: it is kept, and written to logs.
const maxID = 1024

// renamed begins the ids that the SDK knows by a name of ours: it keeps numbers
// as an int64 made of a float64, which changes 1.5 and 9007199254740993. A client
// that has such a string for an id of its own gets it back all the same.
const renamed = "\x00number "

// parseID returns the id that the SDK is to know a call by.
func parseID(raw []byte) (jsonrpc.ID, bool) {
	if len(raw) == 0 || len(raw) > maxID {
		return jsonrpc.ID{}, false
	}
	var v any
	switch c := raw[0]; {
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return jsonrpc.ID{}, false
		}
		v = s
	case c == '-' || c >= '0' && c <= '9':
		if !json.Valid(raw) {
			return jsonrpc.ID{}, false
		}
		const exact = 1 << 53
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && -exact < n && n < exact && string(raw) != "-0" {
			v = float64(n)
		} else {
			v = renamed + string(raw)
		}
	default:
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(v)
	return id, err == nil
}

func isRenamed(id jsonrpc.ID) bool {
	s, ok := id.Raw().(string)
	return ok && strings.HasPrefix(s, renamed)
}

// appendRequest appends a request or a notification of ours and a newline.
func appendRequest(b []byte, r *jsonrpc.Request) []byte {
	b = append(b, `{"jsonrpc":"2.0"`...)
	if r.IsCall() {
		b = appendJSON(append(b, `,"id":`...), r.ID.Raw())
	}
	b = appendJSON(append(b, `,"method":`...), r.Method)
	if len(r.Params) > 0 {
		b = appendRaw(append(b, `,"params":`...), r.Params)
	}
	return append(b, "}\n"...)
}

// appendResponse appends the answer to the call with that id, and a newline.
func appendResponse(b, id []byte, r *jsonrpc.Response) []byte {
	if r.Error != nil {
		return appendError(b, id, wireError(r.Error))
	}
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = appendRaw(append(b, `,"result":`...), r.Result)
	return append(b, "}\n"...)
}

func appendError(b, id []byte, err *jsonrpc.Error) []byte {
	if id == nil {
		id = []byte("null")
	}
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = appendJSON(append(b, `,"error":`...), err)
	return append(b, "}\n"...)
}

// wireError is what a client is told of an error: the code of the one that it
// wraps, and all of its text. What the SDK gives no code are requests out of
// their time, before the handshake or a second one.
func wireError(err error) *jsonrpc.Error {
	if wire, ok := err.(*jsonrpc.Error); ok {
		return wire
	}
	told := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		told.Code = wire.Code
	}
	return told
}

// appendRaw appends JSON that the SDK has encoded. It has no newline in it, and
// must have none: that would be two lines.
func appendRaw(b, raw []byte) []byte {
	if len(raw) == 0 {
		return append(b, "null"...)
	}
	if bytes.IndexByte(raw, '\n') < 0 {
		return append(b, raw...)
	}
	var one bytes.Buffer
	if json.Compact(&one, raw) != nil {
		return append(b, "null"...)
	}
	return append(b, one.Bytes()...)
}

// appendJSON appends a value that always has a JSON form.
func appendJSON(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, j...)
}

package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	readBuffer = 16 << 10
	// maxID bounds the bytes of an id: it is kept, and written to logs.
	maxID = 1024
	// exact bounds the numbers that the SDK, which reads them as float64, keeps exactly.
	exact = 1 << 53
	// codeBusy is a JSON-RPC error code of our own: too many calls are in flight.
	codeBusy = -32000
)

// An inputLine is a line without its end; text is nil if the line is empty or too long.
type inputLine struct {
	text    []byte
	tooLong bool
}

// A lineReader reads lines, and skips a line that is too long without keeping it.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, readBuffer), limit}
}

// next returns the next line in memory of its own. The last one may come together with the error
// and lack its newline.
func (l *lineReader) next() (line inputLine, err error) {
	var b []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if !line.tooLong && len(b)+len(bytes.TrimRight(part, "\r\n")) > l.max {
			line.tooLong, b = true, nil
		}
		if !line.tooLong {
			b = append(b, part...)
		}
		if err != bufio.ErrBufferFull {
			if b = bytes.Trim(b, " \t\r\n"); len(b) > 0 {
				line.text = b
			}
			return line, err
		}
	}
}

// A refusal is the answer to a line that can't be used.
type refusal struct {
	id      json.RawMessage // nil if it could not be read
	code    int64
	message string
}

func refuse(id json.RawMessage, code int64, format string, a ...any) *refusal {
	return &refusal{id, code, fmt.Sprintf(format, a...)}
}

func (r *refusal) appendTo(b []byte) []byte {
	return appendError(b, r.id, &jsonrpc.Error{Code: r.code, Message: r.message})
}

// decode makes a message of a line and returns its id as it was written. It returns neither a
// message nor a refusal for an answer to nothing: answering it could go on for ever.
//
// The SDK's decoder alone would drop a second message on the line, take an id of 1.5 for 1, and
// leave a call with an id of null unanswered.
func decode(line []byte) (m jsonrpc.Message, id json.RawMessage, refused *refusal) {
	if !utf8.Valid(line) {
		return nil, nil, refuse(nil, jsonrpc.CodeParseError, "the line is not UTF-8")
	}
	// Not into a struct: encoding/json would take "ID" for "id".
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil || members == nil {
		switch {
		case !json.Valid(line):
			return nil, nil, refuse(nil, jsonrpc.CodeParseError, "the line is not JSON: send one whole message a line")
		case line[0] == '[':
			return nil, nil, refuse(nil, jsonrpc.CodeInvalidRequest, "batches are not supported: send one message a line")
		}
		return nil, nil, refuse(nil, jsonrpc.CodeInvalidRequest, "a message must be a JSON object")
	}
	id = members["id"]
	if string(members["jsonrpc"]) != `"2.0"` {
		if members["method"] == nil { // the id of an answer is not one of the client's
			id = nil
		}
		return nil, nil, refuse(legible(id), jsonrpc.CodeInvalidRequest, `"jsonrpc" must be "2.0"`)
	}
	if members["method"] == nil {
		m, refused := decodeResponse(line, members)
		return m, nil, refused
	}
	m, refused = decodeRequest(members)
	return m, id, refused
}

// decodeRequest makes a call or a notification of a message that has a method.
func decodeRequest(members map[string]json.RawMessage) (jsonrpc.Message, *refusal) {
	rawID, params := members["id"], members["params"]
	r := &jsonrpc.Request{Params: params}
	if rawID != nil {
		var ok bool
		if r.ID, ok = parseID(rawID); !ok {
			return nil, refuse(legible(rawID), jsonrpc.CodeInvalidRequest,
				`"id" must be a string of at most %d bytes or a whole number below 2^53; leave it out of a notification`, maxID)
		}
	}
	if json.Unmarshal(members["method"], &r.Method) != nil || string(members["method"]) == "null" {
		return nil, refuse(rawID, jsonrpc.CodeInvalidRequest, `"method" must be a string`)
	}
	if params != nil && params[0] != '{' && string(params) != "null" && rawID != nil {
		return nil, refuse(rawID, jsonrpc.CodeInvalidParams, `"params" must be an object`)
	}
	return r, nil
}

// decodeResponse makes an answer of a message that has no method.
func decodeResponse(line []byte, members map[string]json.RawMessage) (jsonrpc.Message, *refusal) {
	id, ok := parseID(members["id"])
	if members["result"] == nil && members["error"] == nil {
		return nil, refuse(legible(members["id"]), jsonrpc.CodeInvalidRequest, `the message has no "method"`)
	}
	if !ok {
		return nil, nil
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		m = &jsonrpc.Response{ID: id, Error: fmt.Errorf("malformed answer: %v", err)}
	}
	return m, nil
}

// parseID returns the id by which the SDK knows a call, unless it would be another one than raw.
func parseID(raw json.RawMessage) (jsonrpc.ID, bool) {
	if len(raw) == 0 || len(raw) > maxID {
		return jsonrpc.ID{}, false
	}
	var v any
	if raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return jsonrpc.ID{}, false
		}
		v = s
	} else {
		n, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || n != math.Trunc(n) || math.Abs(n) >= exact {
			return jsonrpc.ID{}, false
		}
		v = n
	}
	id, err := jsonrpc.MakeID(v)
	return id, err == nil
}

// legible returns an id that a refusal can name although the call can't be made under it: any
// number or string that is not too long.
func legible(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || len(raw) > maxID || bytes.IndexByte([]byte(`"-0123456789`), raw[0]) < 0 {
		return nil
	}
	return raw
}

// cancelledID returns the id of the call that a notifications/cancelled names.
func cancelledID(params json.RawMessage) (jsonrpc.ID, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil {
		return jsonrpc.ID{}, false
	}
	return parseID(members["requestId"])
}

// appendResponse appends the answer to the call with that id, and a newline. The result is appended
// as the SDK has encoded it: encoding it again would cost a hundred times as much.
func appendResponse(b []byte, id json.RawMessage, r *jsonrpc.Response) []byte {
	if r.Error != nil {
		return appendError(b, id, wireError(r.Error))
	}
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = append(b, `,"result":`...)
	if bytes.IndexByte(r.Result, '\n') < 0 {
		b = append(b, r.Result...)
	} else { // it is white space, which would make two lines of the answer
		b = append(b, bytes.ReplaceAll(r.Result, []byte("\n"), []byte(" "))...)
	}
	return append(b, "}\n"...)
}

func appendError(b []byte, id json.RawMessage, err *jsonrpc.Error) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	encoded, fault := json.Marshal(err)
	if fault != nil { // its data is not JSON
		encoded, _ = json.Marshal(&jsonrpc.Error{Code: err.Code, Message: err.Message})
	}
	b = append(append(b, `,"error":`...), encoded...)
	return append(b, "}\n"...)
}

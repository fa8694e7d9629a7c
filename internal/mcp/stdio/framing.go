package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"asyncrepl/internal/mcp/rawjson"
)

const (
	readBuffer = 16 << 10
	// maxID bounds the bytes of an id: it is kept, and written to logs.
	maxID = 1024
	// exact bounds the numbers that the SDK, which reads them as float64, keeps exactly.
	exact = 1 << 53
	// maxFault bounds the bytes of the text of an error. The SDK quotes all of the params that it
	// can't read, and the answer to a long line would be longer than the line.
	maxFault = 1024
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

// next returns the next line in newly allocated memory. The last one may come together with the
// error and lack its newline.
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
// message nor a refusal for an answer to no call: two peers could answer such answers for ever.
//
// The SDK's decoder alone would drop a second message on the line, take an id of 1.5 for 1, and
// leave a call with an id of null unanswered.
func decode(line []byte) (m jsonrpc.Message, id json.RawMessage, refused *refusal) {
	if !utf8.Valid(line) {
		return nil, nil, refuse(nil, jsonrpc.CodeParseError, "the line is not UTF-8")
	}
	switch {
	case !json.Valid(line): // or nested more than 10,000 levels deep
		return nil, nil, refuse(nil, jsonrpc.CodeParseError, "the line is not JSON: send one whole message a line")
	case line[0] == '[':
		return nil, nil, refuse(nil, jsonrpc.CodeInvalidRequest, "batches are not supported: send one message a line")
	case line[0] != '{':
		return nil, nil, refuse(nil, jsonrpc.CodeInvalidRequest, "a message must be a JSON object")
	}
	e := newEnvelope(line)
	switch {
	case string(e.version) != `"2.0"`:
		if e.method == nil { // the id of an answer is not one of the client's
			e.id = nil
		}
		return nil, nil, refuse(legible(e.id), jsonrpc.CodeInvalidRequest, `"jsonrpc" must be "2.0"`)
	case e.method == nil:
		m, refused = e.response(line)
		return m, nil, refused
	}
	m, refused = e.request()
	return m, e.id, refused
}

// An envelope holds the members of a message as they were written, nil if absent. Of one that is
// given twice, the last counts.
type envelope struct{ version, id, method, params, result, fault json.RawMessage }

func newEnvelope(line []byte) (e envelope) {
	for name, value := range rawjson.Members(line) {
		switch name {
		case "jsonrpc":
			e.version = value
		case "id":
			e.id = value
		case "method":
			e.method = value
		case "params":
			e.params = value
		case "result":
			e.result = value
		case "error":
			e.fault = value
		}
	}
	return e
}

// request makes a call or a notification of a message that has a method.
func (e *envelope) request() (jsonrpc.Message, *refusal) {
	r := &jsonrpc.Request{Params: e.params}
	var ok bool
	if e.id != nil {
		if r.ID, ok = parseID(e.id); !ok {
			return nil, refuse(legible(e.id), jsonrpc.CodeInvalidRequest,
				`"id" must be a string of at most %d bytes or a whole number below 2^53; leave it out of a notification`, maxID)
		}
	}
	if r.Method, ok = rawjson.String(e.method); !ok {
		return nil, refuse(e.id, jsonrpc.CodeInvalidRequest, `"method" must be a string`)
	}
	if e.id != nil && e.params != nil && !rawjson.IsObject(e.params) && string(e.params) != "null" {
		return nil, refuse(e.id, jsonrpc.CodeInvalidParams, `"params" must be an object`)
	}
	return r, nil
}

// response makes an answer of a message that has no method.
func (e *envelope) response(line []byte) (jsonrpc.Message, *refusal) {
	id, ok := parseID(e.id)
	if e.result == nil && e.fault == nil {
		return nil, refuse(legible(e.id), jsonrpc.CodeInvalidRequest, `the message has no "method"`)
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

// parseID returns the id by which the SDK knows a call, and false if that would differ from raw.
func parseID(raw json.RawMessage) (jsonrpc.ID, bool) {
	if len(raw) == 0 || len(raw) > maxID {
		return jsonrpc.ID{}, false
	}
	var v any
	if raw[0] == '"' {
		v, _ = rawjson.String(raw)
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

// legible returns the id if a refusal can name it even though no call can have it: any number or
// string that is not too long. Otherwise it returns nil.
func legible(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || len(raw) > maxID || bytes.IndexByte([]byte(`"-0123456789`), raw[0]) < 0 {
		return nil
	}
	return raw
}

// cancelledID returns the id of the call that a notifications/cancelled names.
func cancelledID(params json.RawMessage) (jsonrpc.ID, bool) {
	var id json.RawMessage
	for name, value := range rawjson.Members(params) {
		if name == "requestId" {
			id = value
		}
	}
	return parseID(id)
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

// Decode returns the message of a line that a Transport has written. It does not look at a result,
// which shares the memory of the line: reading it would take as long as making it.
func Decode(line []byte) (jsonrpc.Message, error) {
	line = bytes.TrimRight(line, "\n")
	if rest, ok := bytes.CutPrefix(line, []byte(`{"jsonrpc":"2.0","id":`)); ok && line[len(line)-1] == '}' {
		// No id contains the separator, because a quote in a string is escaped. What is no id is
		// the begin of another message, whose params or error have a member of that name.
		if raw, result, ok := bytes.Cut(rest, []byte(`,"result":`)); ok {
			if id, ok := parseID(json.RawMessage(raw)); ok && json.Valid(raw) {
				return &jsonrpc.Response{ID: id, Result: json.RawMessage(result[:len(result)-1])}, nil
			}
		}
	}
	return jsonrpc.DecodeMessage(line)
}

// wireError returns an error of the SDK as the client reads it: with its text, and with the code of
// the wire error that it is or wraps. The SDK (go-sdk v1.8.0) gives no code to the faults of a
// handshake, and clients do not take an answer without one for an error.
func wireError(err error) *jsonrpc.Error {
	wire := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	var inner *jsonrpc.Error
	if errors.As(err, &inner) {
		wire.Code = inner.Code
		if err == error(inner) {
			wire.Data = inner.Data
		}
	} else if strings.Contains(wire.Message, ": unmarshaling ") { // the params of initialize
		wire.Code = jsonrpc.CodeInvalidParams
	}
	if method, early := strings.CutSuffix(wire.Message, " is invalid during session initialization"); early {
		wire.Message = strings.TrimPrefix(method, "method ") + " came before initialize: open the connection first, or name the protocol in _meta, as of 2026-07-28"
	}
	if text := wire.Message; len(text) > maxFault { // the cause stands at its end
		wire.Message = strings.ToValidUTF8(text[:maxFault/2]+" … "+text[len(text)-maxFault/2:], "")
	}
	return wire
}

func appendError(b []byte, id json.RawMessage, err *jsonrpc.Error) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	encoded, fault := json.Marshal(err)
	if fault != nil { // err.Data is not JSON
		encoded, _ = json.Marshal(&jsonrpc.Error{Code: err.Code, Message: err.Message})
	}
	b = append(append(b, `,"error":`...), encoded...)
	return append(b, "}\n"...)
}

package stdio

import (
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The SDK answers some faults without a code, which clients do not take for an error, and describes
// params in terms of its own Go types. wireError words these faults for the client.

// Compiled at the first fault.
var (
	tooEarly = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^method ("[^"]+") is invalid during session initialization$`)
	})
	wrongField = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`cannot unmarshal .* into Go struct field [^.\s]+\.[^.\s]+\.(\S+) of type (\S+)`)
	})
)

// wireError returns the error as the client reads it: the code of the wire error that it is or
// wraps, and all of its text.
func wireError(err error) *jsonrpc.Error {
	var inner *jsonrpc.Error
	if !errors.As(err, &inner) {
		inner = &jsonrpc.Error{}
	}
	wire := &jsonrpc.Error{Code: inner.Code, Message: err.Error()}
	if err == error(inner) {
		wire.Data = inner.Data
	}
	if wire.Code == 0 { // a request at the wrong time, before the handshake or a second one
		wire.Code = jsonrpc.CodeInvalidRequest
	}
	switch early := tooEarly().FindStringSubmatch(wire.Message); {
	case wire.Message == `duplicate "initialize" received`:
		wire.Message = "initialize comes once, at the beginning of a connection: go on without"
	case early != nil:
		wire.Message = early[1] + " came before initialize: open the connection first, or name the protocol in _meta, as of 2026-07-28"
	case strings.Contains(wire.Message, "unmarshaling "):
		text := `"params" must be an object`
		if field := wrongField().FindStringSubmatch(wire.Message); field != nil {
			text = `"params": ` + field[1] + " must be " + jsonName(field[2])
		}
		wire = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
	}
	return wire
}

// jsonName returns what JSON calls a value of a Go type.
func jsonName(goType string) string {
	switch {
	case goType == "string":
		return "a string"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "[]"):
		return "an array"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"), strings.HasPrefix(goType, "float"):
		return "a number"
	}
	return "an object"
}

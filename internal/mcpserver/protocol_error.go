package mcpserver

import (
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The SDK answers some faults without a code, which clients take for no error,
// and tells of params in the words of its own Go types. What a client is told
// instead is made here.

// Compiled at the first fault.
var (
	tooEarly = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^method ("[^"]+") is invalid during session initialization$`)
	})
	wrongField = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`cannot unmarshal .* into Go struct field [^.\s]+\.[^.\s]+\.(\S+) of type (\S+)`)
	})
)

// protocolError is the error as a client is told of it.
func protocolError(err error) error {
	told := wireError(err)
	text := told.Message
	if told.Code == 0 {
		told = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: text}
	}
	switch early := tooEarly().FindStringSubmatch(text); {
	case text == `duplicate "initialize" received`:
		told.Message = "initialize comes once, at the beginning of a connection: go on without"
	case early != nil:
		told.Message = early[1] + " came before initialize: open the connection first, or name the protocol in _meta, as of 2026-07-28"
	case strings.Contains(text, "unmarshaling "):
		told = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: `"params" must be an object`}
		if field := wrongField().FindStringSubmatch(text); field != nil {
			told.Message = `"params": ` + field[1] + " must be " + jsonName(field[2])
		}
	default:
		var wire *jsonrpc.Error
		if errors.As(err, &wire) && wire.Code != 0 {
			return err
		}
	}
	return told
}

// jsonName is what JSON calls a value of a Go type.
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

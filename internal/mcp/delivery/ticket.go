package delivery

import (
	"maps"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Ticket is a call's place in its transport. A transport that hands over calls in the order in
// which they were sent, or that knows whether an answer reaches the client, attaches one to each
// request. Any other transport serves too: its calls have a noTicket.
type Ticket interface {
	// Pass reports that the call has taken effect, so that the next one can begin: its job is
	// started, its input delivered, its stop requested. A handler passes before it waits.
	Pass()
	// OnAnswer has f called when the answer is queued to the client or dropped. f must not block.
	OnAnswer(f func(queued bool))
	// OnCancel has f called when the client cancels the call, before any later call begins. f must
	// not block.
	OnCancel(f func())
}

// ticketKey is the key of the ticket in the TokenInfo.Extra of a request. The SDK (go-sdk v1.8.0)
// passes on a value of the transport in no other place.
const ticketKey = "async-repl/call"

// Attach returns a copy of info that also carries the ticket of a request. A transport gives it to
// the SDK with the request, so that the handler finds the ticket with [TicketOf].
func Attach(info auth.TokenInfo, t Ticket) *auth.TokenInfo {
	info.Extra = maps.Clone(info.Extra)
	if info.Extra == nil {
		info.Extra = make(map[string]any)
	}
	info.Extra[ticketKey] = t
	return &info
}

// TicketOf returns the ticket that the transport attached to a request.
func TicketOf(x *mcp.RequestExtra) Ticket {
	if x != nil && x.TokenInfo != nil {
		if t, ok := x.TokenInfo.Extra[ticketKey].(Ticket); ok {
			return t
		}
	}
	return noTicket{}
}

// A noTicket is the ticket of a call whose transport keeps no order and does not report the
// fate of answers: each counts as queued once its handler returns.
type noTicket struct{}

func (noTicket) Pass() {}

func (noTicket) OnAnswer(f func(queued bool)) { f(true) }

func (noTicket) OnCancel(func()) {}

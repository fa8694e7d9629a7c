package delivery

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestRequestsWithoutATicketAreServed(t *testing.T) {
	for name, x := range map[string]*mcp.RequestExtra{
		"no extra": nil,
		"no token": {},
		"forged":   {TokenInfo: &auth.TokenInfo{Extra: map[string]any{ticketKey: "forged"}}},
	} {
		got := TicketOf(x)
		if got != Ticket(noTicket{}) {
			t.Errorf("%s: the ticket is %v", name, got)
		}
		queued := false
		got.OnAnswer(func(ok bool) { queued = ok })
		if !queued {
			t.Errorf("%s: the answer does not count as queued", name)
		}
	}
}

package server

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/engine"
)

// A client that has listed the resources is notified of new jobs at the end of a burst, every ten
// seconds at most, in both protocols. Other clients are not.
func TestClientIsNotifiedOfNewResources(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for name, test := range map[string]struct {
			lists bool
			want  []time.Duration // seconds after the list, when it is notified
		}{
			"lists":         {true, []time.Duration{1, 11, 41}},
			"lists nothing": {false, nil},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					var mu sync.Mutex
					var notified []time.Duration
					begin := time.Now()
					options := &mcp.ClientOptions{}
					if test.lists || version < "2026" { // in the newer protocol the handler subscribes
						options.ResourceListChangedHandler = func(context.Context, *mcp.ResourceListChangedRequest) {
							mu.Lock()
							defer mu.Unlock()
							notified = append(notified, time.Since(begin)/time.Second)
						}
					}
					there, here := mcp.NewInMemoryTransports()
					served, err := New(ctx, w.config, w.scope(engine.Scope{})).Connect(ctx, there, nil)
					if err != nil {
						t.Fatal(err)
					}
					session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, options).
						Connect(ctx, here, &mcp.ClientSessionOptions{ProtocolVersion: version})
					if err != nil {
						t.Fatal(err)
					}
					if test.lists {
						if _, err := session.ListResources(ctx, nil); err != nil {
							t.Fatal(err)
						}
					}
					execute := func() {
						if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "execute_python", Arguments: given{"code": `out "x"`}}); err != nil {
							t.Fatal(err)
						}
					}
					for range 30 { // for three seconds: the first second is one burst, the rest another
						execute()
						time.Sleep(100 * time.Millisecond)
					}
					time.Sleep(37 * time.Second) // nothing happens
					execute()
					time.Sleep(500 * time.Millisecond)
					execute()
					time.Sleep(time.Minute)
					mu.Lock()
					if !slices.Equal(notified, test.want) {
						t.Errorf("notified after %d s, want %d s", notified, test.want)
					}
					mu.Unlock()
					execute() // the connection ends while a change is held back
					leave()
					session.Close()
					served.Wait()
				})
			})
		}
	}
}

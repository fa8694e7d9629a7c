//go:build unix

package people

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"asyncrepl/internal/mcp/httpserver"
	"asyncrepl/internal/page"
	"asyncrepl/internal/people/hub"
	"asyncrepl/internal/serve/listener"
)

func (c *Config) page() *cobra.Command {
	var listen string
	var noBrowser bool
	cmd := &cobra.Command{Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions, RunE: func(cmd *cobra.Command, _ []string) error {
		return c.servePage(cmd.Context(), listen, noBrowser)
	}}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "the `ADDRESS` of the page on this machine; port 0 means any free port")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address of the page, and open no browser")
	return cmd
}

// pageEnd bounds the end of the page: a download can be under way.
const pageEnd = time.Second

// servePage serves a page over all engines until ctx is done. Only programs of the same user that know
// the key can ask for anything.
func (c *Config) servePage(ctx context.Context, listen string, noBrowser bool) error {
	at, err := listener.Listen(ctx, listen)
	if err != nil {
		return err
	}
	defer at.Close()
	if at.Addr().Network() != "tcp" || !listener.Local(at) {
		return fmt.Errorf("page: %s can be reached by others, or not by a browser: the page is for you, at an address like 127.0.0.1:8080", at.Addr())
	}
	if err := listener.CanTellPeer(at.Addr()); err != nil {
		return fmt.Errorf("only you may open the page, and this system does not show who does: %w", err)
	}
	var saying sync.Mutex
	say := func(line string) {
		saying.Lock()
		defer saying.Unlock()
		fmt.Fprintln(c.Err, "async-repl:", line)
	}
	h := hub.New(c.Places, say)
	h.Search(ctx)
	ctx, cancel := context.WithCancel(ctx)
	var searching sync.WaitGroup
	searching.Go(func() { h.Run(ctx) }) // joined by servePage; ends with ctx
	defer searching.Wait()
	defer cancel()
	key, api := rand.Text(), h.API()
	server := httpserver.New(httpserver.Config{
		New: func(context.Context, httpserver.Caller) *httpserver.MCPServer { return nil },
		Find: func(bearer string) (httpserver.Caller, bool) {
			return httpserver.Caller{Tenant: "page", Token: "key"}, subtle.ConstantTimeCompare([]byte(bearer), []byte(key)) == 1
		},
		Allow: listener.OwnPeer,
		Page: &httpserver.Page{
			API:    func(httpserver.Caller) httpserver.Handler { return api },
			Static: page.Static, Protect: page.Protect, LogsIn: true,
		},
	})
	served := make(chan error, 1) // buffered: servePage can have returned
	go func() {                   // owned by servePage; ends with the listener
		served <- server.Serve(at)
	}()
	// A browser sends what is behind the # to no server: the key is in no log and no Referer.
	address := fmt.Sprintf("http://%s/#%s", at.Addr(), key)
	if _, err := fmt.Fprintln(c.Out, address); err != nil {
		return err
	}
	if !noBrowser {
		go func() { // owned by servePage, which does not wait for it; ends with the program that it starts, or the process
			if err := c.Browse(address); err != nil {
				say(fmt.Sprintf("no browser was opened (%v): open the address yourself", err))
			}
		}()
	}
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	soon, end := context.WithTimeout(context.WithoutCancel(ctx), pageEnd)
	defer end()
	server.Shutdown(soon)
	return err
}

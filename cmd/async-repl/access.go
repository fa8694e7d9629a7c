//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/files"
	"asyncrepl/internal/mcp/httpserver"
	"asyncrepl/internal/serve/listener"
	"asyncrepl/internal/serve/relay"
	"asyncrepl/internal/serve/tokens"
)

// AccessSettings decide who may connect over HTTP. A person who connects can run code as the
// server's user. So either a token or the kernel must say who it is, and the traffic of other
// machines must be secured.
type accessSettings struct {
	tokens    string // a file; "": none
	trusted   bool   // several tenants are allowed
	cert, key string // files; "": no TLS
	proxy     bool   // a proxy before the server does TLS
}

// check checks what can be checked before anything is opened.
func (a accessSettings) check() error {
	switch {
	case (a.cert == "") != (a.key == ""):
		return errors.New("a certificate and its key are needed, not one of them: set both -tls-cert and -tls-key (REPL_TLS_CERT, REPL_TLS_KEY)")
	case a.proxy && a.tokens == "":
		return errors.New("-behind-proxy (REPL_BEHIND_PROXY) needs -tokens (REPL_TOKENS): whoever reaches the proxy could run code as you")
	}
	return nil
}

// checkReach checks the rules for a server that only programs of this machine can reach, or others.
func (a accessSettings) checkReach(address string, local bool) error {
	switch {
	case local:
		return nil
	case a.tokens == "":
		return fmt.Errorf("other machines can reach %s, and without tokens whoever does can run code as you: set -tokens (REPL_TOKENS), or listen on 127.0.0.1", address)
	case a.cert == "" && !a.proxy:
		return fmt.Errorf("other machines can reach %s, and without TLS the tokens can be read on the way: set -tls-cert and -tls-key (REPL_TLS_CERT, REPL_TLS_KEY), or -behind-proxy (REPL_BEHIND_PROXY) if a proxy does TLS", address)
	}
	return nil
}

// keys are the contents of the files that the access settings name.
type keys struct {
	tokens      *tokens.File          // nil: there are none, and all callers are one tenant
	certificate *listener.Certificate // nil: no TLS
	tenants     *engine.Tenants
	files       *files.Store
	doors       *doors
	apart       processes // the tenants, each in a sandbox of its own; nil: they are in this process
	log         *slog.Logger
}

// processes are the tenants of a server if each is served in a sandbox of its own.
type processes interface {
	try() error                        // starts one, to find out whether a sandbox starts
	relay(tenant string) *relay.Tenant // returns what passes requests on; nil: the server ends
	relays() []*relay.Tenant
	reread() error // does what the tokens ask for that were read again
	ending()       // has calls answered at once
	close()
}

// openKeys reads the files, and prepares the tenants.
func (s *settings) openKeys(tenants *engine.Tenants, store *files.Store, d *doors, stderr io.Writer) (*keys, error) {
	k := &keys{tenants: tenants, files: store, doors: d, log: s.Log}
	var err error
	if s.access.cert != "" {
		if k.certificate, err = listener.Load(s.access.cert, s.access.key); err != nil {
			return nil, err
		}
	}
	if s.access.tokens != "" {
		k.tokens, err = tokens.Open(s.access.tokens, tokens.Rules{Workspace: s.Workspace, Single: !s.access.trusted && !s.sandbox.On})
		if err != nil {
			return nil, explained(err)
		}
	}
	if s.sandbox.On {
		k.apart = newApart(s, k.tokens, stderr)
		return k, k.apart.try()
	}
	return k, k.prepare(false)
}

func explained(err error) error {
	if errors.Is(err, tokens.ErrManyTenants) {
		return fmt.Errorf("%w, whose jobs would all run as one system user: set -trusted-tenants (REPL_TRUSTED_TENANTS) if they may see each other's files, or -sandbox workspace (REPL_SANDBOX)", err)
	}
	return err
}

// prepare makes the workspace and the engine of every tenant. A workspace that was replaced since it
// was opened is opened again if again is true. If prepare fails for several tenants, the error is the
// first one.
func (k *keys) prepare(again bool) error {
	names := []string{defaultTenant}
	if k.tokens != nil {
		names = k.tokens.Tenants()
	}
	var first error
	for _, name := range names {
		e, err := k.engine(name)
		if err == nil && k.tokens != nil && again {
			err = k.files.Keep(e.Workspace(), again)
		}
		first = cmp.Or(first, err)
	}
	return first
}

// engine returns the engine of a tenant. It opens its workspace once, and its socket for commands.
func (k *keys) engine(tenant string) (*engine.Engine, error) {
	workspace := ""
	if k.tokens != nil {
		workspace = k.tokens.Workspace(tenant)
	}
	e, err := k.tenants.Tenant(tenant, workspace)
	if err == nil && k.tokens != nil {
		err = k.files.Keep(e.Workspace(), false)
	}
	if err != nil {
		return nil, err
	}
	k.doors.open(e, tenant)
	return e, nil
}

// guard sets what decides who may use a server at an address. Without tokens, and at a Unix socket,
// the kernel says who connects.
func (k *keys) guard(c *httpserver.Config, at netAddr) error {
	if k.tokens == nil || at.Network() == "unix" {
		if err := listener.CanTellPeer(at); err != nil {
			return fmt.Errorf("without tokens only you may connect, and this system does not show who does (%w): set -tokens (REPL_TOKENS), or listen on unix:PATH", err)
		}
		c.Allow = listener.OwnPeer
	}
	if k.tokens != nil {
		c.Find = func(bearer string) (httpserver.Caller, bool) {
			g, ok := k.tokens.Find(bearer)
			return httpserver.Caller{Tenant: g.Tenant, Token: g.Token}, ok
		}
	}
	if k.certificate != nil {
		c.TLS = k.certificate.Config()
	}
	return nil
}

// A netAddr is a net.Addr.
type netAddr interface {
	Network() string
	String() string
}

// url returns the address of a path, in the form that clients are configured with.
func (s *settings) url(at netAddr, path string) string {
	switch {
	case s.publicURL != "":
		return s.publicURL + path
	case at.Network() == "unix":
		return fmt.Sprintf("unix:%s, path %s", at, path)
	case s.access.cert != "":
		return fmt.Sprintf("https://%s%s", at, path)
	}
	return fmt.Sprintf("http://%s%s", at, path)
}

// reread reads the files again, and calls revoke with each token that is no longer one. What can't
// be read changes nothing. It reports whether there are files at all.
func (k *keys) reread(revoke func(token string)) bool {
	if k.certificate != nil {
		if err := k.certificate.Reread(); err != nil {
			k.log.Error("certificate not reread; the one before stays in use", "error", err)
		}
	}
	if k.tokens == nil {
		return k.certificate != nil
	}
	removed, err := k.tokens.Reread()
	if err != nil {
		k.log.Error("tokens not reread; those before stay in use", "error", explained(err))
		return true
	}
	for _, token := range removed {
		revoke(token)
	}
	k.log.Info("tokens reread", "removed", len(removed))
	if k.apart != nil {
		err = k.apart.reread()
	} else {
		err = k.prepare(true)
		k.tenants.Keep(k.tokens.Tenants())
	}
	if err != nil {
		k.log.Error("a tenant can't be served", "error", err)
	}
	return true
}

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/channel"
	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/kernel/listening"
)

// The descriptors of an engine in a sandbox.
const (
	innerChannel = 3 // the engine's end of the channel
	innerClient  = 4 // the connection to the front of the first client
)

// What an engine in a sandbox serves.
const (
	inClients = "clients" // clients that come and go
	inStdio   = "stdio"   // one client, over standard input and output
	inTenant  = "tenant"  // the clients of one tenant, over HTTP
)

// inner runs an engine in a sandbox. Its first argument says what it serves.
func inner(ctx context.Context, args []string, std standardStreams) int {
	signals := catchSignals()
	defer signals.release()
	fail := func(err error) int {
		fmt.Fprintln(std.err, "async-repl:", err)
		return 1
	}
	stderr, ok := std.err.(*os.File)
	if !ok || len(args) == 0 {
		return 1
	}
	unix.CloseOnExec(innerChannel)
	unix.CloseOnExec(innerClient)
	in, err := channel.Join(os.NewFile(innerChannel, "the channel"), sandboxTime)
	if err != nil {
		return fail(fmt.Errorf("descriptor %d does not lead out of a sandbox (%w): this command is for the server itself", innerChannel, err))
	}
	if in.Version != ownVersion() {
		return fail(fmt.Errorf("version %s of the program has taken the place of %s, which runs: restart the server", ownVersion(), in.Version))
	}
	set, err := ofOuter(in.Settings)
	if err != nil {
		return fail(err)
	}
	var proxy *net.TCPListener
	if in.Proxy {
		if proxy, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			return fail(fmt.Errorf("listening for the proxy: %w", err))
		}
		defer proxy.Close()
	}
	set.inside, set.PID = &inside{in, proxy}, in.PID()
	set.GuardEnv = set.inside.environ(set.GuardEnv)
	set.Log = newLog(stderr, set.logLevel)
	set.Sandbox = &engine.Confinement{Summary: in.Summary, Removed: in.Removed, Seals: in.Seals}
	var tenant *innerTenant
	if args[0] == inTenant { // its calls get the error
		if tenant, err = newInnerTenant(&set); err != nil {
			return fail(err)
		}
	}
	if err := in.Born(proxy); err != nil {
		return fail(err)
	}
	signals = signals.andThoseOf(in)
	switch args[0] {
	case inClients:
		first, err := sockets.FileConn(os.NewFile(innerClient, "the front"))
		if err != nil {
			return fail(err)
		}
		if err := serveClients(ctx, set, signals, stderr, first); err != nil {
			first.Refuse(err.Error())
			return fail(err)
		}
	case inStdio:
		if err := serveOne(ctx, set, signals, clientInput{std.in, in}, std.out); err != nil {
			return fail(err)
		}
	case inTenant:
		if err := tenant.serve(ctx, signals); err != nil {
			return fail(err)
		}
	default:
		return fail(fmt.Errorf("an engine in a sandbox does not serve %q", args[0]))
	}
	return 0
}

// A clientInput is the standard input of a client. A client that has killed the outer process
// closes it, too, and can do so before the kernel ends this process. That is no end in order: see
// andThoseOf.
type clientInput struct {
	io.ReadCloser
	in *channel.Inner
}

func (c clientInput) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && c.in.Gone() {
		os.Exit(1)
	}
	return n, err
}

// An inside is what an engine knows of the sandbox that it runs in.
type inside struct {
	*channel.Inner
	proxy *net.TCPListener // nil: there is no proxy
}

// proxyVariables are the variables that lead programs to a proxy.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}

// ownNames are the hosts that programs reach without the proxy.
const ownNames = "localhost,127.0.0.1,::1"

// environ returns an environment as it holds in the sandbox. A directory for temporary files or of pnpm that
// can't be written is left out, and so are proxies if the sandbox has a network of its own.
func (i *inside) environ(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		switch upper := strings.ToUpper(name); upper {
		case "TMPDIR", "TMP", "TEMP", "PNPM_HOME":
			return unix.Access(value, unix.W_OK) != nil
		case "NO_PROXY":
			return !i.Network
		default:
			return !i.Network && slices.Contains(proxyVariables, upper)
		}
	})
	value := func(name string) string {
		for _, kv := range slices.Backward(env) {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value
			}
		}
		return ""
	}
	home := value("HOME")
	cache := func(name, dir string) {
		if home != "" && value(name) == "" {
			env = append(env, name+"="+filepath.Join(home, ".cache", dir))
		}
	}
	// These programs write beside others in the home, where everything is only read.
	cache("BUN_INSTALL_CACHE_DIR", "bun")
	cache("PNPM_HOME", "pnpm")
	cache("UV_TOOL_DIR", "uv-tools")
	if i.proxy == nil && !i.Network {
		return env
	}
	if value("GOPATH") == "" { // what ~/go/pkg has is of use without a network
		cache("GOMODCACHE", "go-mod")
	}
	if i.proxy == nil {
		return env
	}
	for _, name := range proxyVariables {
		env = append(env, name+"=http://"+i.proxy.Addr().String())
	}
	return append(env, "NO_PROXY="+ownNames, "no_proxy="+ownNames)
}

// noteDenials has the engine note what the proxy refuses.
func (i *inside) noteDenials(eng *engine.Engine) {
	if i.proxy == nil {
		return
	}
	at := i.proxy.Addr().(*net.TCPAddr).AddrPort()
	go i.Denials(func(d channel.Denial) { // serves the whole process; ends with the outer process
		eng.Deny(listening.Holder(netip.AddrPortFrom(at.Addr(), uint16(d.Port)), at), d.Target)
	})
}

// andThoseOf returns the signals of this process with those that the outer one has got: bubblewrap passes
// none on. If the outer process was killed, so is this one: an end in order would record that jobs were
// stopped, and the next reply would not say that they are lost.
func (s caughtSignals) andThoseOf(in *channel.Inner) caughtSignals {
	ends := make(chan os.Signal, 1)
	own := s.ends
	go func() { // serves the whole process; ends with it
		for ending := in.Ending(); ; {
			var sig os.Signal = syscall.SIGTERM
			select {
			case sig = <-own:
			case <-ending:
				ending = nil
			case <-in.Done():
				os.Exit(1)
			}
			select {
			case ends <- sig:
			default: // it ends already
			}
		}
	}()
	s.ends = ends
	return s
}

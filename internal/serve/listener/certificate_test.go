//go:build unix

package listener_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/serve/listener"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// files are the paths of a certificate and its key.
type files struct{ cert, key string }

// write writes a new certificate that is valid in a time around now.
func (f files) write(t *testing.T, serial int64, from, to time.Duration) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: now.Add(from), NotAfter: now.Add(to), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	raw := must.Get(x509.MarshalECPrivateKey(key))(t)
	for path, block := range map[string]*pem.Block{f.cert: {Type: "CERTIFICATE", Bytes: cert}, f.key: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		must.Do(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
}

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "cert"), filepath.Join(dir, "key")}
}

// shake shakes hands with a server that has this configuration, and returns the client's view.
func shake(t *testing.T, server *tls.Config, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			err = tls.Server(c, server).Handshake()
		}
		done <- err
	}()
	c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer c.Close()
	client.InsecureSkipVerify = true
	secured := tls.Client(c, client)
	err := secured.Handshake()
	<-done
	return secured.ConnectionState(), err
}

func TestCertificateIsReread(t *testing.T) {
	f := newFiles(t)
	f.write(t, 1, -time.Hour, time.Hour)
	c := must.Get(listener.Load(f.cert, f.key))(t)
	shows := func(serial int64) {
		t.Helper()
		state := must.Get(shake(t, c.Config(), &tls.Config{NextProtos: []string{"h2", "http/1.1"}}))(t)
		if got := state.PeerCertificates[0].SerialNumber.Int64(); got != serial {
			t.Errorf("shows %d, want %d", got, serial)
		}
		if state.NegotiatedProtocol != "h2" || state.Version < tls.VersionTLS13 {
			t.Errorf("%q over TLS %x", state.NegotiatedProtocol, state.Version)
		}
	}
	shows(1)
	f.write(t, 2, -time.Hour, time.Hour)
	shows(1)
	if err := c.Reread(); err != nil {
		t.Error(err)
	}
	shows(2)

	// What can't be used changes nothing.
	f.write(t, 3, -2*time.Hour, -time.Hour)
	if err := c.Reread(); err == nil || !strings.Contains(err.Error(), "expired on ") {
		t.Errorf("an expired certificate: %v", err)
	}
	shows(2)
	os.Truncate(f.cert, 20)
	if err := c.Reread(); err == nil || !strings.Contains(err.Error(), f.cert) {
		t.Errorf("half a certificate: %v", err)
	}
	shows(2)
}

func TestOldTLSIsRefused(t *testing.T) {
	f := newFiles(t)
	f.write(t, 1, -time.Hour, time.Hour)
	c := must.Get(listener.Load(f.cert, f.key))(t)
	if _, err := shake(t, c.Config(), &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if _, err := shake(t, c.Config(), &tls.Config{MaxVersion: tls.VersionTLS12}); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
}

func TestBadCertificateIsRefused(t *testing.T) {
	good := newFiles(t)
	good.write(t, 1, -time.Hour, time.Hour)
	for name, c := range map[string]struct {
		spoil func(f files)
		want  string
	}{
		"expired":       {func(f files) { f.write(t, 2, -2*time.Hour, -time.Hour) }, "expired on "},
		"not yet valid": {func(f files) { f.write(t, 2, time.Hour, 2*time.Hour) }, "is not valid before "},
		"another's key": {func(f files) { os.Rename(good.key, f.key) }, "private key does not match"},
		"no key":        {func(f files) { os.Remove(f.key) }, "no such file"},
		"no PEM":        {func(f files) { os.WriteFile(f.cert, []byte("certificate"), 0o600) }, "PEM"},
	} {
		f := newFiles(t)
		f.write(t, 2, -time.Hour, time.Hour)
		c.spoil(f)
		if _, err := listener.Load(f.cert, f.key); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), f.cert) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever can read the key can pretend to be the server. A group can be given a key of root.
func TestKeyThatOthersCanUseIsRefused(t *testing.T) {
	for mode, allowed := range map[os.FileMode]map[int]bool{ // by the file's user
		0o400: {0: true, 12345: true},
		0o600: {0: true, 12345: true},
		0o640: {0: true, 12345: false},
		0o620: {0: false, 12345: false},
		0o604: {0: false, 12345: false},
		0o644: {0: false, 12345: false},
	} {
		for user, want := range allowed {
			f := newFiles(t)
			f.write(t, 1, -time.Hour, time.Hour)
			real := f.key + ".real"
			must.Do(t, os.Rename(f.key, real))
			must.Do(t, os.Symlink(real, f.key))
			must.Do(t, os.Chmod(real, mode))
			needtest.Right(t, "give a file away", os.Chown(real, user, -1), nil)
			_, err := listener.Load(f.cert, f.key)
			switch {
			case want && err != nil:
				t.Errorf("%v of user %d: %v", mode, user, err)
			case !want && (err == nil || !strings.Contains(err.Error(), "chmod 600 it") || !strings.Contains(err.Error(), f.key)):
				t.Errorf("%v of user %d is accepted, or refused with %v", mode, user, err)
			}
		}
	}
}

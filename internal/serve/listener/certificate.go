//go:build unix

package listener

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// A Certificate is what the server proves its name with, read from two files.
type Certificate struct {
	certFile, keyFile string

	current atomic.Pointer[tls.Certificate]
}

// Load reads a certificate, with those that it was signed by after it, and its key, both as PEM.
func Load(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := c.Reread(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reread reads the files again. New connections use what it reads; after an error they use what
// they used before.
func (c *Certificate) Reread() error {
	pair, err := load(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("reading the certificate %s and its key %s: %w", c.certFile, c.keyFile, err)
	}
	if err := valid(pair.Leaf, time.Now()); err != nil {
		return fmt.Errorf("the certificate %s %w", c.certFile, err)
	}
	c.current.Store(&pair)
	return nil
}

func load(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readKey(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// readKey returns the content of a file that only its user can use. A group may read a file of root:
// it is how a system gives keys to services. The file may be a link: tools that renew keys make links.
func readKey(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat() // not os.Stat: another file may take the place of the opened one
	if err != nil {
		return nil, err
	}
	others := fs.FileMode(0o077)
	if info.Sys().(*syscall.Stat_t).Uid == 0 {
		others = 0o037
	}
	if mode := info.Mode().Perm(); mode&others != 0 {
		return nil, fmt.Errorf("the mode of the key is %#o, so that other users can use it: chmod 600 it", mode)
	}
	return io.ReadAll(file)
}

func valid(leaf *x509.Certificate, now time.Time) error {
	const day = "2 January 2006 15:04 MST"
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("expired on %s: renew it", leaf.NotAfter.UTC().Format(day))
	}
	if now.Before(leaf.NotBefore) {
		return fmt.Errorf("is not valid before %s", leaf.NotBefore.UTC().Format(day))
	}
	return nil
}

// Config returns a configuration of TLS 1.2 and later, with HTTP/2, that shows the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

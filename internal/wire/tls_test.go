package wire_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/wire"
)

func TestWhatSaysWhetherToTrustAServerMayPanic(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig("postgres://u@a,b/d?sslmode=require")
	require.NoError(t, err)
	require.NotEmpty(t, config.Fallbacks)
	all := func() []*tls.Config {
		list := []*tls.Config{config.TLSConfig}
		for _, f := range config.Fallbacks {
			list = append(list, f.TLSConfig)
		}
		return list
	}
	for _, c := range all() {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { panic("no certificate") }
		c.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { panic("no certificate") }
		c.VerifyConnection = func(tls.ConnectionState) error { panic("no certificate") }
		c.EncryptedClientHelloRejectionVerify = func(tls.ConnectionState) error { runtime.Goexit(); return nil }
	}
	wire.ContainHooks(config, nil)
	for _, c := range all() {
		_, err := c.GetClientCertificate(nil)
		require.ErrorContains(t, err, "GetClientCertificate of the embedder's pool panicked: no certificate")
		require.ErrorContains(t, c.VerifyPeerCertificate(nil, nil), "VerifyPeerCertificate of")
		require.ErrorContains(t, c.VerifyConnection(tls.ConnectionState{}), "VerifyConnection of")
		require.ErrorContains(t, c.EncryptedClientHelloRejectionVerify(tls.ConnectionState{}), "ended its goroutine")
	}
}

// upset is what a handshake asks for, and panics unless it is calm, or ends its goroutine.
type upset struct {
	exits bool
	calm  atomic.Bool
	shy   bool // panics also when it is asked for its public key
	asked atomic.Int64
	key   crypto.Signer
	cache tls.ClientSessionCache
}

func (u *upset) ask() {
	u.asked.Add(1)
	switch {
	case u.calm.Load():
	case u.exits:
		runtime.Goexit()
	default:
		panic("upset")
	}
}

func (u *upset) Write(p []byte) (int, error) { u.ask(); return len(p), nil }
func (u *upset) Read(p []byte) (int, error)  { u.ask(); return rand.Read(p) }

func (u *upset) now() time.Time                          { u.ask(); return time.Now() }
func (u *upset) Put(k string, s *tls.ClientSessionState) { u.ask(); u.cache.Put(k, s) }

func (u *upset) Get(k string) (*tls.ClientSessionState, bool) {
	u.ask()
	return u.cache.Get(k)
}

func (u *upset) Public() crypto.PublicKey {
	if u.shy {
		u.ask()
	}
	return u.key.Public()
}

func (u *upset) Sign(r io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error) {
	u.ask()
	return u.key.Sign(r, digest, options)
}

// shaking is a server that shakes hands, and no more.
func shaking(t *testing.T, shown tls.Certificate) net.Listener {
	t.Helper()
	at, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{shown}, ClientAuth: tls.RequireAnyClientCert})
	require.NoError(t, err)
	t.Cleanup(func() { _ = at.Close() })
	go func() {
		for {
			conn, err := at.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, conn) // which shakes hands
				_ = conn.Close()
			}()
		}
	}()
	return at
}

// A handshake with what panics is an error or does without, and once that is over it is as
// without the engine.
func TestWhatAHandshakeAsksForMayPanicOrExit(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"x"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	at := shaking(t, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
	roots := x509.NewCertPool()
	own, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots.AddCert(own)
	for what, c := range map[string]struct {
		set  func(*tls.Config, *upset)
		does bool // without
	}{
		"KeyLogWriter": {func(c *tls.Config, u *upset) { c.KeyLogWriter = u }, false},
		"Rand":         {func(c *tls.Config, u *upset) { c.Rand = u }, false},
		"Time": {func(c *tls.Config, u *upset) {
			c.Time, c.RootCAs, c.ServerName, c.InsecureSkipVerify = u.now, roots, "x", false
		}, true},
		"ClientSessionCache":     {func(c *tls.Config, u *upset) { c.ClientSessionCache = u }, true},
		"ClientSessionCache.Put": {func(c *tls.Config, u *upset) { c.ClientSessionCache, c.MaxVersion = u, tls.VersionTLS12 }, true},
		"PrivateKey":             {func(c *tls.Config, u *upset) { c.Certificates[0].PrivateKey = u }, false},
		"PrivateKey.Public":      {func(c *tls.Config, u *upset) { u.shy, c.Certificates[0].PrivateKey = true, u }, true},
		"GetClientCertificate": {func(c *tls.Config, u *upset) {
			given := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: u}
			c.Certificates, c.GetClientCertificate = nil, func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return given, nil }
		}, false},
	} {
		for words, exits := range map[string]bool{"panicked: upset": false, "ended its goroutine": true} {
			t.Run(what+" "+words, func(t *testing.T) {
				t.Parallel()
				config, err := pgx.ParseConfig("postgres://u@a/d?sslmode=require")
				require.NoError(t, err)
				u := &upset{exits: exits, key: key, cache: tls.NewLRUClientSessionCache(1)}
				config.TLSConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
				c.set(config.TLSConfig, u)
				wire.ContainHooks(config, nil)
				shake := func() error {
					here, err := net.Dial("tcp", at.Addr().String())
					require.NoError(t, err)
					defer func() { _ = here.Close() }()
					return tls.Client(here, config.TLSConfig).HandshakeContext(t.Context())
				}
				if c.does {
					require.NoError(t, shake())
				} else {
					require.ErrorContains(t, shake(), words)
				}
				require.Positive(t, u.asked.Load())
				u.calm.Store(true)
				require.NoError(t, shake())
			})
		}
	}
}

package wire

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

// tls contains what the embedder has a say in when a connection is encrypted: handshakes
// take place where a panic ends the process, and package tls holds a lock of all its
// connections while it writes to a KeyLogWriter.
func (h hooks) tls(config *tls.Config) *tls.Config {
	if config == nil {
		return nil
	}
	config = config.Clone()
	config.Certificates = slices.Clone(config.Certificates)
	for i := range config.Certificates {
		contained(&config.Certificates[i])
	}
	h.decisions(config)
	if config.KeyLogWriter != nil {
		config.KeyLogWriter = keyLog{config.KeyLogWriter}
	}
	if config.ClientSessionCache != nil {
		config.ClientSessionCache = sessionCache{config.ClientSessionCache, h}
	}
	if config.Rand != nil && config.Rand != rand.Reader { // of which FIPS 140 asks to be itself
		config.Rand = random{config.Rand}
	}
	if now := config.Time; now != nil {
		config.Time = func() (at time.Time) {
			defer func() {
				if at.IsZero() {
					at = clock.System{}.Now()
				}
			}()
			defer h.tell("Time of TLSConfig")
			return now()
		}
	}
	return config
}

// decisions contains who is trusted, and what the server is shown.
func (hooks) decisions(config *tls.Config) {
	if give := config.GetClientCertificate; give != nil {
		config.GetClientCertificate = func(i *tls.CertificateRequestInfo) (c *tls.Certificate, err error) {
			defer contain("GetClientCertificate", &err)
			if c, err = give(i); c != nil {
				shown := *c // that of the embedder stays as it is
				contained(&shown)
				c = &shown
			}
			return c, err
		}
	}
	if verify := config.VerifyPeerCertificate; verify != nil {
		config.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) (err error) {
			defer contain("VerifyPeerCertificate", &err)
			return verify(raw, chains)
		}
	}
	if verify := config.VerifyConnection; verify != nil {
		config.VerifyConnection = func(state tls.ConnectionState) (err error) {
			defer contain("VerifyConnection", &err)
			return verify(state)
		}
	}
}

// contained contains the key of a certificate, if it is one that signs.
func contained(c *tls.Certificate) {
	if key, signs := c.PrivateKey.(crypto.Signer); signs {
		c.PrivateKey = privateKey{key}
	}
}

// privateKey is a key that may be kept elsewhere, as in a device.
type privateKey struct{ crypto.Signer }

// Public implements crypto.Signer. A certificate with a key of no known kind is not shown.
func (k privateKey) Public() (key crypto.PublicKey) {
	var err error
	defer contain("PrivateKey of a certificate", &err)
	return k.Signer.Public()
}

// Sign implements crypto.Signer.
func (k privateKey) Sign(random io.Reader, digest []byte, options crypto.SignerOpts) (signature []byte, err error) {
	defer contain("PrivateKey of a certificate", &err)
	return k.Signer.Sign(random, digest, options)
}

// SignMessage implements crypto.MessageSigner for every key.
func (k privateKey) SignMessage(random io.Reader, message []byte, options crypto.SignerOpts) (signature []byte, err error) {
	defer contain("PrivateKey of a certificate", &err)
	return crypto.SignMessage(k.Signer, random, message, options)
}

type keyLog struct{ io.Writer }

// Write implements io.Writer.
func (w keyLog) Write(line []byte) (n int, err error) {
	defer contain("KeyLogWriter of TLSConfig", &err)
	return w.Writer.Write(line)
}

type random struct{ io.Reader }

// Read implements io.Reader.
func (r random) Read(into []byte) (n int, err error) {
	defer contain("Rand of TLSConfig", &err)
	return r.Reader.Read(into)
}

// sessionCache resumes no session where the embedder's cache panics.
type sessionCache struct {
	tls.ClientSessionCache
	hooks hooks
}

// Get implements tls.ClientSessionCache.
func (c sessionCache) Get(key string) (session *tls.ClientSessionState, ok bool) {
	defer c.hooks.tell("ClientSessionCache of TLSConfig")
	return c.ClientSessionCache.Get(key)
}

// Put implements tls.ClientSessionCache.
func (c sessionCache) Put(key string, session *tls.ClientSessionState) {
	defer c.hooks.tell("ClientSessionCache of TLSConfig")
	c.ClientSessionCache.Put(key, session)
}

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
			if h.apart("Time of TLSConfig", func() { at = now() }); at.IsZero() {
				at = clock.System{}.Now()
			}
			return at
		}
	}
	return config
}

// decisions contains who is trusted, and what the server is shown.
func (hooks) decisions(config *tls.Config) {
	if give := config.GetClientCertificate; give != nil {
		config.GetClientCertificate = func(i *tls.CertificateRequestInfo) (c *tls.Certificate, err error) {
			err = apart("GetClientCertificate", func() (err error) {
				c, err = give(i)
				return err
			})
			if c != nil {
				shown := *c // that of the embedder stays as it is
				contained(&shown)
				c = &shown
			}
			return c, err
		}
	}
	if verify := config.VerifyPeerCertificate; verify != nil {
		config.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			return apart("VerifyPeerCertificate", func() error { return verify(raw, chains) })
		}
	}
	for name, verify := range map[string]*func(tls.ConnectionState) error{
		"VerifyConnection": &config.VerifyConnection, "EncryptedClientHelloRejectionVerify": &config.EncryptedClientHelloRejectionVerify,
	} {
		if own := *verify; own != nil {
			*verify = func(state tls.ConnectionState) error {
				return apart(name, func() error { return own(state) })
			}
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
	_ = apart(ofCertificate, func() error { key = k.Signer.Public(); return nil })
	return key
}

// Sign implements crypto.Signer.
func (k privateKey) Sign(random io.Reader, digest []byte, options crypto.SignerOpts) (signature []byte, err error) {
	err = apart(ofCertificate, func() (err error) {
		signature, err = k.Signer.Sign(random, digest, options)
		return err
	})
	return signature, err
}

// SignMessage implements crypto.MessageSigner for every key.
func (k privateKey) SignMessage(random io.Reader, message []byte, options crypto.SignerOpts) (signature []byte, err error) {
	err = apart(ofCertificate, func() (err error) {
		signature, err = crypto.SignMessage(k.Signer, random, message, options)
		return err
	})
	return signature, err
}

const ofCertificate = "PrivateKey of a certificate"

type keyLog struct{ io.Writer }

// Write implements io.Writer.
func (w keyLog) Write(line []byte) (n int, err error) {
	err = apart("KeyLogWriter of TLSConfig", func() (err error) {
		n, err = w.Writer.Write(line)
		return err
	})
	return n, err
}

type random struct{ io.Reader }

// Read implements io.Reader.
func (r random) Read(into []byte) (n int, err error) {
	err = apart("Rand of TLSConfig", func() (err error) {
		n, err = r.Reader.Read(into)
		return err
	})
	return n, err
}

// sessionCache resumes no session where the embedder's cache panics.
type sessionCache struct {
	tls.ClientSessionCache
	hooks hooks
}

const ofSessions = "ClientSessionCache of TLSConfig"

// Get implements tls.ClientSessionCache.
func (c sessionCache) Get(key string) (session *tls.ClientSessionState, ok bool) {
	c.hooks.apart(ofSessions, func() { session, ok = c.ClientSessionCache.Get(key) })
	return session, ok
}

// Put implements tls.ClientSessionCache.
func (c sessionCache) Put(key string, session *tls.ClientSessionState) {
	c.hooks.apart(ofSessions, func() { c.ClientSessionCache.Put(key, session) })
}

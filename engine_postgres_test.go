package troupe

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// An address that accepts connections and never answers is said at the start, after a
// while. One that refuses them is told by what asks for more.
func TestAPoolThatGivesNoConnection(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends with the test
	require.NoError(t, err)
	open := func() *pgxpool.Pool {
		pool, err := pgxpool.New(t.Context(), fmt.Sprintf("postgres://troupe:secret@%s/troupe", silent.Addr()))
		require.NoError(t, err)
		return pool
	}
	err = reach(t.Context(), open(), "DirectURL", 50*time.Millisecond)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "DirectURL gave no connection within 50ms")
	require.ErrorContains(t, err, "connect_timeout")
	require.NotContains(t, err.Error(), "secret")
	require.NoError(t, silent.Close())
	require.NoError(t, reach(t.Context(), open(), givenPool, time.Minute))
}

func TestACertificateThatIsNotAcceptedIsSaid(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("connect: %w", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}})
	require.Equal(t, "the database's certificate is not accepted: x509: certificate signed by unknown authority", unreached(err))
	err = fmt.Errorf("connect: %w", &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "db.shop"}})
	require.Equal(t, "the database's certificate is not accepted: it is for another host than the one that the engine connects to", unreached(err))
}

func TestAServerThatTakesNoWritesIsSaid(t *testing.T) {
	t.Parallel()
	refused := persistence.Plain(errors.New("the server takes no writes"))
	require.Equal(t, "the server takes no writes", unreached(fmt.Errorf("%w: dial: %w", ErrUnavailable, refused)))
	require.Equal(t, "the database does not answer", unreached(fmt.Errorf("%w: dial 10.1.2.3", ErrUnavailable)))
}

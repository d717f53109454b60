package pgdev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloadMajor is the version that a machine without PostgreSQL gets.
const downloadMajor = 18

func downloadDir() string { return filepath.Join(CacheDir(), "postgresql") }

// download fetches the binaries into the cache folder. The library can only
// fetch as a part of starting a server of its own, so its server is let start,
// or fail (as root it must), and what counts is whether the programs are there.
func download(ctx context.Context) (binaries, error) {
	home := filepath.Join(downloadDir(), fmt.Sprint(downloadMajor))
	if err := os.MkdirAll(home, 0o755); err != nil {
		return binaries{}, fmt.Errorf("create the download folder: %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return binaries{}, err
	}
	scratch := filepath.Join(home, "scratch")
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.V18).
		Port(uint32(port)).
		CachePath(filepath.Join(home, "archive")).
		BinariesPath(home).
		RuntimePath(scratch).
		DataPath(filepath.Join(scratch, "data")).
		Logger(io.Discard))
	startErr := server.Start()
	if startErr == nil {
		startErr = server.Stop()
	}
	removeErr := os.RemoveAll(scratch)
	found, ok := inspect(ctx, filepath.Join(home, "bin"))
	if !ok {
		return binaries{}, fmt.Errorf("%w (download: %w)", ErrNoServer, errors.Join(startErr, removeErr))
	}
	return found, nil
}

package pgdev

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// binaries is a folder with the programs of one PostgreSQL installation.
type binaries struct {
	dir   string
	major int
}

func (b binaries) program(name string) string { return filepath.Join(b.dir, name) }

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// packageFolders are where the usual packages put the server's programs.
func packageFolders() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",              // Debian, Ubuntu
		"/usr/pgsql-*/bin",                       // RHEL, Fedora
		"/usr/libexec/postgresql*",               // Alpine
		"/opt/homebrew/opt/postgresql@*/bin",     // Homebrew on Apple silicon
		"/usr/local/opt/postgresql@*/bin",        // Homebrew on Intel
		"/Applications/Postgres.app/*/*/*/bin",   // Postgres.app
		"/usr/local/pgsql/bin",                   // built from source
		filepath.Join(downloadDir(), "*", "bin"), // an earlier download
	}
}

// findBinaries returns the newest installation, or that of the major version
// if it is not 0. ErrNoServer means none was found.
func findBinaries(ctx context.Context, major int) (binaries, error) {
	var best binaries
	for _, dir := range candidateFolders() {
		found, ok := inspect(ctx, dir)
		switch {
		case !ok || found.major < majorMin:
		case major != 0 && found.major != major:
		case found.major > best.major:
			best = found
		}
	}
	if best.major != 0 {
		return best, nil
	}
	if major != 0 {
		return binaries{}, fmt.Errorf("look for PostgreSQL %d: %w", major, ErrNoServer)
	}
	return binaries{}, ErrNoServer
}

func candidateFolders() []string {
	if dir := os.Getenv(EnvBinaries); dir != "" {
		return []string{dir, filepath.Join(dir, "bin")}
	}
	var folders []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if program, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(program))
		}
	}
	for _, pattern := range packageFolders() {
		matches, _ := filepath.Glob(pattern) // only a bad pattern fails, and these are constants
		folders = append(folders, matches...)
	}
	return folders
}

// inspect reports the installation in dir, if there is a whole one.
func inspect(ctx context.Context, dir string) (binaries, bool) {
	found := binaries{dir: dir}
	if _, err := os.Stat(found.program("initdb")); err != nil {
		return binaries{}, false
	}
	out, err := exec.CommandContext(ctx, found.program("postgres"), "--version").Output()
	if err != nil {
		return binaries{}, false
	}
	version := versionPattern.FindSubmatch(out)
	if version == nil {
		return binaries{}, false
	}
	found.major, err = strconv.Atoi(string(version[1]))
	return found, err == nil
}

package pgdev

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// account is the user the server runs as. The zero value is the caller.
type account struct {
	name     string
	uid, gid int
	switched bool // the server's user is not the caller's
}

// serverAccount chooses the user of the server: the caller, unless that is
// root, which PostgreSQL refuses.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(found.Uid)
		gid, gidErr := strconv.Atoi(found.Gid)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return account{}, fmt.Errorf("read user %s: %w", name, err)
		}
		return account{name: name, uid: uid, gid: gid, switched: true}, nil
	}
	return account{}, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody: run as an ordinary user")
}

// own gives the path, not what is below it, to the account.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	if err := os.Chown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("give %s to user %s: %w", path, a.name, err)
	}
	return nil
}

// enter reports why the account cannot reach the folder, by the permissions of
// each folder on the way.
func (a account) enter(path string) error {
	if !a.switched {
		return nil
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		status, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("reach the data folder: %w", err)
		}
		if status.Mode().Perm()&0o001 == 0 && !a.owns(dir) {
			return fmt.Errorf("user %s, which runs the server for root, cannot enter %s: choose another folder, or run as an ordinary user", a.name, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

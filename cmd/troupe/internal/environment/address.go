package environment

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// form is how an address is written.
const form = "use the form postgres://user@host:5432/database"

// scheme is how a URL begins. A string of keywords never does: what is before
// the first = is a name.
var scheme = regexp.MustCompile(`^\s*([A-Za-z][A-Za-z0-9+.:-]*)://`)

// CheckAddress says why a text is no address of a database. It connects to
// nothing. Nobody else may take a URL for keywords and values: the driver does,
// of one with a = in it.
func CheckAddress(text string) error {
	if found := scheme.FindStringSubmatch(text); found != nil {
		switch name := strings.ToLower(found[1]); {
		case strings.HasPrefix(name, "jdbc:"):
			return errors.New("it is a JDBC URL, which only Java reads: " + form + ", with the password in it or in PGPASSWORD")
		case name != "postgres" && name != "postgresql":
			return fmt.Errorf("it is a URL of %s: %s", found[1], form)
		case !strings.HasPrefix(text, name+"://"):
			return fmt.Errorf("it begins with %q: write it in small letters, without space before it: %s", found[0], form)
		}
	}
	if _, err := pgx.ParseConfig(text); err != nil {
		return fmt.Errorf("%w: %s", err, form)
	}
	return nil
}

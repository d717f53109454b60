package environment

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// form is how an address is written.
const form = "use the form postgres://user@host:5432/database"

// scheme is how a URL begins. A string of keywords never does: what is before
// the first = is a name.
var scheme = regexp.MustCompile(`^\s*([A-Za-z][A-Za-z0-9+.:-]*)://`)

var (
	// keywords is what the driver can take for keywords and values. It would take any
	// text with a = in it, and go to the default host with it.
	keywords = regexp.MustCompile(`(?s)^\s*(?:[A-Za-z_][A-Za-z0-9_.]*\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*)?\s*)+$`)
	quoted   = regexp.MustCompile("^\\s*['\"`]")
)

// CheckAddress says why a text is no address of a database. It does not
// connect. The driver may take a URL for keywords and values, or a part of a password for
// a host, and its error shows them; such texts are refused here first.
func CheckAddress(text string) error {
	if quoted.MatchString(text) {
		return errors.New("it begins with a quote: remove the quotes")
	}
	if found := scheme.FindStringSubmatch(text); found != nil {
		switch name := strings.ToLower(found[1]); {
		case strings.HasPrefix(name, "jdbc:"):
			return errors.New("it is a JDBC URL, which only Java reads: " + form + ", with the password in it or in PGPASSWORD")
		case name != "postgres" && name != "postgresql":
			return fmt.Errorf("it is a URL of %s: %s", found[1], form)
		case !strings.HasPrefix(text, name+"://"):
			return fmt.Errorf("it begins with %q: write it in small letters, without space before it: %s", found[0], form)
		}
		if err := checkSigns(text[len(found[0]):]); err != nil {
			return err
		}
	} else if !keywords.MatchString(text) {
		return errors.New("it is neither a URL nor a list of keywords: " + form +
			", or host=h user=u dbname=d with single quotes around a value with spaces")
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return fmt.Errorf("%w: %s", err, form)
	}
	return checkParts(config)
}

// checkSigns says what is not written as a URL has to: what is after its scheme
// ends where the driver does not see it.
func checkSigns(rest string) error {
	address, query, _ := strings.Cut(rest, "?")
	host, path, _ := strings.Cut(address, "/")
	switch at := strings.Count(host, "@"); {
	case at > 1:
		return errors.New("it has more than one @ before its host: write an @ in a name or a password as %40")
	case at == 0 && strings.Contains(path, "@"):
		return errors.New("it has an @ after its host: write a / in a name or a password as %2F")
	}
	for parameter := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(parameter, "="); strings.Contains(name, "@") {
			return errors.New("it has an @ in the name of a parameter: write a ? in a name or a password as %3F")
		}
	}
	return nil
}

// checkParts says which part cannot be what it was taken for.
func checkParts(config *pgx.ConnConfig) error {
	parts := maps.Clone(config.RuntimeParams)
	delete(parts, "application_name") // may be anything
	parts["host"], parts["user"], parts["dbname"] = config.Host, config.User, config.Database
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if strings.Contains(parts[name], "://") {
			return fmt.Errorf("it has a URL as the value of %s: give the URL alone", name)
		}
	}
	hosts := []string{config.Host}
	for _, other := range config.Fallbacks {
		hosts = append(hosts, other.Host)
	}
	if slices.ContainsFunc(hosts, func(host string) bool { return strings.Contains(host, "@") }) {
		return errors.New("its host has an @ in it: " + form)
	}
	return nil
}

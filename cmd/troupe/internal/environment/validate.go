package environment

import (
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe"
)

// Validate returns every value that no engine could work with, by the name of
// its variable.
func (v Values) Validate() error {
	names, others := map[string]string{}, []string{}
	for _, setting := range troupe.Settings() {
		if setting.Env != "" {
			names[setting.Field] = setting.Env
			others = append(others, " "+setting.Field+" (", " "+setting.Env+" (") // as a text names a second field
		}
	}
	inText := strings.NewReplacer(others...)
	var problems []error
	for _, err := range each(v.Config.Validate()) {
		var wrong *troupe.ConfigError
		if errors.As(err, &wrong) && names[wrong.Field] != "" {
			err = fmt.Errorf("%s %s: %s", names[wrong.Field], inText.Replace(wrong.Text), wrong.Remedy)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// each returns the errors that were joined.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

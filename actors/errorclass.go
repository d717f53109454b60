package actors

import "errors"

// classError gives an error a class.
type classError struct {
	class string
	err   error
}

// WithClass returns err with a class, by which operators sort failures. WithClass of nil
// is nil.
func WithClass(class string, err error) error {
	if err == nil {
		return nil
	}
	return classError{class, err}
}

// Error implements error.
func (e classError) Error() string { return e.err.Error() }

// Unwrap returns the error that has the class.
func (e classError) Unwrap() error { return e.err }

// ErrorClass returns the class that WithClass gave to err, or to an error it
// wraps, the outermost first; "" if there is none.
func ErrorClass(err error) string {
	var classed classError
	_ = errors.As(err, &classed)
	return classed.class
}

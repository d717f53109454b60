// Package panics tells what a panic was about.
package panics

import (
	"fmt"
)

// Text is the text of a value that was recovered. Whatever made it panic may do so again
// when it is asked for its text: fmt holds one such panic, not one within another.
func Text(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a value of %T, whose text panics", value)
		}
	}()
	return fmt.Sprint(value)
}

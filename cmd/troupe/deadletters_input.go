package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
)

// payloadLimit is troupe.Config.PayloadLimit where the environment names none.
const payloadLimit = 1 << 20

// input reads the new input, if one is given. No program judges it here, so all
// that can be known without one is checked: its size, and that it is JSON.
func (r *requeueFlags) input(c *cobra.Command, w world, args []string) error {
	given := c.Flags().Changed("input")
	switch {
	case !given && r.raw:
		return errors.New("--raw is given without --input: name a file, or - for standard input")
	case !given:
		return nil
	case len(args) == 0:
		return errors.New("--input is for one dead letter: give its id, not --first or --all")
	case r.file == "":
		return errors.New("--input is empty: name a file, or - for standard input")
	}
	values, err := environment.Read(w.environ)
	if err != nil {
		return err
	}
	limit := cmp.Or(values.Config.PayloadLimit, payloadLimit)
	payload, err := read(r.file, w.in, limit)
	switch {
	case err != nil:
		return fmt.Errorf("--input: %w", err)
	case len(payload) > limit:
		return fmt.Errorf("--input has more than %d bytes: pass a reference, or set TROUPE_PAYLOAD_LIMIT to what the pods have", limit)
	case r.raw:
		r.options.Payload = payload
		return nil
	}
	if payload = bytes.TrimSpace(payload); !json.Valid(payload) {
		return errors.New("--input is not JSON, which the default codec writes: mend it, or add --raw if the program has a codec of its own")
	}
	r.options.Payload = payload
	return nil
}

// read returns what a file has, or standard input, and no more than a byte
// beyond the limit.
func read(file string, in io.Reader, limit int) (payload []byte, err error) {
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }() // it was only read
		in = opened
	}
	payload, err = io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if payload == nil {
		payload = []byte{} // no bytes are an input, too
	}
	return payload, err
}

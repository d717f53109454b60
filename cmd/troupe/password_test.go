package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// However an address was written, and cut off, nothing of its password is shown.
func TestB44PasswordsAreMasked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"cannot parse `host=h password=hunter2 port=x`: invalid port",
		`host=h password=hun\ ter2 port=x`, `password='hun ter2' host=h`, `password='a\' hun ter2`, `password="hun ter2`,
		"parse `password='hun ter2`: it ends early", "postgres://h/d?user=u&password=hunter2&sslmode=x",
	} {
		masked := oneLine(text)
		require.NotContains(t, masked, "hun", text)
		require.NotContains(t, masked, "ter2", text)
		require.Contains(t, masked, "xxxxx", text)
	}
	require.Equal(t, "cannot parse `host=h password=xxxxx port=x`: invalid port", oneLine("cannot parse `host=h password=hunter2 port=x`: invalid port"))
	require.Equal(t, "cannot parse `password=xxxxx`: invalid", oneLine("cannot parse `password=hunter2`: invalid"))
}

package pgtest

import (
	"os"
	"testing"
	"time"
)

// EnvFull asks for all that a test can do, however long it takes, and for a
// judgement of times: `make test-full` and `make chaos` set it to 1.
const EnvFull = "TROUPE_TEST_FULL"

// Full tells whether EnvFull is set.
func Full() bool { return os.Getenv(EnvFull) != "" }

// FullOnly skips a test that takes too long for `make test`; why says for what.
func FullOnly(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skip(why + ": `make test-full` does it")
	}
}

// Scale returns how much of something a test does: usual in `make test`, and all
// of it in `make test-full`.
func Scale[T any](usual, all T) T {
	if Full() {
		return all
	}
	return usual
}

// Within shows how long something took. Only `make test-full` judges it against
// the limit: in `make test` other packages have the cores, too.
func Within(t testing.TB, limit, took time.Duration, text string) {
	t.Helper()
	t.Logf("%s took %v; the limit of `make test-full` is %v", text, took.Round(time.Millisecond), limit)
	if Full() && took > limit {
		t.Errorf("%s took %v, which is more than %v", text, took, limit)
	}
}

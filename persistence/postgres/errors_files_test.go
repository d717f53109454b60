package postgres

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/internal/wire"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/steptx"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// An error of the disk that has no code of its own, such as a quota, is not the fault of
// the step whose statement meets it. Here a limit of the size of files causes it.
func TestAFileThatMayNotGrowIsNotTheStepsFault(t *testing.T) {
	t.Parallel()
	limit, err := exec.LookPath("prlimit")
	if err != nil {
		t.Skip("prlimit is not installed")
	}
	server := pgtest.Server(t, nil)
	address, err := server.CreateDatabase(t.Context(), "files")
	require.NoError(t, err)
	config, err := pgxpool.ParseConfig(address)
	require.NoError(t, err)
	config.MaxConns = 1 // the session that is limited is the next one, too
	user, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	d := openSchema(t, user, Options{})
	k := newFixture(d, storetest.Single())
	pod := k.join(time.Hour)
	d.exec("create table large (x text)")
	d.exec("alter table large alter x set storage external")
	const files = 16 << 20 // so much log is in one file
	insert := func(tx pgx.Tx) error {
		_, err := tx.Exec(k.ctx, "insert into large select repeat('x', 1 << 20) from generate_series(1, 24)")
		return err
	}
	for _, limited := range []bool{true, false} {
		_, err = k.step(pod, func(ctx context.Context, tx pgx.Tx) error {
			if limited {
				process := strconv.Itoa(int(tx.Conn().PgConn().PID()))
				command := exec.CommandContext(ctx, limit, "--pid", process, "--fsize="+strconv.Itoa(files))
				asOwner(t, command, "/proc/"+process)
				out, err := command.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			return insert(tx)
		})
		if !limited {
			require.NoError(t, err)
			continue
		}
		var pg *pgconn.PgError
		require.ErrorIs(t, err, persistence.ErrTxBroken)
		require.ErrorContains(t, err, "File too large")
		tx, begun := user.Begin(t.Context())
		require.NoError(t, begun)
		err = insert(tx)
		require.NoError(t, tx.Rollback(t.Context()))
		require.ErrorAs(t, err, &pg)
		require.Equal(t, pgerr.CodeInternal, pg.Code, "should it get a code of its own, it is to be known")
		require.ErrorIs(t, pgerr.Translate(err), persistence.ErrDiskFull)
		user.Reset()
	}
}

// asOwner has the command run as the owner of a process of PostgreSQL's.
func asOwner(t *testing.T, command *exec.Cmd, process string) {
	t.Helper()
	name, err := os.ReadFile(process + "/comm")
	require.NoError(t, err)
	require.Equal(t, "postgres", strings.TrimSpace(string(name)))
	if os.Getuid() != 0 {
		return
	}
	info, err := os.Stat(process)
	require.NoError(t, err)
	owner, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
}

// A transaction_timeout is the step's fault while its function is running; after that it
// hits the engine's statements.
func TestATransactionTimeoutAfterTheFunctionIsNotCharged(t *testing.T) {
	t.Parallel()
	late := &pgconn.PgError{Code: pgerr.CodeTxTimeout}
	require.False(t, steptx.Broke(late))
	require.ErrorIs(t, steptx.StepRefused(late), persistence.ErrTxBroken)
	met := &pgconn.PgError{Code: "57014", Message: "canceling statement due to statement timeout"} // by a statement of the engine
	require.ErrorIs(t, steptx.StepRefused(met), persistence.ErrTxBroken)
	require.ErrorIs(t, (&recording{}).ownRefused(late), persistence.ErrTxBroken)
}

// A disk that has become read-only is told as a missing right, a quota as an internal
// error; rights that are missing, and what a function of a user's raises, are not.
func TestWhatAFileOfTheServersRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused pgconn.PgError
		want    error
		step    bool // it is the fault of a step that hears it
	}{
		"a full disk":            {pgconn.PgError{Code: pgerr.CodeDiskFull, File: "md.c", Routine: "mdextend"}, persistence.ErrDiskFull, false},
		"a quota":                {pgconn.PgError{Code: pgerr.CodeInternal, File: "md.c", Routine: "mdzeroextend"}, persistence.ErrDiskFull, false},
		"of what is sorted":      {pgconn.PgError{Code: pgerr.CodeInternal, File: "buffile.c", Routine: "BufFileDumpBuffer"}, persistence.ErrDiskFull, false},
		"a read-only disk":       {pgconn.PgError{Code: pgerr.CodeNoPrivilege, File: "md.c", Routine: "mdextend"}, persistence.ErrDiskFull, false},
		"a file that is denied":  {pgconn.PgError{Code: pgerr.CodeNoPrivilege, File: "md.c", Routine: "mdopenfork"}, persistence.ErrUnavailable, false},
		"a damaged disk":         {pgconn.PgError{Code: pgerr.CodeInternal, File: "md.c", Routine: "mdread"}, persistence.ErrUnavailable, false},
		"a folder of the step's": {pgconn.PgError{Code: pgerr.CodeNoPrivilege, File: "fd.c", Routine: "ReadDirExtended"}, persistence.ErrUnavailable, true},
		"a missing right":        {pgconn.PgError{Code: pgerr.CodeNoPrivilege, File: "aclchk.c", Routine: "aclcheck_error"}, persistence.ErrUnavailable, true},
		"no buffers":             {pgconn.PgError{Code: pgerr.CodeInternal, File: "freelist.c", Routine: "StrategyGetBuffer"}, persistence.ErrNoResources, false},
		"an error of a query":    {pgconn.PgError{Code: pgerr.CodeInternal, File: "setrefs.c", Routine: "set_plan_refs"}, nil, true},
		"no code":                {pgconn.PgError{}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.want != nil {
				require.ErrorIs(t, pgerr.Translate(&c.refused), c.want)
			}
			require.Equal(t, c.want == persistence.ErrDiskFull, errors.Is(pgerr.Translate(&c.refused), persistence.ErrDiskFull)) //nolint:errorlint // which of them is meant
			require.Equal(t, c.step, !steptx.Exhausted(&c.refused))
			require.Equal(t, c.step, !errors.Is(steptx.StepRefused(&c.refused), persistence.ErrUnavailable))
			if pgerr.FileRefused(&c.refused) {
				require.ErrorIs(t, (&recording{otherRole: true}).ownRefused(&c.refused), persistence.ErrUnavailable)
			}
		})
	}
}

// Messages to users say why the connection to a server is refused, without its address.
func TestWhyAServerIsRefusedIsShown(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	config.RuntimeParams["default_transaction_read_only"] = "on"
	wire.Prepare(config, nil)
	_, err = pgx.ConnectConfig(t.Context(), config)
	refused := pgerr.Translate(err)
	require.ErrorIs(t, refused, persistence.ErrUnavailable)
	require.ErrorContains(t, refused, "127.0.0.1")
	require.Equal(t, "the server takes no writes (read only): connect to the primary,"+
		" or turn default_transaction_read_only off for the database or the role", persistence.Shown(refused))
}

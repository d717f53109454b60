package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev"
)

// diskSize is the disk of the server that gets full.
const diskSize = "260m"

// F37: the disk of the server is full. Nothing is lost, no pod ends, and all of
// them say that they are not ready.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F37", Name: "disk-full", Fault: "the server's disk (tmpfs) is full under load, the server ends; space is made, the server is started",
		Must: "I1 to I6: what was acknowledged is there, nothing is half written",
		Allowed: []figure{
			none("pods ended"), within("not ready after", 2*time.Second), within("ready again after", 5*time.Second), within("resumed after", 5*time.Second),
		},
	})
	dir := smallDisk(r)
	server, err := pgdev.Start(r.Context(), pgdev.Options{
		Dir: filepath.Join(dir, "server"), Private: true,
		Settings: map[string]string{"min_wal_size": "32MB", "max_wal_size": "64MB", "shared_buffers": "32MB"},
	})
	require.NoError(r, err)
	r.Cleanup(func() { _ = server.Kill() }) // with its disk
	url, err := server.CreateDatabase(r.Context(), "chaos")
	require.NoError(r, err)
	y := newYardOn(r, url, brisk(), 6)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	y.postmaster()
	filler := filepath.Join(dir, "filler")
	fill(r, filler)
	y.until("the server cannot write", patience, func() bool {
		_, err := y.pool.Exec(r.Context(), "create table if not exists public.filler (x text); insert into public.filler select repeat(n::text, 300) from generate_series(1, 2000) n")
		return err != nil
	})
	r.took("not ready after", y.until("no pod is ready", patience, func() bool { return y.ready(pods) == 0 }))
	y.under(spell(2*time.Second, 10*time.Second))
	r.count("pods ended", len(pods)-len(y.alive()))
	require.NoError(r, os.Remove(filler))
	require.NoError(r, server.Kill())
	require.NoError(r, server.Restart(r.Context()))
	began := time.Now()
	y.until("every pod is ready", patience, func() bool { return y.ready(pods) == len(pods) })
	r.took("ready again after", time.Since(began))
	y.resumed()
	r.took("resumed after", time.Since(began))
	y.settle()
}

// ready counts the pods that say that they are ready.
func (y *yard) ready(pods []*pod) int {
	y.t.Helper()
	n := 0
	for _, p := range pods {
		p.tell("health")
		if strings.Contains(y.hear(p, "health"), `"ready":true`) {
			n++
		}
	}
	return n
}

// smallDisk mounts a disk of its own for the test.
func smallDisk(r *trial) string {
	r.Helper()
	dir := openToServers(r)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskSize+",mode=0755"); err != nil {
		r.notInjected("no small disk can be mounted (that takes root): %v", err)
	}
	r.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if os.Geteuid() == 0 {
		uid, gid := serverUser(r)
		require.NoError(r, os.Chown(dir, uid, gid))
	}
	return dir
}

// fill writes a file until the disk is full.
func fill(r *trial, path string) {
	r.Helper()
	file, err := os.Create(path)
	require.NoError(r, err)
	for block := make([]byte, 64<<10); err == nil; {
		_, err = file.Write(block)
	}
	require.True(r, errors.Is(err, syscall.ENOSPC), "%v", err)
	require.NoError(r, file.Close())
}

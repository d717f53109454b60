package chaos

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// A pod that has used up its file descriptors cannot connect again when its
// sessions end. It serves again once it can, and others have taken over.
func TestFilesAreUsedUp(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "I13", Name: "files-used-up", Fault: "a pod under load has no file descriptor left for 3 leases, and its sessions are ended",
		FullOnly: true, Must: "I1 I3 I4 I13", Allowed: []figure{atLeast("sessions ended", 1, ""), within("it serves again after", 5*time.Second)},
	})
	y := newYard(r, brisk(), 4)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	pods[2].tell("hoard")
	y.hear(pods[2], "hoarded")
	const end = `select count(pg_terminate_backend(pid))::int from pg_stat_activity
		where datname = current_database() and application_name = 'troupe pod-3'`
	ended, late := 0, 0
	for began := time.Now(); time.Since(began) < 3*y.tune.Lease; y.under(100 * time.Millisecond) {
		ended += y.number(end)
		if y.stats(pods[2]).Lease != "live" {
			late++
		}
	}
	r.count("sessions ended", ended)
	r.note("lease late or lost: %d times", late) // the file descriptors of dead sessions are enough to connect again
	pods[2].tell("release")
	released := time.Now()
	y.hear(pods[2], "released")
	y.eventually("it serves again", func() bool { return y.health(pods[2]).Ready })
	r.took("it serves again after", time.Since(released))
	v := y.settle()
	r.note("tasks lost with it: %d", v.losses)
}

// hoard opens files until no more can be opened.
func (p *podProcess) hoard() string {
	const few = 128
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err.Error()
	}
	limit.Cur = few
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err.Error()
	}
	for {
		file, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Sprint(len(p.hoarded))
		}
		p.hoarded = append(p.hoarded, file)
	}
}

// release closes what hoard opened.
func (p *podProcess) release() {
	for _, file := range p.hoarded {
		_ = file.Close() // nothing was written
	}
	p.hoarded = nil
}

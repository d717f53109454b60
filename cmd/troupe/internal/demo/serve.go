package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
)

// PodCommand is the name of the hidden subcommand that a pod's process runs.
const PodCommand = "demo-pod"

// Pod is one pod of the demo, inside its own process.
type Pod struct {
	DatabaseURL string
	Config      troupe.Config
	Root        string // of the source tree
	Ledger      string // path of the pod's file of effects
	In          io.Reader
	Out         io.Writer
}

// Serve starts the pod, answers requests until the input ends, and stops it in
// good order.
func (p Pod) Serve(ctx context.Context) (err error) {
	ledger, err := createLedger(p.Ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.close()) }()
	pool, err := pgxpool.New(ctx, p.DatabaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()

	engine, err := troupe.New(pool, p.Config)
	if err != nil {
		return err
	}
	counts, err := troupe.Register(engine, defineCensus(counter{p.Root, ledger}))
	if err != nil {
		return err
	}
	probes, err := troupe.Register(engine, defineProbe())
	if err != nil {
		return err
	}
	if err := engine.Start(ctx); err != nil {
		return err
	}
	trigger := &triggers{counts, probes}
	orphaned, err := p.converse(ctx, engine, trigger)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if orphaned {
		cancel() // the parent is gone: do not wait for running steps
	}
	return errors.Join(err, engine.Stop(stop))
}

// stopGrace bounds a pod's stop; the parent kills one that takes longer.
const stopGrace = 10 * time.Second

// converse answers requests until one is to stop, or the parent is gone.
func (p Pod) converse(ctx context.Context, engine *troupe.Engine, trigger *triggers) (orphaned bool, err error) {
	out := json.NewEncoder(p.Out)
	if err := out.Encode(reply{Ready: true}); err != nil {
		return true, err
	}
	requests := readRequests(p.In)
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-engine.Done():
			return false, engine.Err()
		case asked, more := <-requests:
			if !more || asked.Stop {
				return !more, nil
			}
			if err := out.Encode(trigger.answer(ctx, asked)); err != nil {
				return true, err
			}
		}
	}
}

// readRequests hands on what the parent asks until its end of the pipe closes,
// which the kernel does if it dies.
func readRequests(in io.Reader) <-chan request {
	requests := make(chan request)
	go func() {
		defer close(requests)
		for decoder := json.NewDecoder(in); ; {
			var asked request
			if decoder.Decode(&asked) != nil {
				return
			}
			requests <- asked
		}
	}()
	return requests
}

// triggers are the handles of what the pod registers.
type triggers struct {
	counts *troupe.Handle[string, census.Total]
	probes *troupe.Handle[int, int]
}

func (t *triggers) answer(ctx context.Context, asked request) reply {
	var done reply
	for len(asked.Packages) > 0 {
		batch := asked.Packages[:min(len(asked.Packages), troupe.RunManyMax)]
		asked.Packages = asked.Packages[len(batch):]
		runs, err := t.counts.RunMany(ctx, batch, troupe.Tenant(asked.Tenant))
		if err != nil {
			return reply{Runs: done.Runs, Error: err.Error()}
		}
		for _, run := range runs {
			done.Runs = append(done.Runs, fmt.Sprint(run.ID()))
		}
	}
	for n := range asked.Probes {
		if _, err := t.probes.Run(ctx, n); err != nil {
			return reply{Error: err.Error()}
		}
	}
	return done
}

// Executable is the program to run as a pod: this one.
func Executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return path, nil
}

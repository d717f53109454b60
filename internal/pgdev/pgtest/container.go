package pgtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/testcontainers/testcontainers-go"

	"github.com/troupe-dev/troupe/internal/pgdev"
)

const (
	defaultImage   = "postgres:17-alpine"
	containerPort  = "5432/tcp"
	containerUser  = "troupe"
	containerData  = "/var/lib/postgresql/data"
	answerInterval = 100 * time.Millisecond // the image's first start takes seconds
)

// startContainer runs the image and returns the server in it once it answers.
func startContainer(ctx context.Context, settings map[string]string) (*pgdev.Server, func(context.Context) error, error) {
	image := os.Getenv("TROUPE_TEST_IMAGE")
	if image == "" {
		image = defaultImage
	}
	container, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(map[string]string{
			"POSTGRES_USER": containerUser, "POSTGRES_PASSWORD": containerUser, "POSTGRES_DB": "postgres",
		}),
		testcontainers.WithExposedPorts(containerPort),
		testcontainers.WithTmpfs(map[string]string{containerData: "rw"}), // each test copies a database
		testcontainers.WithCmd(containerCommand(settings)...),
	)
	stop := func(context.Context) error { return testcontainers.TerminateContainer(container) }
	if err != nil {
		_ = stop(ctx) // the start's error says more
		return nil, nil, fmt.Errorf("start a container of %s: %w", image, err)
	}
	server, err := attach(ctx, container)
	if err != nil {
		_ = stop(ctx) // as above
		return nil, nil, fmt.Errorf("reach the container of %s: %w", image, err)
	}
	return server, stop, nil
}

// attach waits for the server: Docker's end of the port accepts connections
// before PostgreSQL does.
func attach(ctx context.Context, container *testcontainers.DockerContainer) (*pgdev.Server, error) {
	endpoint, err := container.PortEndpoint(ctx, containerPort, "")
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("postgres://%s:%s@%s/postgres?sslmode=disable", containerUser, containerUser, endpoint)
	ticker := time.NewTicker(answerInterval)
	defer ticker.Stop()
	for {
		server, err := pgdev.Attach(ctx, url)
		if err == nil {
			return server, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

func containerCommand(settings map[string]string) []string {
	all := map[string]string{
		"wal_level": "logical", "max_wal_senders": "32", "max_replication_slots": "32",
		"max_connections": "300", "fsync": "off", "timezone": "UTC",
	}
	maps.Copy(all, settings)
	command := []string{"postgres"}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		command = append(command, "-c", name+"="+all[name])
	}
	return command
}

// dockerAnswers reports whether a container could be started. The library
// panics where it finds no Docker at all.
func dockerAnswers(ctx context.Context) (answers bool) {
	defer func() {
		if recover() != nil {
			answers = false
		}
	}()
	provider, err := testcontainers.ProviderDocker.GetProvider()
	if err != nil {
		return false
	}
	defer func() { _ = provider.Close() }() // it was only asked
	return provider.Health(ctx) == nil
}

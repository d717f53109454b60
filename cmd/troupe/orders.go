package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/orders"
)

func ordersCommand(w world) *cobra.Command {
	flags := target{connections: orders.PoolMax}
	var listen string
	c := &cobra.Command{
		Use:   "orders",
		Short: "Be a pod of the order-processing example, with an HTTP port",
		Long: "Be a pod of the order-processing example: what a service with troupe in it looks like.\n" +
			"POST /orders {\"ID\": \"o-1\", \"Cents\": 4200} starts a run, GET /orders/RUN shows it,\n" +
			"GET /livez and /readyz are for probes. SIGTERM stops it in good order.\n" +
			"Settings come from TROUPE_ variables; the tables must exist: troupe migrate up.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			chosen, err := flags.complete(w.environ)
			if err != nil {
				return &usageError{err}
			}
			if err := orders.CheckListen(listen); err != nil {
				return &usageError{err}
			}
			outliveReaders()
			config := chosen.config
			config.Logger = slog.New(slog.NewJSONHandler(w.err, nil))
			pool, err := chosen.open(c.Context())
			if err != nil {
				return &usageError{err}
			}
			defer pool.Close()
			return orders.Serve(c.Context(), pool, config, listen)
		},
	}
	c.Flags().StringVar(&flags.url, "database-url", "", "the database (default: "+environment.DatabaseURL+")")
	c.Flags().StringVar(&flags.schema, "schema", "", "schema of the tables (default: TROUPE_SCHEMA, else troupe)")
	c.Flags().StringVar(&listen, "listen", ":8080", "address of the HTTP port")
	return c
}

package postgres

import "context"

// Ping asks for an answer on the connection that renews the pod's lease: whoever
// gets none cannot renew it either.
func (s *Store) Ping(ctx context.Context) error { return translate(s.lease.Ping(ctx)) }

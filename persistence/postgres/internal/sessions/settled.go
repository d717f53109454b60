package sessions

import "github.com/jackc/pgx/v5"

// settledRows are rows of a statement that was sent with its settings. Once they
// have been read, so has whether it was committed.
type settledRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error // of the end
}

// Next implements pgx.Rows.
func (r *settledRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close implements pgx.Rows.
func (r *settledRows) Close() {
	r.Rows.Close()
	if err := r.results.Close(); r.err == nil {
		r.err = err
	}
}

// Err implements pgx.Rows.
func (r *settledRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// settledRow is the first of settledRows.
type settledRow struct {
	rows pgx.Rows
	err  error
}

// Scan implements pgx.Row.
func (r settledRow) Scan(targets ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(targets...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

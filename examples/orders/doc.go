// Package orders is the showpiece: an order that is validated, charged, held
// back for a day in case of fraud, shipped, and closed, whichever way it went.
//
//	validate ─┬─ valid ── charge ─┬─ fraud-window (24 h) ─┬─ ship ─┐
//	          │                   └─ prepare-shipment ────┘        ├─ finalize
//	          └─ invalid ── reject ────────────────────────────────┘
package orders

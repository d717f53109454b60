// Package moving shows how a service moves from another queue to troupe, a share of its work after
// the other, and back if it has to: docs/moving.md is the guide.
package moving

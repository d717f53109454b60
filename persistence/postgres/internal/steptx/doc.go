// Package steptx begins the transactions of steps on the embedder's pool, and says whose
// fault it is when one fails.
package steptx

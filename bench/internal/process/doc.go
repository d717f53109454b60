// Package process runs measurements in processes of their own: the memory, the
// garbage and the leftover goroutines of one peer touch no other.
package process

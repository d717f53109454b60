// Package family writes what decisions make of child runs and of their parents, and reads what
// runs have not heard of each other. It locks no run.
package family

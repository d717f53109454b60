// Package report turns the numbers of repeats into lines: medians, ratios to the
// best peer and to the limit, a table and JSON.
package report

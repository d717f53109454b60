package otel

// Parse is parse, for its test.
var Parse = parse

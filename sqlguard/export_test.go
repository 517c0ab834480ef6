package sqlguard

// Steady is tested by itself, since its grace is longer than a test may wait.
var Steady = steady

// StaysInside is tested by itself: what it wrongly admits shows only where a
// procedure commits.
var StaysInside = staysInside

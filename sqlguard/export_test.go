package sqlguard

// Steady is tested by itself, since its grace is longer than a test may wait.
var Steady = steady

// Package release rehearses a release: its test tags a clone, serves the clone's modules
// through a file-system module proxy, and uses them from new modules as a user does.
// RELEASING.md has the steps that it rehearses.
package release

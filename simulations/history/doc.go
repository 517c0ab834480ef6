// Package history writes down what writers asked for and what became of it,
// and judges it.
package history

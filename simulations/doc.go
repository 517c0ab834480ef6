// Package simulations proves that code survives the pause.
package simulations

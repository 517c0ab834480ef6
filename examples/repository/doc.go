// Package repository has the same repository three times, to be compared. The methods
// keep their signatures: the token is in ctx.
//
//	before    no guard
//	after     Guard.Update and Guard.On in the place of a transaction and of a statement
//	rows      rowguard.Table: the row carries its own mark
//
// Compare them with
//
//	diff examples/repository/before examples/repository/after
package repository

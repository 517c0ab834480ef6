// Package repository has one repository three times, to be read side by side.
// The methods keep their signatures: the token comes with ctx.
//
//	before    no guard
//	after     Guard.Update and Guard.On in the place of a transaction and of a statement
//	rows      sqlguard.Table: the row carries its own mark
//
// Compare them with
//
//	diff examples/repository/before examples/repository/after
package repository

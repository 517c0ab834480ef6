// Package ent is what ent generates from package schema, for the example of
// docs/adopt.md. Run go generate here, then go mod tidy: ent's own command needs more
// than its code does.
package ent

//go:generate env GOWORK=off go run -mod=mod entgo.io/ent/cmd/ent generate ./schema

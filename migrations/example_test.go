package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/fencepost/fencepost/migrations"
)

// fit is for a service's start, before it takes work.
func fit(ctx context.Context, pool *pgxpool.Pool) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	return migrations.Set{}.Check(ctx, db)
}

// upgrade is for a program that runs goose itself.
func upgrade(ctx context.Context, db *sql.DB) error {
	files, err := migrations.Set{}.FS()
	if err != nil {
		return err
	}
	store, err := database.NewStore(database.DialectPostgres, "fencepost_versions")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider("", db, files, goose.WithStore(store), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://admin@db.example.com/shop")
	if err != nil {
		log.Fatal(err)
	}
	if err := (migrations.Set{}).Up(ctx, db); err != nil {
		log.Fatal(err)
	}
	status, err := migrations.Set{}.Status(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range status {
		fmt.Println(m.File, m.AppliedAt)
	}
}

func ExampleSet_FS() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://admin@db.example.com/shop")
	if err != nil {
		log.Fatal(err)
	}
	if err := upgrade(ctx, db); err != nil {
		log.Fatal(err)
	}
}

func ExampleSet_Check() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db.example.com/shop")
	if err != nil {
		log.Fatal(err)
	}
	var unfit *migrations.CheckError
	if err := fit(ctx, pool); errors.As(err, &unfit) {
		for _, finding := range unfit.Findings {
			fmt.Println(finding)
		}
	} else if err != nil {
		fmt.Println("the database does not answer:", err)
	}
}

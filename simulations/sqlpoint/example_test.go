package sqlpoint_test

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/simulations/sqlpoint"
)

// The test opens its database by sqlpoint; the program's own code does not change.
func ExampleOpen() {
	db, err := sqlpoint.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	var n int
	err = db.QueryRowContext(context.Background(), "SELECT 42").Scan(&n)
	fmt.Println(n, err)
	// Output: 42 <nil>
}

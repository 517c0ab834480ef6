package sqlguard

import "context"

// Insert inserts the row of a key, with its mark. It is admitted in the marks
// table first, in the same packet, as [Guard.On] has it: the row that is not
// there yet has no mark, and the one that was there may have been deleted under
// a newer token. A row with that key is the driver's error (SQLSTATE 23505),
// with nothing applied. The set may be empty.
func (t *Table) Insert(ctx context.Context, key any, set Set) error {
	w, err := t.target(ctx, key)
	if err != nil {
		return err
	}
	return w.write(ctx, verbInsert, set, true)
}

// Upsert inserts the row of a key or, where it is there, updates it: see
// [Table.Insert] and [Table.Update]. Key must be the table's primary key or have
// a unique index of its own. With an empty set the row is only made, or its
// mark raised.
func (t *Table) Upsert(ctx context.Context, key any, set Set) error {
	w, err := t.target(ctx, key)
	if err != nil {
		return err
	}
	return w.write(ctx, verbUpsert, set, true)
}

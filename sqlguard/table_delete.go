package sqlguard

import "context"

// Delete deletes the row of a key. The row's mark goes with the row, so the
// token is admitted in the marks table first, in the same packet, where its
// mark stays: an older token inserts nothing there afterwards.
func (t *Table) Delete(ctx context.Context, key any) error {
	w, err := t.target(ctx, key)
	if err != nil {
		return err
	}
	return w.write(ctx, verbDelete, nil, true)
}

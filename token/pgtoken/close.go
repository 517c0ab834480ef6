package pgtoken

// Close ends the connection of the notifications, which ends by itself when
// nobody has waited for a minute. It is not the pool's any more: close the Issuer
// before the pool, where that matters. Nothing else ends: whoever waits goes on
// to wait, and polls. The error is always nil.
func (i *Issuer) Close() error {
	i.line.giveUp()
	i.line.group.Wait()
	return nil
}

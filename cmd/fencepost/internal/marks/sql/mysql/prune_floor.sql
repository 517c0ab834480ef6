-- Raises the floor to the cutoff {1}. Waits for claims in progress, which share this row until their marks are raised: a claim
-- that has compared its token with the old floor commits its mark before the deletion of marks begins.
UPDATE fencepost_floor SET number = {1} WHERE number < {1}

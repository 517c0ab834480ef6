-- Locks the mark of {resource} exclusively, after every writer that shares it has
-- finished. A missing mark is created at the {floor}, and mysql_mint.sql raises it in the
-- same transaction.
INSERT INTO fencepost_marks (resource, number, holder) VALUES (x'{resource}', GREATEST({floor}, 1), x'{holder}')
ON DUPLICATE KEY UPDATE number = number

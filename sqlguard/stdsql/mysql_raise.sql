-- Raises the mark of {resource} to {number} and {holder} if it is lower, after every
-- transaction that shares it has ended. The holder comes first: assignments run from left
-- to right, and each one sees the previous ones.
INSERT INTO fencepost_marks (resource, number, holder) VALUES (x'{resource}', {number}, x'{holder}')
ON DUPLICATE KEY UPDATE holder = IF(number < {number}, x'{holder}', holder), number = GREATEST(number, {number})

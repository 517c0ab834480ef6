-- Raises the mark of {resource} to {number} and {holder}, having waited for everybody who holds it in place. One that is not
-- below is left as it is. The holder comes first: assignments are made from left to right, and see those before them.
INSERT INTO fencepost_marks (resource, number, holder) VALUES (x'{resource}', {number}, x'{holder}')
ON DUPLICATE KEY UPDATE holder = IF(number < {number}, x'{holder}', holder), number = GREATEST(number, {number})

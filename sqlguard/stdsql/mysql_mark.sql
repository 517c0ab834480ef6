-- Reads the last committed mark and waits for no lock. {resource} is hexadecimal: see
-- mysql.go.
SELECT number, holder FROM fencepost_marks WHERE resource = x'{resource}'

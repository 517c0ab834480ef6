-- The mark as it was committed last, without waiting for anybody. {resource} in hexadecimal: see mysql_statements.go.
SELECT number, holder FROM fencepost_marks WHERE resource = x'{resource}'

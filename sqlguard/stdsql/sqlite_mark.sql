-- The mark that has refused a token. ?1 resource.
SELECT number, holder FROM fencepost_marks WHERE resource = ?1

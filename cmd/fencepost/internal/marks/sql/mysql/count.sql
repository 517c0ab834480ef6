-- The number of marks. {1} prefix of the resource.
SELECT COUNT(*) FROM fencepost_marks m WHERE LEFT(m.resource, OCTET_LENGTH({1})) = {1}

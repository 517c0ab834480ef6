-- Sets the mark of resource {1}, which is locked, to number {2} and holder {3}.
UPDATE fencepost_marks SET number = {2}, holder = {3} WHERE resource = {1}

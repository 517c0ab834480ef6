-- Tables of five thousand accounts. Each worker writes one account, and the accounts
-- of different workers are in different pages.
CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL, owner text NOT NULL);
INSERT INTO accounts SELECT id, 100, 'owner ' || id FROM generate_series(1, 5000) id;

CREATE TABLE fenced (LIKE accounts INCLUDING ALL);
SELECT fencepost.add_mark_columns('fenced');
INSERT INTO fenced SELECT *, 33, 'c2f1-worker-1' FROM accounts;

-- The marks of a program that checks its tokens by hand.
CREATE TABLE fences (resource text PRIMARY KEY, number bigint NOT NULL);
INSERT INTO fences VALUES ('branch/7', 33);

ANALYZE accounts, fenced;

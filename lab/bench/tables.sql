-- Four tables of five thousand accounts. Each worker writes one account, and the accounts
-- of different workers are in different pages.
CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL, owner text NOT NULL);
INSERT INTO accounts SELECT id, 100, 'owner ' || id FROM generate_series(1, 5000) id;

CREATE TABLE fenced (LIKE accounts INCLUDING ALL);
SELECT fencepost.add_mark_columns('fenced');
INSERT INTO fenced SELECT *, 33, 'c2f1-worker-1' FROM accounts;

CREATE TABLE protected (LIKE accounts INCLUDING ALL);
INSERT INTO protected SELECT * FROM accounts;
SELECT fencepost.protect('protected', $$'account/' || id$$);

-- The marks of a program that checks its tokens by hand.
CREATE TABLE fences (resource text PRIMARY KEY, number bigint NOT NULL);

-- The units of a program that records them by hand.
CREATE TABLE units (
  resource text, key text, fingerprint bytea NOT NULL, result bytea, kept_until timestamptz NOT NULL,
  PRIMARY KEY (resource, key));

ANALYZE accounts, fenced, protected;
